%% One caller on two nodes that do nothing else: how long a call takes. A round is a fresh pair of nodes with all
%% paths open between them; the caller goes from path to path in short blocks, so that whatever changes on the machine
%% meets them all alike, and what counts is a path's figure beside another's of the same round. run/3 is called by
%% hawser_bench, blocks/3 runs on the sending node. The body answers a small term and wakes nobody else up.
-module(hawser_bench_idle).

-export([run/3, blocks/3]).
-export_type([workload/0]).

%% `calls`: of each path, in all its blocks together.
-type workload() :: #{calls := pos_integer(), deadline_ms := pos_integer()}.

-define(BLOCK, 200).
%% The first calls after another path's block are made and not judged.
-define(SKIP, 10).
-define(CONTROL_MS, 60000).

%% A path that cannot be had is left out, and says so in its outcome; one that fails later fails the round.
-spec run([module()], workload(), hawser_bench_trial:settings()) ->
    [{module(), {ok, hawser_bench_trial:figures()} | {error, term()}}].
run(Paths, #{calls := Calls, deadline_ms := DeadlineMs}, #{nodes := Nodes, path := PathSettings}) ->
    #{sender := Sender, receiver := #{node := Peer}} = Pair = hawser_bench_nodes:start(Nodes),
    try
        Opened = [{Path, open(Path, Pair, PathSettings)} || Path <- Paths],
        Open = [Path || {Path, ok} <- Opened],
        Blocks = max(1, Calls div ?BLOCK),
        _WarmUp = hawser_bench_nodes:call(Sender, ?MODULE, blocks, [Open, Peer, max(1, Blocks div 4)], DeadlineMs),
        Times = hawser_bench_nodes:call(Sender, ?MODULE, blocks, [Open, Peer, Blocks], DeadlineMs),
        [{Path, outcome(Result, Path, Times, Sender, Peer)} || {Path, Result} <- Opened]
    catch
        throw:Reason -> [{Path, {error, Reason}} || Path <- Paths];
        Class:Reason -> [{Path, {error, {Class, Reason}}} || Path <- Paths]
    after
        hawser_bench_nodes:stop(Pair)
    end.

open(Path, Pair, PathSettings) ->
    try
        hawser_bench_trial:open(Path, Pair, PathSettings)
    catch
        throw:{unavailable, Why} -> {error, {unavailable, Why}}
    end.

outcome(ok, Path, Times, Sender, Peer) ->
    case hawser_bench_nodes:call(Sender, Path, intact, [Peer], ?CONTROL_MS) of
        true -> {ok, figures(maps:get(Path, Times))};
        false -> {error, path_lost_under_the_workload}
    end;
outcome(Error, _Path, _Times, _Sender, _Peer) ->
    Error.

figures(Nanos) ->
    Sorted = lists:sort(Nanos),
    Calls = length(Sorted),
    Seconds = lists:sum(Sorted) / 1.0e9,
    #{messages => Calls, seconds => Seconds, rate => Calls / Seconds,
      p50 => hawser_bench_workload:percentile(Sorted, 50) / 1000,
      p99 => hawser_bench_workload:percentile(Sorted, 99) / 1000}.

%% Nanoseconds of each judged call, by path. The caller is a process of its own, so that no call inherits another's
%% heap, and keeps the times off its heap, so that they cost no garbage collection.
-spec blocks([module()], node(), pos_integer()) -> #{module() => [non_neg_integer()]}.
blocks(Paths, Peer, Blocks) ->
    Times = maps:from_list([{Path, atomics:new(Blocks * ?BLOCK, [])} || Path <- Paths]),
    {Pid, Monitor} = spawn_monitor(fun() -> in_turn(Paths, Peer, Blocks, Times) end),
    receive
        {'DOWN', Monitor, process, Pid, normal} ->
            maps:map(fun(_Path, Array) -> [atomics:get(Array, I) || I <- lists:seq(1, Blocks * ?BLOCK)] end, Times);
        {'DOWN', Monitor, process, Pid, Reason} ->
            error(Reason)
    end.

%% Each turn begins with another path.
in_turn([First | Others] = Paths, Peer, Left, Times) when Left > 0 ->
    Args = [1, {answer, hawser_bench_workload:payload(atoms)}],
    lists:foreach(fun(Path) ->
        _ = [timed(Path, Peer, Args) || _ <- lists:seq(1, ?SKIP)],
        block(Path, Peer, Args, maps:get(Path, Times), (Left - 1) * ?BLOCK, ?BLOCK)
    end, Paths),
    in_turn(Others ++ [First], Peer, Left - 1, Times);
in_turn(_Paths, _Peer, _Left, _Times) ->
    ok.

block(_Path, _Peer, _Args, _Array, _Offset, 0) ->
    ok;
block(Path, Peer, Args, Array, Offset, Left) ->
    ok = atomics:put(Array, Offset + Left, timed(Path, Peer, Args)),
    block(Path, Peer, Args, Array, Offset, Left - 1).

timed(Path, Peer, Args) ->
    Start = erlang:monotonic_time(nanosecond),
    answer = Path:call(Peer, erlang, element, Args),
    erlang:monotonic_time(nanosecond) - Start.
