%% Act two: processes on one node look records up on the other, first by erpc, then by hawser:call/4. Called by
%% hawser_demo. What runs on the nodes is in hawser_demo_lookup.
-module(hawser_demo_act_two).

-export([run/1]).

-import(hawser_demo_screen, [say/2, row/2, fixed/2]).

-define(PATHS, [hawser_bench_erpc, hawser_bench_hawser]).

%% What went wrong, a line each.
-spec run(hawser_demo:options()) -> [iolist()].
run(#{pairs := Callers, seconds := Seconds0} = Options) ->
    Seconds = max(1, Seconds0 * 2 div 3),
    say("~nAct two. ~w processes on one node look packages up on the other, one call after another, ~w s over each "
        "path;", [Callers, Seconds]),
    say("each caller compares the checksum of every record that it gets with the one that its own node has.", []),
    Passes = [{Path, hawser_demo_pass:run(hawser_demo_lookup, Path, Seconds, Options)} || Path <- ?PATHS],
    table([{Path, Figures} || {Path, {ok, Figures}} <- Passes]),
    [["act two, ", Path:title(), ": ", Why] || {Path, Result} <- Passes, Why <- complaints(Result)].

table(Good) ->
    say("", []),
    row("", [Path:title() || {Path, _} <- Good]),
    [row(Name, [Value(Figures) || {_, Figures} <- Good]) || {Name, Value} <- rows()],
    say("CPU as above, with checking the records. A call's time is that of one of so many callers at once, its check "
        "not in it.", []).

rows() ->
    [{"lookups verified", fun(#{verified := N}) -> integer_to_list(N) end},
     {"lookups/s", fun(#{verified := N, seconds := S}) -> fixed(N / S, 0) end},
     {"time of a call, p50, ms", fun(#{p50 := Us}) -> fixed(Us / 1000, 1) end},
     {"time of a call, p99, ms", fun(#{p99 := Us}) -> fixed(Us / 1000, 1) end},
     {"CPU seconds, calling node", fun(#{cpu := #{sender := Us}}) -> fixed(Us / 1.0e6, 1) end},
     {"CPU seconds, answering node", fun(#{cpu := #{receiver := Us}}) -> fixed(Us / 1.0e6, 1) end},
     {"CPU us per lookup, both nodes",
      fun(#{verified := N, cpu := #{sender := S, receiver := R}}) -> fixed((S + R) / max(1, N), 2) end},
     {"peak memory, both nodes, MiB", fun(#{peak_sender := S, peak_receiver := R}) -> fixed((S + R) / 1048576, 0) end},
     {"records with a wrong checksum", fun(#{wrong_checksum := N}) -> integer_to_list(N) end},
     {"calls that failed", fun(#{failed := N}) -> integer_to_list(N) end},
     {"callers without an answer", fun(#{unreported := N}) -> integer_to_list(N) end}].

complaints({error, Text}) -> [Text];
complaints({ok, #{unreported := 0, intact := true, asked := N, verified := N}}) when N > 0 -> [];
complaints({ok, #{intact := false}}) -> ["the path was lost while it was used"];
complaints({ok, _Figures}) -> ["not every lookup was answered and verified (the table says how many)"].
