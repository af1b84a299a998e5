%% The sending node's half of a measurement: one process that opens the receivers on the other node, starts one writer
%% per receiver and waits for the receivers' word, and with calls for the writers' own. Called by hawser_bench_trial
%% through peer:call/4, as arm/1 and then fire/0, so that the meter can be read in between. Holds no figures.
-module(hawser_bench_source).

-export([arm/1, fire/0, burn/1]).
-export_type([outcome/0]).

-type outcome() :: #{messages := non_neg_integer(), micros := pos_integer(),
                     latency => {P50 :: integer(), P99 :: integer()}, queue => {Median :: integer(), Max :: integer()}}.

%% Receivers and writers exist and wait when this returns.
-spec arm(hawser_bench_workload:spec()) -> ok.
arm(Spec) ->
    Self = self(),
    Ref = make_ref(),
    {Pid, Monitor} = spawn_monitor(fun() -> coordinate(Spec, Self, Ref) end),
    receive
        {Ref, armed} ->
            demonitor(Monitor, [flush]),
            persistent_term:put(?MODULE, Pid);
        {'DOWN', Monitor, process, Pid, Reason} ->
            error(Reason)
    end.

%% Lets the writers go; returns when every receiver has all its messages, or when the window is over.
-spec fire() -> {ok, outcome()} | {error, term()}.
fire() ->
    Pid = persistent_term:get(?MODULE),
    Monitor = monitor(process, Pid),
    Pid ! {fire, self(), Monitor},
    receive
        {Monitor, Answer} ->
            demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, Reason}
    end.

%% So many processes that compute without end.
-spec burn(non_neg_integer()) -> ok.
burn(Processes) ->
    [spawn(fun() -> compute(1) end) || _ <- lists:seq(1, Processes)],
    ok.

%% Small integers only: what a reduction costs is how long the others wait, and with large ones it is twenty times as
%% much.
compute(X) ->
    compute((X * 75 + 74) band 16#ffff).

coordinate(#{peer := Peer, path := Path, payload := Payload, pace := Pace} = Spec, Caller, Ref) ->
    {Sink, Receivers} = erpc:call(Peer, hawser_bench_sink, open, [Spec#{owner => self()}]),
    Monitor = monitor(process, Sink),
    Message = hawser_bench_workload:payload(Payload),
    Count = count(Spec),
    Emit = {maps:get(operation, Spec), Path},
    Writers = [writer(Emit, Dest, Message, Count, Pace, Spec, I) || {I, Dest} <- lists:enumerate(Receivers)],
    Caller ! {Ref, armed},
    receive
        {fire, From, Tag} -> From ! {Tag, run(Writers, Sink, Monitor, Spec)}
    end.

run(Writers, Sink, Monitor, #{peer := Peer, busy := {Here, There}, epoch := Epoch, deadline_ms := DeadlineMs} = Spec) ->
    ok = erpc:call(Peer, ?MODULE, burn, [There]),
    ok = burn(Here),
    Start = hawser_bench_workload:now_us(Epoch),
    Sink ! {go, Start},
    _ = [Writer ! {go, Start} || Writer <- Writers],
    receive
        {Sink, Outcome} -> answers(Spec, length(Writers), Start, Outcome);
        {'DOWN', Monitor, process, Sink, Reason} -> {error, Reason}
    after DeadlineMs ->
        {error, {not_all_received_after_ms, DeadlineMs}}
    end.

%% Calls are done when their callers have the answers, which is after the receivers have the messages.
answers(#{operation := call, pace := flood, epoch := Epoch}, 0, Start, Outcome) ->
    {ok, Outcome#{micros := max(1, hawser_bench_workload:now_us(Epoch) - Start)}};
answers(#{operation := call, pace := flood, deadline_ms := DeadlineMs} = Spec, Callers, Start, Outcome) ->
    receive
        answered -> answers(Spec, Callers - 1, Start, Outcome)
    after DeadlineMs ->
        {error, {callers_without_answer, Callers}}
    end;
answers(_Spec, _Writers, _Start, Outcome) ->
    {ok, Outcome}.

count(#{pace := {timed, _, _}}) -> infinity;
count(#{count := Count}) -> Count.

%% A writer that crashes takes the coordinator with it, and fire/0 says so.
writer(Emit, Dest, Message, Count, {paced, Rate}, #{writers := Writers, epoch := Epoch}, I) ->
    Period = Writers * 1.0e6 / Rate,
    spawn_link(fun() ->
        receive
            {go, Start} -> paced(Emit, Dest, Message, Epoch, Start + Period * I / Writers, Period, Count)
        end
    end);
writer(Emit, Dest, Message, Count, _Pace, _Spec, _I) ->
    Coordinator = self(),
    spawn_link(fun() ->
        receive
            {go, _Start} when Count =:= infinity -> endless(Emit, Dest, {x, Message});
            {go, _Start} -> flood(Emit, Dest, {x, Message}, Count, Coordinator)
        end
    end).

flood({call, _Path}, _Dest, _Message, 0, Coordinator) ->
    Coordinator ! answered;
flood(_Emit, _Dest, _Message, 0, _Coordinator) ->
    ok;
flood({Operation, Path} = Emit, Dest, Message, Left, Coordinator) ->
    hawser_bench_workload:emit(Operation, Path, Dest, Message),
    flood(Emit, Dest, Message, Left - 1, Coordinator).

-spec endless({hawser_bench_path:operation(), module()}, pid(), {term(), term()}) -> no_return().
endless({Operation, Path} = Emit, Dest, Message) ->
    hawser_bench_workload:emit(Operation, Path, Dest, Message),
    endless(Emit, Dest, Message).

%% Sends all that is due, then sleeps: with fewer writers than the rate has milliseconds, several messages at a time.
paced(_Emit, _Dest, _Message, _Epoch, _Due, _Period, 0) ->
    ok;
paced({Operation, Path} = Emit, Dest, Message, Epoch, Due, Period, Left) ->
    case hawser_bench_workload:now_us(Epoch) of
        Now when Now >= Due ->
            hawser_bench_workload:emit(Operation, Path, Dest, {Now, Message}),
            paced(Emit, Dest, Message, Epoch, Due + Period, Period, Left - 1);
        Now ->
            receive
            after ceil((Due - Now) / 1000) ->
                paced(Emit, Dest, Message, Epoch, Due, Period, Left)
            end
    end.
