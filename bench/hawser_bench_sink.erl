%% The receiving node's half of a measurement: the receivers, and one process that hears from each of them and tells the
%% sending side. Called by hawser_bench_source over erpc. Receivers count, and look at nothing but a stamp.
-module(hawser_bench_sink).

-export([open/1]).

-define(SAMPLE_MS, 50).
%% A receiver of a timed run adds to the shared counter once per so many messages; requests are too few for that.
-define(STRIDE, 64).

-spec open(map()) -> {Sink :: pid(), Receivers :: [pid()]}.
open(Spec) ->
    Self = self(),
    Ref = make_ref(),
    Sink = spawn(fun() -> init(Spec, Self, Ref) end),
    receive
        {Ref, Receivers} -> {Sink, Receivers}
    end.

init(#{owner := Owner, writers := N, pace := Pace} = Spec, Caller, Ref) ->
    _ = monitor(process, Owner),
    Counter = counters:new(N, []),
    Receivers = [receiver(Pace, Spec, Counter, I) || I <- lists:seq(1, N)],
    Caller ! {Ref, Receivers},
    receive
        {go, Start} -> Owner ! {self(), observe(Pace, Spec, Start, Counter, Receivers)};
        {'DOWN', _, process, Owner, _} -> ok
    end.

receiver({timed, _, _}, #{operation := Operation}, Counter, I) ->
    Stride = case Operation of send -> ?STRIDE; _ -> 1 end,
    spawn_link(fun() -> endless(Counter, I, Stride, Stride) end);
receiver({paced, _Rate}, #{count := Count, epoch := Epoch}, _Counter, _I) ->
    Sink = self(),
    spawn_link(fun() -> stamped(Sink, Epoch, Count, Count div 6, []) end);
receiver(flood, #{count := Count}, _Counter, _I) ->
    Sink = self(),
    spawn_link(fun() -> counting(Sink, Count) end).

counting(Sink, 0) ->
    Sink ! {done, []};
counting(Sink, Left) ->
    receive
        {x, _} -> counting(Sink, Left - 1)
    end.

%% The first messages of a paced run are not judged: Skip of them.
stamped(Sink, _Epoch, 0, _Skip, Latencies) ->
    Sink ! {done, Latencies};
stamped(Sink, Epoch, Left, Skip, Latencies) ->
    receive
        {_Stamp, _} when Skip > 0 ->
            stamped(Sink, Epoch, Left - 1, Skip - 1, Latencies);
        {Stamp, _} ->
            stamped(Sink, Epoch, Left - 1, 0, [hawser_bench_workload:now_us(Epoch) - Stamp | Latencies])
    end.

endless(Counter, I, Stride, 0) ->
    counters:add(Counter, I, Stride),
    endless(Counter, I, Stride, Stride);
endless(Counter, I, Stride, Left) ->
    receive
        {x, _} -> endless(Counter, I, Stride, Left - 1)
    end.

observe({timed, SettleMs, WindowMs}, #{writers := N}, _Start, Counter, Receivers) ->
    _ = process_flag(priority, high),
    Queues = ets:new(queues, [public]),
    Prober = spawn_link(fun() -> probe(lists:sublist(Receivers, 5), Queues) end),
    wait(SettleMs),
    T0 = os:system_time(microsecond),
    C0 = total(Counter, N),
    ets:delete_all_objects(Queues),
    wait(WindowMs),
    T1 = os:system_time(microsecond),
    C1 = total(Counter, N),
    true = unlink(Prober),
    true = exit(Prober, kill),
    Lengths = lists:sort([Length || {_, Length} <- ets:tab2list(Queues)]),
    #{messages => C1 - C0, micros => T1 - T0,
      queue => {hawser_bench_workload:percentile(Lengths, 50), hawser_bench_workload:percentile(Lengths, 100)}};
observe(Pace, #{writers := N, count := Count, epoch := Epoch}, Start, _Counter, _Receivers) ->
    Latencies = gather(N, []),
    Outcome = #{messages => N * Count, micros => max(1, hawser_bench_workload:now_us(Epoch) - Start)},
    case hawser_bench_workload:stamped(Pace) of
        true ->
            Sorted = lists:sort(Latencies),
            [P50, P99] = [hawser_bench_workload:percentile(Sorted, Percent) || Percent <- [50, 99]],
            Outcome#{latency => {P50, P99}};
        false ->
            Outcome
    end.

gather(0, Latencies) ->
    Latencies;
gather(Left, Latencies) ->
    receive
        {done, Own} -> gather(Left - 1, Own ++ Latencies)
    end.

%% The look into a consumer's mailbox waits for that consumer when the node is full: hence a process of its own.
probe(Consumers, Queues) ->
    _ = process_flag(priority, high),
    probe(Consumers, [], Queues).

probe([], Seen, Queues) ->
    probe(lists:reverse(Seen), [], Queues);
probe([Consumer | Rest], Seen, Queues) ->
    {message_queue_len, Length} = process_info(Consumer, message_queue_len),
    true = ets:insert(Queues, {erlang:unique_integer(), Length}),
    wait(?SAMPLE_MS),
    probe(Rest, [Consumer | Seen], Queues).

total(Counter, N) ->
    lists:sum([counters:get(Counter, I) || I <- lists:seq(1, N)]).

wait(Ms) ->
    receive
    after Ms -> ok
    end.
