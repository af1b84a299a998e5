%% @private
%% @doc What runs at the node that is called: one process per cast and per call, started by a reader.
%%
%% A body belongs to nobody on the calling side: it is linked to nothing and lives on when the caller dies. Its answer
%% leaves on its own shard, behind all that it has sent. When a signal ends it before it has answered, the reader that
%% started it hears so and answers instead.
-module(hawser_body).

-export([start_cast/2, start_call/4, ended/3]).
-export([cast/2, call/4]).

%% `plain': the request is a binary with external term format, decoded by the body.
-type form() :: term | plain.

%% @doc Starts a body that nobody waits for. False when the process table is full.
-spec start_cast(form(), term()) -> boolean().
start_cast(Form, Request) ->
    try spawn(?MODULE, cast, [Form, Request]) of
        _ -> true
    catch
        error:system_limit -> false
    end.

%% @doc Starts a body whose outcome goes back to the call; its end comes to the calling process as
%% `{{hawser_body, Call}, MonitorRef, process, Pid, Reason}'.
-spec start_call(form(), term(), hawser_nif:shard(), hawser_nif:call_id()) -> ok.
start_call(Form, Request, Shard, Call) ->
    try spawn_opt(?MODULE, call, [Form, Request, Shard, Call], [{monitor, [{tag, {hawser_body, Call}}]}]) of
        _ -> ok
    catch
        error:system_limit -> instead(Shard, Call, {system, system_limit})
    end.

%% @doc A body has ended: answers for it if it cannot have done so itself.
-spec ended(hawser_nif:shard(), hawser_nif:call_id(), Reason :: term()) -> ok.
ended(_Shard, _Call, normal) -> ok;
ended(Shard, Call, Reason) -> instead(Shard, Call, {signal, Reason}).

%% The reader never waits: what it cannot queue at once a process of its own does.
instead(Shard, Call, Outcome) ->
    case hawser_nif:answer(Shard, self(), Call, Outcome) of
        ok -> ok;
        noroute -> ok;
        _ -> try spawn(fun() -> answer(Shard, Call, Outcome) end) of _ -> ok catch error:system_limit -> ok end
    end.

-spec cast(form(), term()) -> term().
cast(Form, Request) ->
    {Leader, M, F, A} = request(Form, Request),
    group_leader(Leader, self()),
    apply(M, F, A).

-spec call(form(), term(), hawser_nif:shard(), hawser_nif:call_id()) -> ok.
call(Form, Request, Shard, Call) ->
    {Leader, M, F, A} = request(Form, Request),
    group_leader(Leader, self()),
    answer(Shard, Call, outcome(M, F, A)).

request(term, Request) -> Request;
request(plain, Plain) -> binary_to_term(Plain).

outcome(M, F, A) ->
    try apply(M, F, A) of
        Value -> {return, Value}
    catch
        throw:Value -> {throw, Value};
        exit:Reason -> {exit, Reason};
        error:Reason:Stack -> {error, Reason, lists:takewhile(fun(Frame) -> element(1, Frame) =/= ?MODULE end, Stack)}
    end.

answer(Shard, Call, Outcome) ->
    case hawser_push:answer(Shard, Call, Outcome) of
        system_limit ->
            %% Too long to be sent: the caller learns that instead of waiting.
            _ = hawser_push:answer(Shard, Call, {system, system_limit}),
            ok;
        _ ->
            ok
    end.
