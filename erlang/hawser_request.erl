%% @private
%% @doc The calling side of casts and calls: sends requests, waits for answers, gives up.
%%
%% Called by `hawser', `hawser_group' and `hawser_erpc', in the process that calls; starts no process. Every way of
%% ending is an {@type outcome()}: what the caller makes of it is the caller's business. Nothing of a request is left in
%% the caller's mailbox, or anywhere on this node, once its outcome is known or it was abandoned.
-module(hawser_request).

-export([prepare/1, cast/2, call/3, send/3, receive_outcome/2, check/2, abandon/1, tag/1]).
-export([deadline/1, left_ms/1]).

-export_type([mfargs/0, prepared/0, outcome/0, pending/0, deadline/0]).

-type mfargs() :: {module(), Function :: atom(), Args :: [term()]}.
-type deadline() :: infinity | (MonotonicMs :: integer()).

%% A request encoded once, for any number of nodes.
-opaque prepared() :: {prepared, hawser_push:form(), Content :: term(), mfargs()}.

%% How a body ended: what it returned; how it failed; that a signal ended it; or that hawser knows no more.
-type outcome() ::
    {return, term()}
    | {throw, term()}
    | {exit, Reason :: term()}
    | {error, Reason :: term(), Stack :: [term()]}
    | {signal, Reason :: term()}
    | {system, noconnection | timeout | system_limit | notsup | badarg}.

%% A request that is on its way: over a session, or over distribution.
-opaque pending() ::
    {session, Alias :: reference(), node(), hawser_nif:call_id()}
    | {dist, erpc:request_id()}
    | {known, Alias :: reference(), outcome()}.

%% @doc Encodes a request, to be given to {@link cast/2}, {@link call/3} and {@link send/3} by the same process.
-spec prepare(mfargs()) -> prepared().
prepare({M, F, A} = Mfa) ->
    Request = {group_leader(), M, F, A},
    case hawser_nif:encode_once(Request) of
        plain -> {prepared, plain, term_to_binary(Request), Mfa};
        Encoded -> {prepared, encoded, Encoded, Mfa}
    end.

%% @doc Has a process started at `Node' that runs the function; nobody learns how it ends.
-spec cast(node(), mfargs() | prepared()) -> ok.
cast(Node, Request) when Node =/= node() ->
    case push(Node, {cast}, Request, infinity) of
        ok ->
            ok;
        system_limit ->
            error(system_limit);
        noroute ->
            {M, F, A} = mfargs(Request),
            OldWay = fun() -> erpc:cast(Node, M, F, A) end,
            without_session(Node, OldWay, fun() -> cast(Node, Request) end, infinity, ok)
    end;
cast(Node, Request) ->
    {M, F, A} = mfargs(Request),
    erpc:cast(Node, M, F, A).

%% @doc Runs the function at `Node' and waits for the outcome until `Deadline'.
-spec call(node(), mfargs() | prepared(), deadline()) -> outcome().
call(Node, Request, Deadline) when Node =/= node() ->
    receive_outcome(send(Node, Request, Deadline), Deadline);
call(Node, Request, Deadline) ->
    {M, F, A} = mfargs(Request),
    over_dist(fun() -> erpc:call(Node, M, F, A, erpc_timeout(Deadline)) end).

%% @doc Sends the request; its outcome is to be received, or it is to be abandoned, by the same process.
-spec send(node(), mfargs() | prepared(), deadline()) -> pending().
send(Node, Request, Deadline) ->
    Alias = alias([reply]),
    case push(Node, {call, Alias, left_ms(Deadline)}, Request, Deadline) of
        Id when is_integer(Id) ->
            {session, Alias, Node, Id};
        noroute ->
            drop(Alias),
            without_session(
                Node,
                fun() -> over_dist(Node, Request) end,
                fun() -> send(Node, Request, Deadline) end,
                Deadline,
                {known, Alias, {system, noconnection}}
            );
        busy ->
            drop(Alias),
            {known, Alias, {system, timeout}};
        system_limit ->
            drop(Alias),
            {known, Alias, {system, system_limit}}
    end.

push(Node, To, {prepared, Form, Content, _}, Deadline) ->
    hawser_push:to_node(Node, To, Form, Content, Deadline);
push(Node, To, {M, F, A}, Deadline) ->
    hawser_push:to_node(Node, To, {group_leader(), M, F, A}, Deadline).

mfargs({prepared, _, _, Mfa}) -> Mfa;
mfargs(Mfa) -> Mfa.

over_dist(Node, Request) ->
    {M, F, A} = mfargs(Request),
    {dist, erpc:send_request(Node, M, F, A)}.

%% @doc The outcome; past the deadline the request is abandoned. An outcome that is there already wins.
-spec receive_outcome(pending(), deadline()) -> outcome().
receive_outcome({session, Alias, _, _} = Pending, Deadline) ->
    receive
        {Alias, Outcome} -> Outcome
    after left_ms(Deadline) ->
        case abandon(Pending) of
            none -> {system, timeout};
            Outcome -> Outcome
        end
    end;
receive_outcome({dist, Id}, Deadline) ->
    over_dist(fun() -> erpc:receive_response(Id, erpc_timeout(Deadline)) end);
receive_outcome({known, _, Outcome}, _) ->
    Outcome.

%% @doc Is `Message' the outcome of the request?
-spec check(term(), pending()) -> {outcome, outcome()} | no.
check({Alias, Outcome}, {session, Alias, _, _}) ->
    {outcome, Outcome};
check(Message, {dist, Id}) ->
    case over_dist(fun() -> erpc:check_response(Message, Id) end) of
        {return, no_response} -> no;
        {return, {response, Value}} -> {outcome, {return, Value}};
        Other -> {outcome, Other}
    end;
check({Alias, known}, {known, Alias, Outcome}) ->
    {outcome, Outcome};
check(_, _) ->
    no.

%% @doc What the messages about a request carry in front, for a selective receive; `none' over distribution.
-spec tag(pending()) -> reference() | none.
tag({session, Alias, _, _}) -> Alias;
tag({known, Alias, _}) -> Alias;
tag({dist, _}) -> none.

%% @doc Gives the request up: no message about it comes any more. The outcome, if it had come already.
-spec abandon(pending()) -> outcome() | none.
abandon({session, Alias, Node, Id}) ->
    case unalias(Alias) of
        true ->
            hawser_nif:forget_call(Node, Id),
            none;
        false ->
            %% Used up: the answer is in the mailbox.
            receive {Alias, Outcome} -> Outcome after 0 -> none end
    end;
abandon({dist, Id}) ->
    case over_dist(fun() -> erpc:receive_response(Id, 0) end) of
        {system, timeout} -> none;
        Outcome -> Outcome
    end;
abandon({known, _, Outcome}) ->
    Outcome.

drop(Alias) ->
    case unalias(Alias) of
        true -> ok;
        false -> receive {Alias, _} -> ok after 0 -> ok end
    end.

%% To a node without a session: the old way, or, without a fallback, a session that comes up in time.
without_session(Node, OldWay, Again, Deadline, Otherwise) ->
    case hawser_config:get(fallback) of
        dist ->
            OldWay();
        none ->
            Limit = min(hawser_config:get(connect_timeout_ms), left_ms(Deadline)),
            case hawser_directory:await(Node, Limit) of
                ok -> Again();
                {error, _} -> Otherwise
            end
    end.

over_dist(Fun) ->
    try Fun() of
        Value -> {return, Value}
    catch
        throw:Value -> {throw, Value};
        exit:{exception, Reason} -> {exit, Reason};
        exit:{signal, Reason} -> {signal, Reason};
        error:{exception, Reason, Stack} -> {error, Reason, Stack};
        error:{erpc, Reason} -> {system, Reason}
    end.

%% @doc The moment that lies `Timeout' milliseconds ahead.
-spec deadline(timeout()) -> deadline().
deadline(infinity) -> infinity;
deadline(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

%% @doc Milliseconds until the deadline, 0 when it has passed.
-spec left_ms(deadline()) -> timeout().
left_ms(infinity) -> infinity;
left_ms(Deadline) -> max(0, Deadline - erlang:monotonic_time(millisecond)).

erpc_timeout(Deadline) -> left_ms(Deadline).
