%% @private
%% @doc Gets a message, a request or an answer into a session's shard when the plain case did not do it.
%%
%% Called by whoever pushes (`hawser', `hawser_request', `hawser_body'), in the process that pushes. Lets the VM's
%% encoder make a plain term of what the native one refuses, and waits for room in the shard, no longer than the
%% caller's limit. Never chooses another way: without a session the answer is `noroute'.
-module(hawser_push).

-export([to_node/4, to_node/5, answer/4, settle/5]).

-export_type([limit/0, pushed/0, way/0, form/0]).

-type limit() :: nosuspend | deadline().
-type deadline() :: infinity | (MonotonicMs :: integer()).
-type way() ::
    {node, node(), hawser_nif:destination()}
    | {answer, hawser_nif:shard(), Body :: pid(), hawser_nif:call_id()}.
%% What a content is: the term itself, its external term format, or what `hawser_nif:encode_once/1' made of it.
-type form() :: term | plain | encoded.
%% `busy': there was no room within the limit. A call's number stands for `ok'.
-type pushed() :: ok | hawser_nif:call_id() | noroute | system_limit | busy.

-spec to_node(node(), hawser_nif:destination(), term(), limit()) -> pushed().
to_node(Node, To, Message, Limit) ->
    settle(hawser_nif:push(Node, To, Message), {node, Node, To}, term, Message, Limit).

-spec to_node(node(), hawser_nif:destination(), form(), Content :: term(), limit()) -> pushed().
to_node(Node, To, Form, Content, Limit) ->
    Way = {node, Node, To},
    settle(push(Way, Form, Content), Way, Form, Content, Limit).

%% The answer to a call, behind all that the body has sent; waits for room as long as the session lives.
-spec answer(hawser_nif:shard(), Body :: pid(), hawser_nif:call_id(), term()) -> pushed().
answer(Shard, Body, Call, Outcome) ->
    Way = {answer, Shard, Body, Call},
    settle(push(Way, term, Outcome), Way, term, Outcome, infinity).

%% What follows from a push's answer; `Form' says what `Content' is.
-spec settle(pushed() | plain | {busy, pid()}, way(), form(), Content :: term(), limit()) -> pushed().
settle(plain, Way, term, Content, Limit) ->
    Plain = term_to_binary(Content),
    settle(push(Way, plain, Plain), Way, plain, Plain, Limit);
settle({busy, _}, _Way, _Form, _Content, nosuspend) ->
    busy;
settle({busy, Flusher}, Way, Form, Content, Deadline) ->
    case wait_for_room(Flusher, last, fun() -> push(again(Way, Deadline), Form, Content) end, Deadline) of
        busy -> busy;
        Pushed -> settle(Pushed, again(Way, Deadline), Form, Content, Deadline)
    end;
settle(Pushed, _Way, _Form, _Content, _Limit) ->
    Pushed.

push({node, Node, To}, term, Message) -> hawser_nif:push(Node, To, Message);
push({node, Node, To}, plain, Plain) -> hawser_nif:push_plain(Node, To, Plain);
push({node, Node, To}, encoded, Encoded) -> hawser_nif:push_encoded(Node, To, Encoded);
push({answer, Shard, Body, Call}, term, Outcome) -> hawser_nif:answer(Shard, Body, Call, Outcome);
push({answer, Shard, Body, Call}, plain, Plain) -> hawser_nif:answer_plain(Shard, Body, Call, Plain).

%% A call that had to wait has less time left.
again({node, Node, {call, Alias, _}}, Deadline) -> {node, Node, {call, Alias, left(Deadline)}};
again(Way, _) -> Way.

%% Waits in an ordinary receive, so that the caller can be killed; the alias dies with the wait, so that no wake-up
%% stays behind. The flusher's end is the session's end: the push then finds no route.
wait_for_room(Flusher, Place, Again, Deadline) ->
    Alias = monitor(process, Flusher, [{alias, demonitor}]),
    Flusher ! {wait, Alias, Place},
    receive
        {Alias, room} ->
            demonitor(Alias, [flush]),
            case Again() of
                {busy, Flusher} -> wait_for_room(Flusher, first, Again, Deadline);
                Other -> Other
            end;
        {'DOWN', Alias, process, Flusher, _} ->
            Again()
    after left(Deadline) ->
        demonitor(Alias, [flush]),
        receive {Alias, room} -> ok after 0 -> ok end,
        busy
    end.

left(infinity) -> infinity;
left(Deadline) -> max(0, Deadline - erlang:monotonic_time(millisecond)).
