%% Sends wherever an expression can stand; compiled by the suite with and without the transform, and compared. Every
%% exported function takes a destination.
-module(shapes).
-compile([export_all, nowarn_export_all]).
-import(lists, [foreach/2]).

-record(sent, {by = ?MODULE, message = self() ! by_default}).

-define(TELL(To, Message), To ! {?LINE, Message}).

%% Where the value of the send is the function's.
operator(To) -> To ! operator.
function(To) -> erlang:send(To, function).
with_options(To) -> erlang:send(To, with_options, [nosuspend]).
quoted(To) -> erlang:'!'(To, quoted).
macro(To) -> ?TELL(To, macro).
in_case(To) ->
    case To of
        [] -> nobody;
        _ -> To ! in_case
    end.
in_if(To) ->
    if
        is_list(To) -> nobody;
        true -> To ! in_if
    end.
in_andalso(To) -> note(is_true, true) andalso (To ! in_andalso).
in_orelse(To) -> note(is_false, false) orelse (To ! in_orelse).
in_match(To) -> _Sent = To ! in_match.
in_block(To) -> begin note(block), To ! in_block end.
in_after(To) -> receive never -> ok after 0 -> To ! in_after end.
in_receive(To) ->
    self() ! go,
    receive
        go -> To ! in_receive
    end.
in_try(To) ->
    try To ! in_try of
        Message -> To ! {again, Message}
    after
        note(after_try)
    end.
in_handler(To) ->
    try throw(message)
    catch Message -> To ! Message
    end.
in_fun(To) ->
    Send = fun(Message) -> To ! Message end,
    Send(in_fun).
in_named_fun(To) ->
    Send = fun Again(0) -> To ! in_named_fun; Again(N) -> Again(N - 1) end,
    Send(3).
nested(To) -> To ! (To ! nested).

%% Where it is not.
first(To) ->
    To ! first,
    done.
in_generator(To) -> [{sent, To ! X} || X <- [1, 2]].
in_filter(To) -> [X || X <- [true, false], To ! X].
in_binary(To) -> << <<(To ! X)>> || <<X>> <= <<1, 2>> >>.
in_map(To) -> #{(To ! key) => To ! value}.
in_record(To) -> #sent{by = To ! named}.
default_of_record(_) -> #sent{}.
in_catch(To) ->
    case catch To ! in_catch of
        {'EXIT', {Reason, _}} -> {failed, Reason};
        Message -> {caught, Message}
    end.
in_foreach(To) -> foreach(fun(Message) -> To ! Message end, [1, 2]).
in_case_subject(To) ->
    case To ! subject of
        subject -> right;
        _ -> wrong
    end.

%% What comes first, and what an operand that fails leaves undone.
order(To) -> note(left, To) ! note(right, order).
order_of_function(To) -> erlang:send(note(left, To), note(middle, order), note(right, [])).
failing_destination(To) -> error(note(left, destination)) ! note(right, To).
failing_message(To) -> note(left, To) ! throw(note(right, message)).
exiting(To) -> To ! exit(note(reason)).
bound_in_operand(To) ->
    {Left = To, 1} = {To, To ! 1},
    Left ! (_Message = bound).

%% External funs.
external(To) ->
    {Two, Three} = note(funs, {fun erlang:send/2, fun erlang:send/3}),
    {Two(To, 1), Three(To, 2, [])}.
external_operator(To) -> lists:foldl(fun erlang:'!'/2, 1, [To]).

%% Nothing to do with erlang's.
own(To) -> send(To, own).
send(_, Message) -> {own, Message}.
dynamic(To) -> {Module, Name} = note(dynamic, {erlang, send}), Module:Name(To, dynamic).
applied(To) -> apply(erlang, send, [To, applied]).
erpc(_) -> "erpc:call(N, F)".

note(What) -> note(What, What).
note(What, Value) ->
    put(notes, [What | case get(notes) of undefined -> []; Notes -> Notes end]),
    Value.
