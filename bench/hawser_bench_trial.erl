%% One measurement: a fresh pair of nodes, one path opened between them, a warm-up, the workload, the figures. Called by
%% hawser_bench. Whatever goes wrong is an error in the answer, so that the other measurements still run.
-module(hawser_bench_trial).

-export([run/3, open/3]).
-export_type([settings/0, figures/0]).

-type settings() :: #{nodes := hawser_bench_nodes:options(), path := hawser_bench_path:settings()}.

%% Rates per second; CPU in microseconds per message or request; memory in bytes above what the node had before the
%% warm-up; p50 and p99 in microseconds. A round of the idle caller has neither CPU nor memory: its paths share their
%% nodes.
-type figures() :: #{messages := non_neg_integer(), seconds := float(), rate := float(), cpu => float(),
                     cpu_sender => float(), cpu_receiver => float(),
                     grow_sender => integer(), grow_receiver => integer(),
                     p50 => number(), p99 => number(), queue_median => integer(), queue_max => integer()}.

-define(CONTROL_MS, 60000).

-spec run(module(), map(), settings()) -> {ok, figures()} | {error, term()}.
run(Path, Workload, #{nodes := Nodes, path := PathSettings}) ->
    Pair = hawser_bench_nodes:start(Nodes),
    try
        {ok, measure(Path, Workload, Pair, PathSettings)}
    catch
        throw:Reason -> {error, Reason};
        Class:Reason -> {error, {Class, Reason}}
    after
        hawser_bench_nodes:stop(Pair)
    end.

measure(Path, Workload, #{sender := Sender, receiver := Receiver} = Pair, PathSettings) ->
    ok = open(Path, Pair, PathSettings),
    Spec = Workload#{path => Path, peer => maps:get(node, Receiver), epoch => os:system_time(microsecond)},
    ok = hawser_bench_meter:reset_peak(Pair),
    Base = hawser_bench_meter:read(Pair),
    _ = shot(Pair, hawser_bench_workload:warmup(Spec)),
    {Before, Outcome, After} = shot(Pair, Spec),
    hawser_bench_nodes:call(Sender, Path, intact, [maps:get(node, Receiver)], ?CONTROL_MS)
        orelse throw(path_lost_under_the_workload),
    figures(Outcome, hawser_bench_meter:cpu_us(Before, After), hawser_bench_meter:growth(Base, After)).

%% Opens the path between the two; throws `{unavailable, Why}` when it cannot be had.
-spec open(module(), hawser_bench_nodes:pair(), hawser_bench_path:settings()) -> ok.
open(Path, #{sender := Sender, receiver := Receiver}, PathSettings) ->
    ok = open(Path, Receiver, receiver, Sender, PathSettings),
    ok = open(Path, Sender, sender, Receiver, PathSettings).

open(Path, Side, Role, #{node := Peer}, PathSettings) ->
    case hawser_bench_nodes:call(Side, hawser_bench_path, available, [Path], ?CONTROL_MS) of
        ok -> hawser_bench_nodes:call(Side, Path, open, [Role, Peer, PathSettings], ?CONTROL_MS);
        {error, Why} -> throw({unavailable, Why})
    end.

shot(#{sender := Sender} = Pair, #{deadline_ms := DeadlineMs} = Spec) ->
    ok = hawser_bench_nodes:call(Sender, hawser_bench_source, arm, [Spec], ?CONTROL_MS),
    Before = hawser_bench_meter:read(Pair),
    case hawser_bench_nodes:call(Sender, hawser_bench_source, fire, [], DeadlineMs + ?CONTROL_MS) of
        {ok, Outcome} -> {Before, Outcome, hawser_bench_meter:read(Pair)};
        {error, Reason} -> throw(Reason)
    end.

figures(#{messages := Messages, micros := Micros} = Outcome, #{sender := CpuS, receiver := CpuR},
        #{sender := GrowS, receiver := GrowR}) ->
    Each = max(1, Messages),
    maps:merge(
        #{messages => Messages, seconds => Micros / 1.0e6, rate => Messages * 1.0e6 / Micros,
          cpu => (CpuS + CpuR) / Each, cpu_sender => CpuS / Each, cpu_receiver => CpuR / Each,
          grow_sender => GrowS, grow_receiver => GrowR},
        extra(Outcome)).

extra(#{latency := {P50, P99}}) -> #{p50 => P50, p99 => P99};
extra(#{queue := {Median, Max}}) -> #{queue_median => Median, queue_max => Max};
extra(_Outcome) -> #{}.
