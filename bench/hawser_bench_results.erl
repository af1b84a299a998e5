%% The figures of a run: one entry per measurement, and the medians and ratios that are said of them. Filled by
%% hawser_bench, read by the report and the verdict. Pure.
-module(hawser_bench_results).

-export([median/4, range/4, ratio/5, paired/5, failures/3, keys/2, median/1]).
-export_type([entry/0, entries/0]).

-type entry() :: #{section := hawser_bench_plan:section(), key := pos_integer(), path := module(),
                   round := pos_integer(), outcome := {ok, hawser_bench_trial:figures()} | {error, term()}}.
-type entries() :: [entry()].

%% Median over the rounds; undefined when no round has the figure.
-spec median(hawser_bench_plan:section(), pos_integer(), {module(), atom()}, entries()) -> number() | undefined.
median(Section, Key, Figure, Entries) ->
    median(values(Section, Key, Figure, Entries)).

-spec range(hawser_bench_plan:section(), pos_integer(), {module(), atom()}, entries()) ->
    {number(), number()} | undefined.
range(Section, Key, Figure, Entries) ->
    case values(Section, Key, Figure, Entries) of
        [] -> undefined;
        Values -> {lists:min(Values), lists:max(Values)}
    end.

%% Median of Path divided by the median of Other.
-spec ratio(hawser_bench_plan:section(), pos_integer(), {module(), module()}, atom(), entries()) -> float() | undefined.
ratio(Section, Key, {Path, Other}, Name, Entries) ->
    case {median(Section, Key, {Path, Name}, Entries), median(Section, Key, {Other, Name}, Entries)} of
        {undefined, _} -> undefined;
        {_, undefined} -> undefined;
        {_, Zero} when Zero == 0 -> undefined;
        {Value, Reference} -> Value / Reference
    end.

%% The other way to compare: each round's figure of Path divided by Other's of the same round, and the median of those;
%% with the number of rounds that have both.
-spec paired(hawser_bench_plan:section(), pos_integer(), {module(), module()}, atom(), entries()) ->
    {float() | undefined, Rounds :: non_neg_integer()}.
paired(Section, Key, {Path, Other}, Name, Entries) ->
    Others = maps:from_list(by_round(Section, Key, {Other, Name}, Entries)),
    Ratios = [Value / maps:get(Round, Others) || {Round, Value} <- by_round(Section, Key, {Path, Name}, Entries),
                                                 maps:get(Round, Others, 0) > 0],
    {median(Ratios), length(Ratios)}.

-spec failures(hawser_bench_plan:section(), pos_integer(), entries()) -> [{module(), term()}].
failures(Section, Key, Entries) ->
    lists:usort([{Path, Reason} || #{section := S, key := K, path := Path, outcome := {error, Reason}} <- Entries,
                                   S =:= Section, K =:= Key]).

%% The cases of a section, in the order in which they ran.
-spec keys(hawser_bench_plan:section(), entries()) -> [pos_integer()].
keys(Section, Entries) ->
    lists:foldl(fun(Key, Seen) ->
        case lists:member(Key, Seen) of
            true -> Seen;
            false -> Seen ++ [Key]
        end
    end, [], [K || #{section := S, key := K} <- Entries, S =:= Section]).

-spec median([number()]) -> number() | undefined.
median([]) ->
    undefined;
median(Values) ->
    Sorted = lists:sort(Values),
    N = length(Sorted),
    case N rem 2 of
        1 -> lists:nth(N div 2 + 1, Sorted);
        0 -> (lists:nth(N div 2, Sorted) + lists:nth(N div 2 + 1, Sorted)) / 2
    end.

values(Section, Key, Figure, Entries) ->
    [Value || {_Round, Value} <- by_round(Section, Key, Figure, Entries)].

by_round(Section, Key, {Path, Name}, Entries) ->
    [{Round, maps:get(Name, Figures)}
     || #{section := S, key := K, path := P, round := Round, outcome := {ok, Figures}} <- Entries,
        S =:= Section, K =:= Key, P =:= Path, is_map_key(Name, Figures)].
