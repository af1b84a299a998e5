%% The figures that hawser is to reach, judged: one PASS or MISS line each. Called by hawser_bench with `--assert`.
%% Pure. A figure that was not measured is a MISS, unless its whole section, or the prototype, was left out of the
%% run.
-module(hawser_bench_verdict).

-export([judge/2]).

-define(PLAIN, hawser_bench_plain).
-define(POOL, hawser_bench_pool).
-define(PROTOTYPE, hawser_bench_prototype).
-define(OURS, hawser_bench_hawser).
-define(ERPC, hawser_bench_erpc).
-define(OUR_ERPC, hawser_bench_hawser_erpc).
%% Where single rounds differ by more than what is asked, as many as this are wanted, each compared within itself.
-define(TEN_ROUNDS, 11).
-define(IDLE_ROUNDS, 21).

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
    messages(Entries) ++ requests().

messages(Entries) ->
    Prototype = [N || N <- [10, 100, 10000],
                      hawser_bench_results:median(flood, N, {?PROTOTYPE, cpu}, Entries) =/= undefined],
    [{flood, text("flood, ~w writers: CPU per message against the prototype", N),
      times(flood, N, ?PROTOTYPE, cpu), {'<=', 1.1}}
     || N <- Prototype] ++
    [{flood, text("flood, ~w writers: msg/s against !", N), times(flood, N, ?PLAIN, rate), {'>=', X}}
     || {N, X} <- [{10, 2.0}, {100, 2.0}, {10000, 2.8}]] ++
    [{flood, text("flood, ~w writers: msg/s against pooled", N), times(flood, N, ?POOL, rate), {'>=', 1.4}}
     || N <- [10, 100, 10000]] ++
    [{flood, text("flood, ~w writers: CPU per message against !", N), times(flood, N, ?PLAIN, cpu), {'<=', 0.5}}
     || N <- [10, 100, 10000]] ++
    [{flood, "flood, 100 writers: growth of the sender in MiB", fun grown/1, {'<', 64}},
     {saturated, "200 computing processes on each node: msg/s against !",
      times(saturated, 100, ?PLAIN, rate), {'>=', 3.0}},
     {one, "one writer alone: msg/s against !", times(one, 1, ?PLAIN, rate), {'>=', 1.0}}].

requests() ->
    [{cast, text("cast, ~w callers: casts/s against erpc", N), times(cast, N, ?ERPC, rate), {'>=', 3.0}}
     || N <- [100, 10000]] ++
    [{cast, text("cast, ~w callers: casts/s against pooled", N), times(cast, N, ?POOL, rate), {'>=', 1.2}}
     || N <- [100, 10000]] ++
    [{call, text("call, ~w callers: calls/s against erpc", N), times(call, N, ?ERPC, rate), {'>=', X}}
     || {N, X} <- [{100, 2.5}, {10000, 2.0}]] ++
    [{call, text("call, ~w callers: calls/s against pooled", N), times(call, N, ?POOL, rate), {'>=', X}}
     || {N, X} <- [{100, 1.4}, {10000, 1.1}]] ++
    [{call, text("call, 10 callers: calls/s against pooled, pairs of ~w rounds", ?TEN_ROUNDS),
      pairs(call, 10, ?POOL, rate, ?TEN_ROUNDS), {'>=', 1.0}}] ++
    [{call, text("call, ~w callers: CPU per call against erpc", N), times(call, N, ?ERPC, cpu), {'<=', 0.5}}
     || N <- [100, 10000]] ++
    [{call, text("hawser_erpc:call, ~w callers: calls/s against erpc", N),
      times(call, N, {?OUR_ERPC, ?ERPC}, rate), {'>=', 2.0}}
     || N <- [100, 10000]] ++
    [{saturated_call, "200 computing processes on each node: calls/s against erpc",
      times(saturated_call, 100, ?ERPC, rate), {'>=', 1.0}},
     {idle, text("one idle caller: p50 against erpc, pairs of ~w rounds", ?IDLE_ROUNDS),
      pairs(idle, 1, ?ERPC, p50, ?IDLE_ROUNDS), {'<=', 1.0}},
     {idle, text("one idle caller: p99 against erpc, pairs of ~w rounds", ?IDLE_ROUNDS),
      pairs(idle, 1, ?ERPC, p99, ?IDLE_ROUNDS), {'<=', 1.0}}].

times(Section, Key, {_Path, _Other} = Paths, Figure) ->
    fun(Entries) -> hawser_bench_results:ratio(Section, Key, Paths, Figure, Entries) end;
times(Section, Key, Other, Figure) ->
    times(Section, Key, {?OURS, Other}, Figure).

%% Not measured with fewer rounds.
pairs(Section, Key, Other, Figure, Rounds) ->
    fun(Entries) ->
        case hawser_bench_results:paired(Section, Key, {?OURS, Other}, Figure, Entries) of
            {Ratio, N} when N >= Rounds -> Ratio;
            {_TooFew, _} -> undefined
        end
    end.

grown(Entries) ->
    case hawser_bench_results:median(flood, 100, {?OURS, grow_sender}, Entries) of
        undefined -> undefined;
        Bytes -> Bytes / 1048576
    end.

text(Format, N) ->
    lists:flatten(io_lib:format(Format, [N])).
