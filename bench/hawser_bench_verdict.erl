%% The figures that hawser is to reach, judged: one PASS or MISS line each. Called by hawser_bench with `--assert`. Pure.
%% A figure that was not measured is a MISS, unless its whole section, or the prototype, was left out of the run.
-module(hawser_bench_verdict).

-export([judge/2]).

-define(PLAIN, hawser_bench_plain).
-define(POOL, hawser_bench_pool).
-define(PROTOTYPE, hawser_bench_prototype).
-define(OURS, hawser_bench_hawser).

-spec judge([hawser_bench_plan:section()], hawser_bench_results:entries()) -> {iolist(), AllPass :: boolean()}.
judge(Sections, Entries) ->
    Judged = [judge_one(Rule, Entries) || {Section, _, _, _} = Rule <- rules(Entries), lists:member(Section, Sections)],
    {[Line || {Line, _} <- Judged], lists:all(fun({_, Pass}) -> Pass end, Judged)}.

judge_one({_Section, Text, Value, {Sign, Target}}, Entries) ->
    Measured = Value(Entries),
    Pass = reached(Measured, Sign, Target),
    {[word(Pass), io_lib:format("  ~-62s ~s, wanted ~s ~w~n", [Text, shown(Measured), Sign, Target])], Pass}.

reached(undefined, _Sign, _Target) -> false;
reached(Value, '>=', Target) -> Value >= Target;
reached(Value, '<=', Target) -> Value =< Target;
reached(Value, '<', Target) -> Value < Target.

word(true) -> "PASS";
word(false) -> "MISS".

shown(undefined) -> "not measured";
shown(Value) -> float_to_list(float(Value), [{decimals, 2}]).

rules(Entries) ->
    Prototype = [N || N <- [10, 100, 10000], hawser_bench_results:median(flood, N, {?PROTOTYPE, cpu}, Entries) =/= undefined],
    [{flood, text("flood, ~w writers: CPU per message against the prototype", N), times(flood, N, ?PROTOTYPE, cpu), {'<=', 1.1}}
     || N <- Prototype] ++
    [{flood, text("flood, ~w writers: msg/s against !", N), times(flood, N, ?PLAIN, rate), {'>=', X}}
     || {N, X} <- [{10, 2.0}, {100, 2.0}, {10000, 2.8}]] ++
    [{flood, text("flood, ~w writers: msg/s against pooled", N), times(flood, N, ?POOL, rate), {'>=', 1.4}} || N <- [10, 100, 10000]] ++
    [{flood, text("flood, ~w writers: CPU per message against !", N), times(flood, N, ?PLAIN, cpu), {'<=', 0.5}}
     || N <- [10, 100, 10000]] ++
    [{flood, "flood, 100 writers: growth of the sender in MiB", fun grown/1, {'<', 64}},
     {saturated, "200 computing processes on each node: msg/s against !", times(saturated, 100, ?PLAIN, rate), {'>=', 3.0}},
     {one, "one writer alone: msg/s against !", times(one, 1, ?PLAIN, rate), {'>=', 1.0}}].

times(Section, Key, Other, Figure) ->
    fun(Entries) -> hawser_bench_results:ratio(Section, Key, {?OURS, Other}, Figure, Entries) end.

grown(Entries) ->
    case hawser_bench_results:median(flood, 100, {?OURS, grow_sender}, Entries) of
        undefined -> undefined;
        Bytes -> Bytes / 1048576
    end.

text(Format, N) ->
    lists:flatten(io_lib:format(Format, [N])).
