%% @private
%% @doc What runs at the node that is called: one process per cast and per call, started by a reader.
%%
%% A body belongs to nobody on the calling side: it is linked to nothing and lives on when the caller dies. Its answer
%% leaves on its own shard, behind all that it has sent. When a signal ends it before it has answered, the reader that
%% started it hears so and answers instead. How a body fails is told as erpc tells it.
-module(hawser_body).

-export([start_cast/3, start_call/5, ended/4]).
-export([cast/3, call/5]).

-export_type([turn/0]).

%% `plain': the request is a binary with external term format, decoded by the body.
-type form() :: term | plain.

%% `ahead': the body's first time slice, and that alone, is at high priority.
-type turn() :: ahead | in_order.

%% How soon the reader tries again to answer for a body, when there is neither room nor a process to wait for it.
-define(RETRY_MS, 20).
-define(MOST_ARGUMENTS, 255).

%% @doc Starts a body that nobody waits for. False when the process table is full.
-spec start_cast(turn(), form(), term()) -> boolean().
start_cast(Turn, Form, Request) ->
    try spawn_opt(?MODULE, cast, [Turn, Form, Request], priority(Turn)) of
        _ -> true
    catch
        error:system_limit -> false
    end.

%% @doc Starts a body whose outcome goes back to the call; its end comes to the calling process as
%% `{{hawser_body, Call}, MonitorRef, process, Pid, Reason}', to be given to {@link ended/4}.
-spec start_call(turn(), form(), term(), hawser_nif:shard(), hawser_nif:call_id()) -> ok.
start_call(Turn, Form, Request, Shard, Call) ->
    Options = [{monitor, [{tag, {hawser_body, Call}}]} | priority(Turn)],
    try spawn_opt(?MODULE, call, [Turn, Form, Request, Shard, Call], Options) of
        _ -> ok
    catch
        error:system_limit -> instead(Shard, self(), Call, {system, system_limit})
    end.

priority(ahead) -> [{priority, high}];
priority(in_order) -> [].

%% @doc A body has ended: answers for it, behind all that it has sent, if it has not done so itself.
-spec ended(hawser_nif:shard(), hawser_nif:call_id(), Body :: pid(), Reason :: term()) -> ok.
ended(_Shard, Call, _Body, {hawser_answered, Call}) -> ok;
ended(Shard, Call, Body, {hawser_unanswered, Call, Outcome}) -> instead(Shard, Body, Call, Outcome);
ended(Shard, Call, Body, Reason) -> instead(Shard, Body, Call, {signal, Reason}).

%% The reader never waits: what it cannot queue at once a process of its own does; without one the reader hears of it
%% again.
instead(Shard, Body, Call, Outcome) ->
    case hawser_nif:answer(Shard, Body, Call, Outcome) of
        ok ->
            ok;
        noroute ->
            ok;
        _ ->
            try spawn(fun() -> answer(Shard, Body, Call, Outcome) end) of
                _ -> ok
            catch
                error:system_limit ->
                    Again = {{hawser_body, Call}, make_ref(), process, Body, {hawser_unanswered, Call, Outcome}},
                    _ = erlang:send_after(?RETRY_MS, self(), Again),
                    ok
            end
    end.

%% Fails as erpc's does, error report included: none for an exit, one with the function's own stack for the rest.
-spec cast(turn(), form(), term()) -> term().
cast(Turn, Form, Request) ->
    ok = begun(Turn),
    case request(Form, Request) of
        {M, F, A} ->
            try
                apply(M, F, A)
            catch
                error:Reason:Stack ->
                    case failure(Reason, Stack, M, F, A) of
                        {error, _, Cut} -> error({exception, {Reason, Cut}});
                        {system, _} -> error({erpc, Reason})
                    end
            end;
        malformed ->
            error(malformed_request)
    end.

%% Leaves with a reason, as erpc's does, so that what is linked to it goes too. No other process knows the reason
%% before: nobody can make it look answered.
-spec call(turn(), form(), term(), hawser_nif:shard(), hawser_nif:call_id()) -> no_return().
call(Turn, Form, Request, Shard, Call) ->
    ok = begun(Turn),
    Outcome =
        case request(Form, Request) of
            {M, F, A} -> outcome(M, F, A);
            malformed -> {system, badarg}
        end,
    answer(Shard, self(), Call, Outcome),
    exit({hawser_answered, Call}).

begun(ahead) ->
    high = process_flag(priority, normal),
    ok;
begun(in_order) ->
    ok.

%% The group leader is the caller's from here on.
request(plain, Plain) ->
    try binary_to_term(Plain, [used]) of
        {Request, Used} when Used =:= byte_size(Plain) -> request(term, Request);
        {_, _} -> malformed
    catch
        error:badarg -> malformed
    end;
request(term, {Leader, M, F, A}) when is_pid(Leader), is_atom(M), is_atom(F), is_list(A) ->
    true = group_leader(Leader, self()),
    {M, F, A};
request(term, _) ->
    malformed.

outcome(M, F, A) ->
    try apply(M, F, A) of
        Value -> {return, Value}
    catch
        throw:Value ->
            {throw, Value};
        exit:Reason ->
            {exit, Reason};
        error:Reason:Stack ->
            failure(Reason, Stack, M, F, A)
    end.

%% Too many arguments are the caller's mistake, not the function's.
failure(Reason, Stack, M, F, A) ->
    case Reason =:= system_limit andalso longer_than(?MOST_ARGUMENTS, A) of
        true -> {system, system_limit};
        false -> {error, Reason, cut(Stack, M, F, A)}
    end.

longer_than(0, [_ | _]) -> true;
longer_than(N, [_ | Rest]) -> longer_than(N - 1, Rest);
longer_than(_, _) -> false.

%% The stack down to the function that was asked for, which is put there when a tail call has taken it away. A stack
%% that was too deep to reach this module stays as it is.
cut(Stack, M, F, A) ->
    case lists:splitwith(fun(Frame) -> element(1, Frame) =/= ?MODULE end, Stack) of
        {_, []} -> Stack;
        {[], _} -> [{M, F, A, []}];
        {[{M, F, A, _}] = Whole, _} -> Whole;
        {Frames, _} -> lists:append(Frames, asked_for(lists:last(Frames), M, F, A))
    end.

asked_for({M, F, Arity, _}, M, F, A) when Arity =:= length(A) -> [];
asked_for(_, M, F, A) ->
    try length(A) of
        Arity -> [{M, F, Arity, []}]
    catch
        error:badarg -> []
    end.

answer(Shard, From, Call, Outcome) ->
    case hawser_push:answer(Shard, From, Call, Outcome) of
        system_limit ->
            %% Too long to be sent: the caller learns that instead of waiting.
            _ = hawser_push:answer(Shard, From, Call, {system, system_limit}),
            ok;
        _ ->
            ok
    end.
