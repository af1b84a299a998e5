%% @private
%% @doc The calling side of casts and calls: sends requests, waits for answers, gives up.
%%
%% Called by `hawser', `hawser_group' and `hawser_erpc', in the process that calls; starts no process. Every way of
%% ending is an {@type outcome()}: what the caller makes of it is the caller's business. Nothing of a request is left in
%% the caller's mailbox, or anywhere on this node, once its outcome is known or it was abandoned.
-module(hawser_request).

-export([prepare/1, prepare/2, cast/2, cast/3, cast_now/2, call/3, send/3, send_now/3]).
-export([receive_outcome/2, receive_any/2, check/2, check_any/2, abandon/1, tag/1, is_pending/1]).
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

%% A request that is on its way: over a session, or over distribution; or one whose outcome was known at once. Every
%% message about it carries its tag in front.
-opaque pending() ::
    {session, Alias :: reference(), node(), hawser_nif:call_id()}
    | {dist, Tag :: reference(), SpawnRequest :: reference()}
    | {known, Tag :: reference()}.

%% @doc Encodes a request, to be given to {@link cast/2}, {@link call/3} and {@link send/3} by the same process.
-spec prepare(mfargs()) -> prepared().
prepare({M, F, A} = Mfa) ->
    Request = {group_leader(), M, F, A},
    case hawser_nif:encode_once(Request) of
        plain -> {prepared, plain, term_to_binary(Request), Mfa};
        Encoded -> {prepared, encoded, Encoded, Mfa}
    end.

%% @doc The request as it is best given to these nodes: encoded once when they are several.
-spec prepare([node()], mfargs()) -> mfargs() | prepared().
prepare([_, _ | _], Mfa) -> prepare(Mfa);
prepare(_, Mfa) -> Mfa.

%% @doc Has a process started at `Node' that runs the function; nobody learns how it ends.
-spec cast(node(), mfargs() | prepared()) -> ok.
cast(Node, Request) ->
    cast(Node, Request, infinity).

%% @doc The same, and waits for a session (with `fallback' set to `none') no longer than `Deadline'. What got none is
%% counted: `no_session'. Raises `system_limit' for what is longer than `max_message_bytes'.
-spec cast(node(), mfargs() | prepared(), deadline()) -> ok.
cast(Node, Request, Deadline) when Node =/= node() ->
    case route(Node, cast, Request, infinity, Deadline) of
        ok ->
            ok;
        system_limit ->
            error(system_limit);
        dist ->
            cast_over_dist(Node, Request);
        _ ->
            hawser_totals:no_session(),
            ok
    end;
cast(Node, Request, _) ->
    cast_over_dist(Node, Request).

cast_over_dist(Node, Request) ->
    {M, F, A} = mfargs(Request),
    erpc:cast(Node, M, F, A).

%% @doc Runs the function at `Node' and waits for the outcome until `Deadline'. On this node itself it runs in the
%% calling process when there is no deadline.
-spec call(node(), mfargs() | prepared(), deadline()) -> outcome().
call(Node, Request, Deadline) when Node =/= node() ->
    Alias = alias([reply]),
    case push(Node, Alias, Request, Deadline) of
        Id when is_integer(Id) ->
            await(Alias, Node, Id, Deadline);
        Pushed ->
            Routed = otherwise(Pushed, Node, Alias, Request, Deadline, Deadline),
            receive_outcome(pending(Routed, Node, Alias, Request), Deadline)
    end;
call(Node, Request, Deadline) ->
    {M, F, A} = mfargs(Request),
    as_outcome(fun() -> erpc:call(Node, M, F, A, left_ms(Deadline)) end).

%% The plain case of receive_outcome/2. The alias comes as an argument of its own, made by the caller: the receive then
%% skips what was in the mailbox before.
await(Alias, Node, Id, Deadline) ->
    receive
        {Alias, Outcome} -> Outcome
    after left_ms(Deadline) ->
        given_up({session, Alias, Node, Id})
    end.

%% @doc Sends the request; its outcome is to be received, or it is to be abandoned, by the same process. No other
%% process can.
-spec send(node(), mfargs() | prepared(), deadline()) -> pending().
send(Node, Request, Deadline) when Node =/= node() ->
    Alias = alias([reply]),
    pending(route(Node, Alias, Request, Deadline, Deadline), Node, Alias, Request);
send(Node, Request, _) ->
    spawn_there(Node, Request).

%% What a caller holds of a request that went, or did not go, this way.
pending(Id, Node, Alias, _) when is_integer(Id) ->
    {session, Alias, Node, Id};
pending(dist, Node, Alias, Request) ->
    _ = unalias(Alias),
    spawn_there(Node, Request);
pending(Why, _, Alias, _) ->
    _ = unalias(Alias),
    self() ! {Alias, {system, Why}},
    {known, Alias}.

%% Over distribution the body is what erpc starts, on any node; the messages about it are those of `spawn_request/5'.
spawn_there(Node, Request) ->
    {M, F, A} = mfargs(Request),
    Tag = make_ref(),
    Options = [{reply, error_only}, {reply_tag, Tag}, {monitor, [{tag, Tag}]}],
    {dist, Tag, spawn_request(Node, erpc, execute_call, [Tag, M, F, A], Options)}.

%% ---- the way ----

%% Pushes into the session; without one: `dist', or, without a fallback, a session that comes up in time. `Limit' is for
%% room in the shard, `Deadline' for the session.
route(Node, To, Request, Limit, Deadline) ->
    otherwise(push(Node, To, Request, Limit), Node, To, Request, Limit, Deadline).

otherwise(noroute, Node, To, Request, Limit, Deadline) ->
    case hawser_config:get(fallback) of
        dist ->
            dist;
        none ->
            Timeout = min(hawser_config:get(connect_timeout_ms), left_ms(Deadline)),
            case hawser_directory:await(Node, Timeout) of
                ok -> again(push(Node, To, Request, Limit));
                {error, timeout} -> again(no_session(left_ms(Deadline)));
                {error, _} -> noconnection
            end
    end;
otherwise(Pushed, _, _, _, _, _) ->
    again(Pushed).

%% A session that came and went is none: who keeps trying could do so without end.
again(noroute) -> noconnection;
again(busy) -> timeout;
again(Pushed) -> Pushed.

no_session(0) -> busy;
no_session(_) -> noroute.

%% @doc As {@link cast/2}, but only over a session and only if that takes no waiting: else `later'.
-spec cast_now(node(), mfargs() | prepared()) -> ok | later | system_limit.
cast_now(Node, Request) ->
    now_or_later(push_to(Node, {cast}, Request, nosuspend)).

%% @doc As {@link send/3}, but only over a session and only if that takes no waiting: else `later'.
-spec send_now(node(), mfargs() | prepared(), deadline()) -> pending() | later | system_limit.
send_now(Node, Request, Deadline) ->
    Alias = alias([reply]),
    case now_or_later(push_to(Node, {call, Alias, left_ms(Deadline)}, Request, nosuspend)) of
        Id when is_integer(Id) ->
            {session, Alias, Node, Id};
        Not ->
            _ = unalias(Alias),
            Not
    end.

now_or_later(Pushed) when Pushed =:= busy; Pushed =:= noroute -> later;
now_or_later(Pushed) -> Pushed.

push(Node, To, Request, Limit) ->
    push_to(Node, destination(To, Limit), Request, Limit).

push_to(Node, To, {prepared, Form, Content, _}, Limit) ->
    hawser_push:to_node(Node, To, Form, Content, Limit);
push_to(Node, To, {M, F, A}, Limit) ->
    hawser_push:to_node(Node, To, {group_leader(), M, F, A}, Limit).

destination(cast, _) -> {cast};
destination(Alias, Deadline) -> {call, Alias, left_ms(Deadline)}.

mfargs({prepared, _, _, Mfa}) -> Mfa;
mfargs(Mfa) -> Mfa.

%% ---- outcomes ----

%% @doc The outcome; past the deadline the request is abandoned. An outcome that is there already wins. `badarg' past
%% the deadline: the request is another process's, or its outcome was received before.
-spec receive_outcome(pending(), deadline()) -> outcome().
receive_outcome(Pending, Deadline) ->
    Tag = tag(Pending),
    receive
        {Tag, Outcome} -> Outcome;
        {Tag, _, error, Reason} -> {system, Reason};
        {Tag, _, process, _, Reason} -> ended(Tag, Reason)
    after left_ms(Deadline) ->
        given_up(Pending)
    end.

%% @doc The next outcome of the requests whose tags are the keys of the map. Past the deadline `timeout': nothing is
%% abandoned.
-spec receive_any(#{reference() => term()}, deadline()) -> {Tag :: reference(), outcome()} | timeout.
receive_any(Tags, Deadline) ->
    receive
        {Tag, Outcome} when is_reference(Tag), is_map_key(Tag, Tags) -> {Tag, Outcome};
        {Tag, _, error, Reason} when is_reference(Tag), is_map_key(Tag, Tags) -> {Tag, {system, Reason}};
        {Tag, _, process, _, Reason} when is_reference(Tag), is_map_key(Tag, Tags) -> {Tag, ended(Tag, Reason)}
    after left_ms(Deadline) ->
        timeout
    end.

%% @doc Is `Message' the outcome of the request?
-spec check(term(), pending()) -> {outcome, outcome()} | no.
check(Message, Pending) ->
    case check_any(Message, #{tag(Pending) => Pending}) of
        {_, Outcome} -> {outcome, Outcome};
        no -> no
    end.

%% @doc Is `Message' the outcome of one of the requests whose tags are the keys of the map?
-spec check_any(term(), #{reference() => term()}) -> {Tag :: reference(), outcome()} | no.
check_any({Tag, Outcome}, Tags) when is_reference(Tag), is_map_key(Tag, Tags) -> {Tag, Outcome};
check_any({Tag, _, error, Reason}, Tags) when is_reference(Tag), is_map_key(Tag, Tags) -> {Tag, {system, Reason}};
check_any({Tag, _, process, _, Reason}, Tags) when is_reference(Tag), is_map_key(Tag, Tags) ->
    {Tag, ended(Tag, Reason)};
check_any(_, _) -> no.

%% What the end of a process says that erpc's body has run in.
ended(Tag, {Tag, return, Value}) -> {return, Value};
ended(Tag, {Tag, throw, Value}) -> {throw, Value};
ended(Tag, {Tag, exit, Reason}) -> {exit, Reason};
ended(Tag, {Tag, error, {erpc, Reason}}) -> {system, Reason};
ended(Tag, {Tag, error, Reason, Stack}) -> {error, Reason, Stack};
ended(_, noconnection) -> {system, noconnection};
ended(_, Reason) -> {signal, Reason}.

%% @doc What the messages about a request carry in front: the key for {@link receive_any/2}.
-spec tag(pending()) -> reference().
tag({session, Alias, _, _}) -> Alias;
tag({dist, Tag, _}) -> Tag;
tag({known, Tag}) -> Tag.

%% @doc Is this what {@link send/3} answers?
-spec is_pending(term()) -> boolean().
is_pending({session, Alias, Node, Id}) -> is_reference(Alias) andalso is_atom(Node) andalso is_integer(Id);
is_pending({dist, Tag, Request}) -> is_reference(Tag) andalso is_reference(Request);
is_pending({known, Tag}) -> is_reference(Tag);
is_pending(_) -> false.

%% @doc Gives the request up: no message about it comes any more. The outcome, if it had come already.
-spec abandon(pending()) -> outcome() | none.
abandon(Pending) ->
    case withdraw(Pending) of
        true -> none;
        false -> receive_now(tag(Pending), none)
    end.

given_up(Pending) ->
    case withdraw(Pending) of
        true -> {system, timeout};
        false -> receive_now(tag(Pending), {system, badarg})
    end.

%% False when the outcome is in the mailbox, has been received, or comes to another process.
withdraw({session, Alias, Node, Id}) ->
    Withdrawn = unalias(Alias),
    _ = [hawser_nif:forget_call(Node, Id) || Withdrawn],
    Withdrawn;
withdraw({dist, _, Request}) ->
    spawn_request_abandon(Request) orelse demonitor(Request, [info]);
withdraw({known, _}) ->
    false.

receive_now(Tag, Otherwise) ->
    case receive_any(#{Tag => now}, erlang:monotonic_time(millisecond)) of
        {Tag, Outcome} -> Outcome;
        timeout -> Otherwise
    end.

as_outcome(Fun) ->
    try Fun() of
        Value -> {return, Value}
    catch
        throw:Value -> {throw, Value};
        exit:{exception, Reason} -> {exit, Reason};
        exit:{signal, Reason} -> {signal, Reason};
        error:{exception, Reason, Stack} -> {error, Reason, Stack};
        error:{erpc, Reason} -> {system, Reason}
    end.

%% ---- time ----

%% @doc The moment that lies `Timeout' milliseconds ahead.
-spec deadline(timeout()) -> deadline().
deadline(infinity) -> infinity;
deadline(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

%% @doc Milliseconds until the deadline, 0 when it has passed.
-spec left_ms(deadline()) -> timeout().
left_ms(infinity) -> infinity;
left_ms(Deadline) -> max(0, Deadline - erlang:monotonic_time(millisecond)).
