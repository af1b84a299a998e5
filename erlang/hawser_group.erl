%% @private
%% @doc Casts and calls to a group of nodes: whom to ask, in which order, and what the answers come to.
%%
%% Called by `hawser', which documents each function, with a plan of checked arguments. Never waits for messages itself:
%% `hawser_request' asks one node, `hawser_gather' asks many.
-module(hawser_group).

-export([plan/5]).
-export([cast_one/1, cast_all/1, call_one/1, call_any/1, call_all/1, call_all_wait/1]).

-export_type([plan/0, options/0, tagged/0]).

-record(plan, {
    %% Each once, in the order given.
    nodes :: [node()],
    mfa :: hawser_request:mfargs(),
    rpc_errors = default :: boolean() | default,
    deadline = infinity :: hawser_request:deadline()
}).

-opaque plan() :: #plan{}.
-type options() :: boolean() | #{rpc_errors => boolean(), timeout => timeout()}.
-type tagged() :: {node(), term()}.

-define(IS_TIMEOUT(T), (T =:= infinity orelse (is_integer(T) andalso T >= 0 andalso T =< 4294967295))).

%% @doc Checks the arguments of a group function. The deadline counts from here.
-spec plan(term(), term(), term(), term(), term()) -> {ok, plan()} | badarg.
plan(Nodes, M, F, A, Opts) when is_atom(M), is_atom(F), length(A) >= 0, length(Nodes) >= 0 ->
    case lists:all(fun is_atom/1, Nodes) of
        true -> options(Opts, #plan{nodes = lists:uniq(Nodes), mfa = {M, F, A}});
        false -> badarg
    end;
plan(_, _, _, _, _) ->
    badarg.

options(RpcErrors, Plan) when is_boolean(RpcErrors) ->
    {ok, Plan#plan{rpc_errors = RpcErrors}};
options(Opts, Plan) when is_map(Opts) ->
    option(maps:to_list(Opts), Plan);
options(_, _) ->
    badarg.

option([], Plan) ->
    {ok, Plan};
option([{rpc_errors, RpcErrors} | Opts], Plan) when is_boolean(RpcErrors) ->
    option(Opts, Plan#plan{rpc_errors = RpcErrors});
option([{timeout, Timeout} | Opts], Plan) when ?IS_TIMEOUT(Timeout) ->
    option(Opts, Plan#plan{deadline = hawser_request:deadline(Timeout)});
option(_, _) ->
    badarg.

%% ---- casts ----

-spec cast_one(plan()) -> ok.
cast_one(#plan{nodes = []}) ->
    ok;
cast_one(#plan{nodes = Nodes, mfa = Mfa}) ->
    hawser_request:cast(hd(own_first(Nodes)), Mfa).

%% Nodes that make the caller wait come after all the others.
-spec cast_all(plan()) -> ok.
cast_all(#plan{nodes = Nodes, mfa = Mfa}) ->
    Request = hawser_request:prepare(lists:delete(node(), Nodes), Mfa),
    Tried = [{hawser_request:cast_now(Node, Request), Node} || Node <- Nodes],
    %% Without a fallback the caller waits for sessions: for all of them together as long as for one.
    Deadline = hawser_request:deadline(hawser_config:get(connect_timeout_ms)),
    lists:foreach(fun(Node) -> ok = hawser_request:cast(Node, Request, Deadline) end, [Node || {later, Node} <- Tried]),
    case lists:keymember(system_limit, 1, Tried) of
        true -> error(system_limit);
        false -> ok
    end.

%% ---- calls ----

-spec call_one(plan()) -> {ok, tagged()} | {error, none_is_available | [tagged()]}.
call_one(#plan{nodes = Nodes} = Plan) ->
    call_one(own_first(Nodes), Plan, []).

call_one([], _, Errors) ->
    failed(lists:reverse(Errors));
call_one([Node | Nodes], #plan{mfa = Mfa, deadline = Deadline} = Plan, Errors) ->
    Outcome = case hawser_request:left_ms(Deadline) of
        0 -> {system, timeout};
        _ -> hawser_request:call(Node, Mfa, Deadline)
    end,
    case judge(Outcome, Plan) of
        {ok, Value} -> {ok, {Node, Value}};
        {error, Reason} -> call_one(Nodes, Plan, [{Node, Reason} | Errors]);
        left_out -> call_one(Nodes, Plan, Errors)
    end.

-spec call_any(plan()) -> {ok, tagged()} | {error, none_is_available | [tagged()]}.
call_any(#plan{nodes = Nodes} = Plan) ->
    gather(Plan, #{}, fun
        (Node, {ok, Value}, _) -> {stop, {ok, {Node, Value}}};
        (Node, {error, Reason}, Errors) -> {go_on, Errors#{Node => Reason}};
        (done, done, Errors) -> failed(in_order(Nodes, Errors))
    end).

-spec call_all(plan()) -> {ok, [tagged()]} | {error, none_is_available | tagged()}.
call_all(#plan{nodes = Nodes} = Plan) ->
    gather(Plan, #{}, fun
        (Node, {ok, Value}, Values) -> {go_on, Values#{Node => Value}};
        (Node, {error, Reason}, _) -> {stop, {error, {Node, Reason}}};
        (done, done, Values) when map_size(Values) =:= 0 -> {error, none_is_available};
        (done, done, Values) -> {ok, in_order(Nodes, Values)}
    end).

-spec call_all_wait(plan()) -> {Replies :: [tagged()], Rejects :: [tagged()]}.
call_all_wait(#plan{rpc_errors = default} = Plan) ->
    call_all_wait(Plan#plan{rpc_errors = true});
call_all_wait(#plan{nodes = Nodes} = Plan) ->
    gather(Plan, {#{}, #{}}, fun
        (Node, {ok, Value}, {Replies, Rejects}) -> {go_on, {Replies#{Node => Value}, Rejects}};
        (Node, {error, Reason}, {Replies, Rejects}) -> {go_on, {Replies, Rejects#{Node => Reason}}};
        (done, done, {Replies, Rejects}) -> {in_order(Nodes, Replies), in_order(Nodes, Rejects)}
    end).

failed([]) -> {error, none_is_available};
failed(Errors) -> {error, Errors}.

in_order(Nodes, ByNode) ->
    [{Node, maps:get(Node, ByNode)} || Node <- Nodes, is_map_key(Node, ByNode)].

%% Asks all nodes at once and gives each answer to the function, until it has heard enough or there are no more.
gather(#plan{nodes = Nodes, mfa = Mfa, deadline = Deadline} = Plan, State, Hear) ->
    heard(hawser_gather:ask(Nodes, Mfa, Deadline), Plan, State, Hear).

heard(Gather, Plan, State, Hear) ->
    case hawser_gather:next(Gather) of
        done ->
            ok = hawser_gather:stop(Gather),
            Hear(done, done, State);
        {Node, Outcome, Rest} ->
            case judge(Outcome, Plan) of
                left_out ->
                    heard(Rest, Plan, State, Hear);
                Answer ->
                    case Hear(Node, Answer, State) of
                        {go_on, Next} -> heard(Rest, Plan, Next, Hear);
                        {stop, Verdict} -> ok = hawser_gather:stop(Rest), Verdict
                    end
            end
    end.

judge(Outcome, #plan{rpc_errors = RpcErrors}) ->
    case hawser_answer:of_outcome(Outcome) of
        {error, {badrpc, _}} when RpcErrors =/= true -> left_out;
        Answer -> Answer
    end.

%% This node, if it is among them, and the others in random order. Not by `rand': it would write to the caller's
%% process dictionary.
own_first(Nodes) ->
    {Own, Others} = lists:partition(fun(Node) -> Node =:= node() end, Nodes),
    Own ++ [Node || {_, Node} <- lists:sort([{erlang:phash2(make_ref()), Node} || Node <- Others])].
