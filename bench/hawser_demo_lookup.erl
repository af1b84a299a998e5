%% Act two on its nodes: the answering node keeps the records by package name, callers on the other one look them up,
%% and verify each by the checksum that they have from their own copy of the file. Called by hawser_demo_pass; find/1
%% is what is called over the path. Act three looks up the same records.
-module(hawser_demo_lookup).
-behaviour(hawser_demo_pass).

-export([noun/0, judged_at/0, load/2, arm/3, go/0, stop/0, seen/0, outcome/1]).
-export([find/1, names/0, right/2]).
-export_type([tally/0]).

%% `verified`: answered, with the right record. `p50`, `p99`: microseconds of a call.
-type tally() :: #{asked := non_neg_integer(), verified := non_neg_integer(), wrong_checksum := non_neg_integer(),
                   failed := non_neg_integer(), finished := integer(), p50 := integer(), p99 := integer()}.

-define(RECORDS, {?MODULE, records}).
-define(NAMES, {?MODULE, names}).
-define(NO_TALLY, #{asked => 0, verified => 0, wrong_checksum => 0, failed => 0, finished => 0, times => []}).

-spec noun() -> string().
noun() -> "lookups".

-spec judged_at() -> sender.
judged_at() -> sender.

%% A name that stands in the file twice (a package of two architectures) is its last record, on either node.
-spec load(sender | receiver, file:filename()) -> hawser_demo_pass:corpus().
load(Role, File) ->
    Items = [{Name, Item} || {_, _, #{package := Name}} = Item <- hawser_demo_records:read(File)],
    keep(Role, maps:from_list(Items)).

keep(receiver, ByName) ->
    ok = persistent_term:put(?RECORDS, maps:map(fun(_Name, {_, _, Record}) -> Record end, ByName)),
    {map_size(ByName), 0, 0.0};
keep(sender, ByName) ->
    Names = [{Name, Checksum} || {Name, {Checksum, _, _}} <- maps:to_list(ByName)],
    ok = persistent_term:put(?NAMES, list_to_tuple(Names)),
    {map_size(ByName), lists:sum([Bytes || {_, Bytes, _} <- maps:values(ByName)]), 0.0}.

%% The record of a package, on a node that has loaded them.
-spec find(binary()) -> hawser_demo_records:package().
find(Name) ->
    maps:get(Name, persistent_term:get(?RECORDS)).

%% What can be looked up, with the checksum of each record.
-spec names() -> tuple().
names() ->
    persistent_term:get(?NAMES).

%% Is this the record with that checksum?
-spec right(term(), non_neg_integer()) -> boolean().
right(Record, Checksum) when is_map(Record) -> hawser_demo_records:checksum(Record) =:= Checksum;
right(_Other, _Checksum) -> false.

-spec arm(module(), node(), pos_integer()) -> ok.
arm(Path, Peer, Callers) ->
    Ended = atomics:new(1, []),
    Counter = counters:new(1, [write_concurrency]),
    Judge = spawn(fun() -> judge(Callers) end),
    Names = names(),
    Start = fun(I) -> (I * 7919) rem tuple_size(Names) end,
    Shared = {Path, Peer, Judge, Counter, Ended},
    Caller = fun(I) -> receive go -> look_up(Shared, Names, Start(I), ?NO_TALLY) end end,
    Pids = [spawn(fun() -> Caller(I) end) || I <- lists:seq(1, Callers)],
    persistent_term:put(?MODULE, {Pids, Ended, Counter, Judge}).

-spec go() -> integer().
go() ->
    {Pids, _, _, _} = persistent_term:get(?MODULE),
    Start = os:system_time(microsecond),
    [Pid ! go || Pid <- Pids],
    Start.

%% Each caller ends after the call that it is at.
-spec stop() -> ok.
stop() ->
    {_, Ended, _, _} = persistent_term:get(?MODULE),
    atomics:put(Ended, 1, 1).

-spec seen() -> non_neg_integer().
seen() ->
    {_, _, Counter, _} = persistent_term:get(?MODULE),
    counters:get(Counter, 1).

-spec outcome(timeout()) -> {ok, tally()} | {error, {Missing :: pos_integer(), tally()}}.
outcome(TimeoutMs) ->
    {_, _, _, Judge} = persistent_term:get(?MODULE),
    Ref = make_ref(),
    Judge ! {outcome, self(), Ref, TimeoutMs},
    receive
        {Ref, Outcome} -> Outcome
    end.

look_up({Path, Peer, Judge, Counter, Ended} = Shared, Names, Index, Tally) ->
    {Name, Checksum} = element(Index + 1, Names),
    Start = erlang:monotonic_time(microsecond),
    Answer = answer(Path, Peer, Name),
    Taken = erlang:monotonic_time(microsecond) - Start,
    #{verified := Verified} = Next = count(Answer, Checksum, Taken, Tally),
    ok = counters:add(Counter, 1, Verified - maps:get(verified, Tally)),
    case atomics:get(Ended, 1) of
        0 -> look_up(Shared, Names, (Index + 1) rem tuple_size(Names), Next);
        1 -> Judge ! {tally, Next#{finished := os:system_time(microsecond)}}
    end.

%% A call that fails is counted; the caller goes on.
answer(Path, Peer, Name) ->
    try
        {ok, Path:call(Peer, ?MODULE, find, [Name])}
    catch
        _:_ -> failed
    end.

count({ok, Record}, Checksum, Taken, #{asked := N, times := Times} = Tally) ->
    Field = case right(Record, Checksum) of true -> verified; false -> wrong_checksum end,
    Tally#{asked := N + 1, times := [Taken | Times], Field := maps:get(Field, Tally) + 1};
count(failed, _Checksum, _Taken, #{asked := N, failed := Failed} = Tally) ->
    Tally#{asked := N + 1, failed := Failed + 1}.

judge(Callers) ->
    receive
        {outcome, From, Ref, TimeoutMs} ->
            Deadline = erlang:monotonic_time(millisecond) + TimeoutMs,
            From ! {Ref, gather(Callers, Deadline, ?NO_TALLY)}
    end.

gather(0, _Deadline, Sum) ->
    {ok, figures(Sum)};
gather(Left, Deadline, Sum) ->
    receive
        {tally, Tally} ->
            gather(Left - 1, Deadline, maps:map(fun(Key, Value) -> join(Key, Value, maps:get(Key, Tally)) end, Sum))
    after max(0, Deadline - erlang:monotonic_time(millisecond)) ->
        {error, {Left, figures(Sum)}}
    end.

join(finished, A, B) -> max(A, B);
join(times, A, B) -> B ++ A;
join(_Sum, A, B) -> A + B.

figures(#{times := Times} = Sum) ->
    Sorted = lists:sort(Times),
    (maps:remove(times, Sum))#{p50 => hawser_bench_workload:percentile(Sorted, 50),
                               p99 => hawser_bench_workload:percentile(Sorted, 99)}.
