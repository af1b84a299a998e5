%% @doc OTP's `erpc', over hawser: every function, type, result and error, so that `erpc:' can be replaced by
%% `hawser_erpc:'.
%%
%% What is sent to a node with a session goes through it; to a node without one over distribution; what is for this node
%% is done by `erpc' itself. Starts no process on the calling side and keeps no state. Request ids and collections are
%% this module's own: those of `erpc' are not taken here, nor these there.
%%
%% An error is one of: `throw:Value', `exit:{exception, Reason}' and `error:{exception, Reason, Stack}' for what the
%% function raised; `exit:{signal, Reason}' when its process was ended by a signal; `error:{erpc, Reason}' with
%%
%% <dl>
%% <dt>`badarg'</dt><dd>an argument is not what it should be: nothing was sent; or a request id has no response to
%% give, because it was received before or belongs to another process</dd>
%% <dt>`noconnection'</dt><dd>the node cannot be reached, or was lost: the function may have run</dd>
%% <dt>`timeout'</dt><dd>no result in time: the function may have run, may be running, and is not ended. The result
%% never comes. Other than in `erpc', a {@link call/5} or {@link multicall/5} that did not reach the function in time
%% does not run it later</dd>
%% <dt>`system_limit'</dt><dd>more than 255 arguments, no room for another process at the node, or, other than in
%% `erpc', a request or a result longer than `max_message_bytes'</dd>
%% <dt>`notsup'</dt><dd>the node knows no such request</dd>
%% </dl>
%%
%% Timeouts are in milliseconds, 0 to 4294967295; `infinity'; or `{abs, Ms}', a moment of
%% `erlang:monotonic_time(millisecond)', not further ahead than that. A result that has come already wins over a
%% timeout. A request that has to wait for room in its shard waits within its timeout; one without a timeout, as in
%% {@link send_request/4} or {@link cast/4}, as long as it takes. With `fallback' set to `none' requests to a node
%% without a session wait for one, up to `connect_timeout_ms'.
-module(hawser_erpc).

-export([call/2, call/3, call/4, call/5]).
-export([cast/2, cast/4, multicast/2, multicast/4]).
-export([multicall/2, multicall/3, multicall/4, multicall/5]).
-export([send_request/2, send_request/4, send_request/6]).
-export([receive_response/1, receive_response/2, receive_response/3]).
-export([wait_response/1, wait_response/2, wait_response/3]).
-export([check_response/2, check_response/3]).
-export([reqids_new/0, reqids_size/1, reqids_add/3, reqids_to_list/1]).

-export_type([request_id/0, request_id_collection/0, timeout_time/0, call_options/0]).

-type timeout_time() :: 0..4294967295 | infinity | {abs, MonotonicMs :: integer()}.
-type call_options() :: #{timeout => timeout_time(), always_spawn => boolean()}.
%% `always_spawn': a process of its own even where the calling process would do, which is on this node without a
%% timeout.

-opaque request_id() :: hawser_request:pending().
-type request_id_collection() :: hawser_erpc_collection:collection().

-type caught() ::
    {throw, term()}
    | {exit, {exception | signal, Reason :: term()}}
    | {error, {exception, Reason :: term(), Stack :: [term()]} | {erpc, Reason :: term()}}.

-define(MAX_MS, 4294967295).
-define(FAIL(Reason), error({erpc, Reason})).

%% ---- calls ----

%% @equiv call(Node, Fun, infinity)
-spec call(node(), fun(() -> term())) -> term().
call(Node, Fun) ->
    call(Node, Fun, infinity).

%% @equiv call(Node, erlang, apply, [Fun, []], Timeout)
-spec call(node(), fun(() -> term()), timeout_time() | call_options()) -> term().
call(Node, Fun, Timeout) when is_function(Fun, 0) ->
    call(Node, erlang, apply, [Fun, []], Timeout);
call(_, _, _) ->
    ?FAIL(badarg).

%% @equiv call(Node, Module, Function, Args, infinity)
-spec call(node(), module(), Function :: atom(), Args :: [term()]) -> term().
call(Node, M, F, A) ->
    call(Node, M, F, A, infinity).

%% @doc Runs the function at `Node' and returns what it returns. On this node, without a timeout and unless
%% `always_spawn' says otherwise, it runs in the calling process; else in a process of its own, with the caller's group
%% leader, which the caller's end does not end. The options are those of OTP 28's erpc, on every OTP.
-spec call(node(), module(), Function :: atom(), Args :: [term()], timeout_time() | call_options()) -> term().
call(Node, M, F, A, #{} = Options) ->
    {Timeout, AlwaysSpawn} = options(Options),
    case AlwaysSpawn andalso Node =:= node() of
        true -> call_in_own_process(M, F, A, deadline(Timeout));
        false -> call(Node, M, F, A, Timeout)
    end;
call(Node, M, F, A, Timeout) when Node =/= node(), is_atom(Node), is_atom(M), is_atom(F), is_list(A) ->
    result(hawser_request:call(Node, {M, F, A}, deadline(Timeout)));
call(Node, M, F, A, Timeout) when Node =:= node() ->
    erpc:call(Node, M, F, A, Timeout);
call(_, _, _, _, _) ->
    ?FAIL(badarg).

options(Options) ->
    Timeout = maps:get(timeout, Options, infinity),
    _ = deadline(Timeout),
    case maps:get(always_spawn, Options, false) of
        AlwaysSpawn when is_boolean(AlwaysSpawn) -> {Timeout, AlwaysSpawn};
        _ -> ?FAIL(badarg)
    end.

call_in_own_process(M, F, A, Deadline) when is_atom(M), is_atom(F), is_list(A) ->
    result(hawser_request:receive_outcome(hawser_request:send(node(), {M, F, A}, Deadline), Deadline));
call_in_own_process(_, _, _, _) ->
    ?FAIL(badarg).

%% ---- casts ----

%% @equiv cast(Node, erlang, apply, [Fun, []])
-spec cast(node(), fun(() -> term())) -> ok.
cast(Node, Fun) ->
    cast(Node, erlang, apply, [Fun, []]).

%% @doc Has the function run at `Node' by a process of its own. Nobody learns how it ends; one that fails leaves an
%% error report at the node.
-spec cast(node(), module(), Function :: atom(), Args :: [term()]) -> ok.
cast(Node, M, F, A) when is_atom(Node), is_atom(M), is_atom(F), is_list(A) ->
    case cast_to(Node, {M, F, A}, infinity) of
        ok -> ok;
        system_limit -> ?FAIL(system_limit)
    end;
cast(_, _, _, _) ->
    ?FAIL(badarg).

%% @equiv multicast(Nodes, erlang, apply, [Fun, []])
-spec multicast([node()], fun(() -> term())) -> ok.
multicast(Nodes, Fun) ->
    multicast(Nodes, erlang, apply, [Fun, []]).

%% @doc The same as {@link cast/4} to each node, as often as it is in the list. The request is encoded once. Where the
%% list goes wrong the cast has gone to the nodes before.
-spec multicast([node()], module(), Function :: atom(), Args :: [term()]) -> ok.
multicast(Nodes, M, F, A) when is_atom(M), is_atom(F), is_list(A) ->
    Deadline = hawser_request:deadline(hawser_config:get(connect_timeout_ms)),
    case multicast_to(Nodes, request(Nodes, {M, F, A}), Deadline, ok) of
        ok -> ok;
        Reason -> ?FAIL(Reason)
    end;
multicast(_, _, _, _) ->
    ?FAIL(badarg).

%% One node that takes no message so long is no reason to leave out those after it.
multicast_to([Node | Nodes], Request, Deadline, So) when is_atom(Node) ->
    case cast_to(Node, Request, Deadline) of
        ok -> multicast_to(Nodes, Request, Deadline, So);
        system_limit -> multicast_to(Nodes, Request, Deadline, system_limit)
    end;
multicast_to([], _, _, So) ->
    So;
multicast_to(_, _, _, _) ->
    badarg.

cast_to(Node, Request, Deadline) ->
    try
        hawser_request:cast(Node, Request, Deadline)
    catch
        error:system_limit -> system_limit
    end.

request([_, _ | _], Mfa) -> hawser_request:prepare(Mfa);
request(_, Mfa) -> Mfa.

%% ---- calls to many ----

%% @equiv multicall(Nodes, Fun, infinity)
-spec multicall([node()], fun(() -> term())) -> [{ok, term()} | caught()].
multicall(Nodes, Fun) ->
    multicall(Nodes, Fun, infinity).

%% @equiv multicall(Nodes, erlang, apply, [Fun, []], Timeout)
-spec multicall([node()], fun(() -> term()), timeout_time() | call_options()) -> [{ok, term()} | caught()].
multicall(Nodes, Fun, Timeout) when is_function(Fun, 0) ->
    multicall(Nodes, erlang, apply, [Fun, []], Timeout);
multicall(_, _, _) ->
    ?FAIL(badarg).

%% @equiv multicall(Nodes, Module, Function, Args, infinity)
-spec multicall([node()], module(), Function :: atom(), Args :: [term()]) -> [{ok, term()} | caught()].
multicall(Nodes, M, F, A) ->
    multicall(Nodes, M, F, A, infinity).

%% @doc Runs the function at all nodes at once and returns what became of each, in the order of the list; a node that is
%% in it twice runs the function twice. One timeout for all. Where a list is wrong, what went to the nodes before is
%% given up.
-spec multicall([node()], module(), Function :: atom(), Args :: [term()], timeout_time() | call_options()) ->
    [{ok, term()} | caught()].
multicall(Nodes, M, F, A, #{} = Options) when is_atom(M), is_atom(F), is_list(A) ->
    {Timeout, AlwaysSpawn} = options(Options),
    Deadline = deadline(Timeout),
    Here = Deadline =:= infinity andalso not AlwaysSpawn,
    Mfa = {M, F, A},
    case send_to_all(Nodes, request(Nodes, Mfa), Deadline, Here, []) of
        {ok, Sent} ->
            Own = [caught(hawser_request:call(node(), Mfa, infinity)) || lists:member(here, Sent)],
            receive_all(Sent, Deadline, Own);
        {badarg, Sent} ->
            _ = [hawser_request:abandon(Pending) || Pending <- Sent, Pending =/= here],
            ?FAIL(badarg)
    end;
multicall(_, _, _, _, #{}) ->
    ?FAIL(badarg);
multicall(Nodes, M, F, A, Timeout) ->
    multicall(Nodes, M, F, A, #{timeout => Timeout}).

%% The first call to this node is made by the caller, when all others are on their way.
send_to_all([Node | Nodes], Request, Deadline, true, Sent) when Node =:= node() ->
    send_to_all(Nodes, Request, Deadline, false, [here | Sent]);
send_to_all([Node | Nodes], Request, Deadline, Here, Sent) when is_atom(Node) ->
    send_to_all(Nodes, Request, Deadline, Here, [hawser_request:send(Node, Request, Deadline) | Sent]);
send_to_all([], _, _, _, Sent) ->
    {ok, lists:reverse(Sent)};
send_to_all(_, _, _, _, Sent) ->
    {badarg, Sent}.

receive_all([here | Sent], Deadline, [Own]) ->
    [Own | receive_all(Sent, Deadline, [])];
receive_all([Pending | Sent], Deadline, Own) ->
    Caught = caught(hawser_request:receive_outcome(Pending, Deadline)),
    [Caught | receive_all(Sent, Deadline, Own)];
receive_all([], _, _) ->
    [].

%% ---- requests ----

%% @equiv send_request(Node, erlang, apply, [Fun, []])
-spec send_request(node(), fun(() -> term())) -> request_id().
send_request(Node, Fun) when is_atom(Node), is_function(Fun, 0) ->
    send_request(Node, erlang, apply, [Fun, []]);
send_request(_, _) ->
    ?FAIL(badarg).

%% @doc Has the function run at `Node'; the calling process, and no other, gets the result later by
%% {@link receive_response/2}, {@link wait_response/2} or {@link check_response/2}. With a fun the second pair of
%% arguments is a label and a collection: as {@link send_request/6}.
-spec send_request(node(), module(), Function :: atom(), Args :: [term()]) -> request_id();
                  (node(), fun(() -> term()), Label :: term(), request_id_collection()) -> request_id_collection().
send_request(Node, M, F, A) when is_atom(Node), is_atom(M), is_atom(F), is_list(A) ->
    hawser_request:send(Node, {M, F, A}, infinity);
send_request(Node, Fun, Label, Collection) when is_atom(Node), is_function(Fun, 0) ->
    send_request(Node, erlang, apply, [Fun, []], Label, Collection);
send_request(_, _, _, _) ->
    ?FAIL(badarg).

%% @doc The same, and adds the request id to a collection, under a label.
-spec send_request(
    node(), module(), Function :: atom(), Args :: [term()], Label :: term(), request_id_collection()
) -> request_id_collection().
send_request(Node, M, F, A, Label, Collection) when is_atom(Node), is_atom(M), is_atom(F), is_list(A) ->
    hawser_erpc_collection:send(Node, {M, F, A}, Label, Collection);
send_request(_, _, _, _, _, _) ->
    ?FAIL(badarg).

%% ---- responses ----

%% @equiv receive_response(RequestId, infinity)
-spec receive_response(request_id()) -> term().
receive_response(Id) ->
    receive_response(Id, infinity).

%% @doc The result of the request, as {@link call/5} gives it. A timeout gives the request up.
-spec receive_response(request_id(), timeout_time()) -> term().
receive_response(Id, Timeout) ->
    ok = valid(Id),
    result(hawser_request:receive_outcome(Id, deadline(Timeout))).

%% @doc The next result of the collection's requests, with the label and the collection, out of which the request is
%% taken if `Delete' says so. An error has the label and the collection in its reason: `{Reason, Label, Collection}'. A
%% timeout gives all of them up. `no_request' for an empty collection.
-spec receive_response(request_id_collection(), timeout_time(), Delete :: boolean()) ->
    {term(), Label :: term(), request_id_collection()} | no_request.
receive_response(Collection, Timeout, Delete) when is_boolean(Delete) ->
    case hawser_erpc_collection:next(Collection, deadline(Timeout)) of
        no_request ->
            no_request;
        timeout ->
            ok = hawser_erpc_collection:give_up(Collection),
            ?FAIL(timeout);
        {Tag, Outcome} ->
            hawser_erpc_collection:labelled(fun() -> result(Outcome) end, Tag, Collection, Delete)
    end;
receive_response(_, _, _) ->
    ?FAIL(badarg).

%% @equiv wait_response(RequestId, 0)
-spec wait_response(request_id()) -> {response, term()} | no_response.
wait_response(Id) ->
    wait_response(Id, 0).

%% @doc The same as {@link receive_response/2}, but past the timeout it answers `no_response', and can be called again.
-spec wait_response(request_id(), timeout_time()) -> {response, term()} | no_response.
wait_response(Id, Timeout) ->
    ok = valid(Id),
    case hawser_request:receive_any(#{hawser_request:tag(Id) => Id}, deadline(Timeout)) of
        {_, Outcome} -> {response, result(Outcome)};
        timeout -> no_response
    end.

%% @doc The same as {@link receive_response/3}, but past the timeout it answers `no_response', and can be called again.
-spec wait_response(request_id_collection(), timeout_time(), Delete :: boolean()) ->
    {{response, term()}, Label :: term(), request_id_collection()} | no_response | no_request.
wait_response(Collection, Timeout, Delete) when is_boolean(Delete) ->
    case hawser_erpc_collection:next(Collection, deadline(Timeout)) of
        no_request -> no_request;
        timeout -> no_response;
        {Tag, Outcome} -> response(Outcome, Tag, Collection, Delete)
    end;
wait_response(_, _, _) ->
    ?FAIL(badarg).

%% @doc The result of the request, if `Message' is the message that brings it.
-spec check_response(Message :: term(), request_id()) -> {response, term()} | no_response.
check_response(Message, Id) ->
    ok = valid(Id),
    case hawser_request:check(Message, Id) of
        {outcome, Outcome} -> {response, result(Outcome)};
        no -> no_response
    end.

%% @doc The same for the requests of a collection; label, `Delete' and errors as in {@link receive_response/3}.
-spec check_response(Message :: term(), request_id_collection(), Delete :: boolean()) ->
    {{response, term()}, Label :: term(), request_id_collection()} | no_response | no_request.
check_response(Message, Collection, Delete) when is_boolean(Delete) ->
    case hawser_erpc_collection:check(Message, Collection) of
        no_request -> no_request;
        no -> no_response;
        {Tag, Outcome} -> response(Outcome, Tag, Collection, Delete)
    end;
check_response(_, _, _) ->
    ?FAIL(badarg).

response(Outcome, Tag, Collection, Delete) ->
    hawser_erpc_collection:labelled(fun() -> {response, result(Outcome)} end, Tag, Collection, Delete).

%% ---- collections ----

%% @doc An empty collection.
-spec reqids_new() -> request_id_collection().
reqids_new() ->
    hawser_erpc_collection:new().

%% @doc How many request ids are in the collection.
-spec reqids_size(request_id_collection()) -> non_neg_integer().
reqids_size(Collection) ->
    hawser_erpc_collection:size(Collection).

%% @doc Adds a request id under a label. `badarg' when it is in the collection.
-spec reqids_add(request_id(), Label :: term(), request_id_collection()) -> request_id_collection().
reqids_add(Id, Label, Collection) ->
    ok = valid(Id),
    hawser_erpc_collection:add(Id, Label, Collection).

%% @doc The request ids with their labels, in no order.
-spec reqids_to_list(request_id_collection()) -> [{request_id(), Label :: term()}].
reqids_to_list(Collection) ->
    hawser_erpc_collection:to_list(Collection).

valid(Id) ->
    case hawser_request:is_pending(Id) of
        true -> ok;
        false -> ?FAIL(badarg)
    end.

%% ---- what comes of it ----

result({return, Value}) -> Value;
result({throw, Value}) -> throw(Value);
result({exit, Reason}) -> exit({exception, Reason});
result({error, Reason, Stack}) -> error({exception, Reason, Stack});
%% A body that is ended by this signal is to erpc one whose node was lost.
result({signal, noconnection}) -> ?FAIL(noconnection);
result({signal, Reason}) -> exit({signal, Reason});
result({system, Reason}) -> ?FAIL(Reason).

caught(Outcome) ->
    try
        {ok, result(Outcome)}
    catch
        Class:Reason -> {Class, Reason}
    end.

deadline(infinity) ->
    infinity;
deadline(Ms) when is_integer(Ms), Ms >= 0, Ms =< ?MAX_MS ->
    hawser_request:deadline(Ms);
deadline({abs, Moment}) when is_integer(Moment) ->
    case Moment - erlang:monotonic_time(millisecond) > ?MAX_MS of
        true -> ?FAIL(badarg);
        false -> Moment
    end;
deadline(_) ->
    ?FAIL(badarg).
