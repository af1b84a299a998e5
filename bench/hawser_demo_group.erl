%% Act three on the node that asks: callers of hawser's group functions, each call on the same two nodes, and each
%% answer held against what the function promises. Called by hawser_demo_act_three, which says when one of the two is
%% about to be stopped and when it is gone: a call that ran wholly before or wholly after must answer as promised for
%% that state, one in between as for either.
-module(hawser_demo_group).

-export([arm/2, go/0, stopping/0, stopped/0, stop/0, seen/0, outcome/1]).
-export_type([phase/0, tally/0, tallies/0]).

-type group_function() :: call_one | call_any | call_all | call_all_wait.
-type phase() :: before | between | later.
%% `by_node`: how many answers hold a good one of that node; `rejected`: how many name the stopped node among the
%% rejects.
-type tally() :: #{answers := non_neg_integer(), by_node := #{node() => pos_integer()}, rejected := non_neg_integer(),
                   wrong := non_neg_integer(), example := none | {wrong, Answer :: term()}}.
-type tallies() :: #{{group_function(), phase()} => tally()}.

-define(FUNCTIONS, [call_one, call_any, call_all, call_all_wait]).
-define(NO_TALLY, #{answers => 0, by_node => #{}, rejected => 0, wrong => 0, example => none}).

%% So many callers of each function; nothing is called yet. The second node is the one that will be stopped.
-spec arm([node()], pos_integer()) -> ok.
arm([_, _] = Nodes, Callers) ->
    Phase = atomics:new(1, []),
    Counter = counters:new(1, [write_concurrency]),
    Judge = spawn(fun() -> judge(Callers * length(?FUNCTIONS)) end),
    Names = hawser_demo_lookup:names(),
    Shared = {Nodes, Names, Judge, Counter, Phase},
    Pids = [spawn(fun() -> receive go -> ask(Function, Shared, (I * 7919) rem tuple_size(Names), #{}) end end)
            || Function <- ?FUNCTIONS, I <- lists:seq(1, Callers)],
    persistent_term:put(?MODULE, {Pids, Phase, Counter, Judge}).

-spec go() -> ok.
go() ->
    {Pids, _, _, _} = persistent_term:get(?MODULE),
    lists:foreach(fun(Pid) -> Pid ! go end, Pids).

-spec stopping() -> ok.
stopping() -> set_phase(1).

-spec stopped() -> ok.
stopped() -> set_phase(2).

%% Each caller ends after the call that it is at.
-spec stop() -> ok.
stop() -> set_phase(3).

-spec seen() -> non_neg_integer().
seen() ->
    {_, _, Counter, _} = persistent_term:get(?MODULE),
    counters:get(Counter, 1).

-spec outcome(timeout()) -> {ok, tallies()} | {error, {Unreported :: pos_integer(), tallies()}}.
outcome(TimeoutMs) ->
    {_, _, _, Judge} = persistent_term:get(?MODULE),
    Ref = make_ref(),
    Judge ! {outcome, self(), Ref, TimeoutMs},
    receive
        {Ref, Outcome} -> Outcome
    end.

set_phase(N) ->
    {_, Phase, _, _} = persistent_term:get(?MODULE),
    atomics:put(Phase, 1, N).

ask(Function, {Nodes, Names, Judge, Counter, Phase} = Shared, Index, Tallies) ->
    {Name, Checksum} = element(Index + 1, Names),
    Begun = atomics:get(Phase, 1),
    Answer = hawser:Function(Nodes, hawser_demo_lookup, find, [Name]),
    Ended = atomics:get(Phase, 1),
    Key = {Function, phase(Begun, Ended)},
    Next = Tallies#{Key => count(Key, Nodes, Checksum, Answer, maps:get(Key, Tallies, ?NO_TALLY))},
    ok = counters:add(Counter, 1, 1),
    case Ended of
        3 -> Judge ! {tallies, Next};
        _ -> ask(Function, Shared, (Index + 1) rem tuple_size(Names), Next)
    end.

phase(_Begun, 0) -> before;
phase(Begun, _Ended) when Begun >= 2 -> later;
phase(_Begun, _Ended) -> between.

count({Function, Phase}, Nodes, Checksum, Answer, #{wrong := W} = Tally) ->
    {Good, Rejects} = parts(Answer),
    One = #{answers => 1, by_node => maps:from_list([{Node, 1} || {Node, _} <- Good]), rejected => length(Rejects),
            wrong => 0, example => none},
    Counted = add(One, Tally),
    Right = lists:all(fun({_Node, Record}) -> hawser_demo_lookup:right(Record, Checksum) end, Good),
    case Right andalso promised(Function, Phase, Nodes, Answer) of
        true -> Counted;
        false -> Counted#{wrong := W + 1, example := {wrong, Answer}}
    end.

parts({ok, {Node, Record}}) -> {[{Node, Record}], []};
parts({ok, Replies}) when is_list(Replies) -> {Replies, []};
parts({Replies, Rejects}) when is_list(Replies), is_list(Rejects) -> {Replies, Rejects};
parts(_Other) -> {[], []}.

%% What the function promises with both nodes up, and with the second one gone: a node that cannot be reached is left
%% out, and call_all_wait names it.
promised(Function, between, Nodes, Answer) ->
    promised(Function, before, Nodes, Answer) orelse promised(Function, later, Nodes, Answer);
promised(Function, before, Nodes, {ok, {Node, _}}) when Function =:= call_one; Function =:= call_any ->
    lists:member(Node, Nodes);
promised(Function, later, [Left, _Gone], {ok, {Node, _}}) when Function =:= call_one; Function =:= call_any ->
    Node =:= Left;
promised(call_all, before, [A, B], {ok, [{A, _}, {B, _}]}) ->
    true;
promised(call_all, later, [Left, _Gone], {ok, [{Left, _}]}) ->
    true;
promised(call_all_wait, before, [A, B], {[{A, _}, {B, _}], []}) ->
    true;
promised(call_all_wait, later, [Left, Gone], {[{Left, _}], [{Gone, {badrpc, _}}]}) ->
    true;
promised(_Function, _Phase, _Nodes, _Answer) ->
    false.

judge(Callers) ->
    receive
        {outcome, From, Ref, TimeoutMs} ->
            Deadline = erlang:monotonic_time(millisecond) + TimeoutMs,
            From ! {Ref, gather(Callers, Deadline, #{})}
    end.

gather(0, _Deadline, Sum) ->
    {ok, Sum};
gather(Left, Deadline, Sum) ->
    receive
        {tallies, Tallies} ->
            Add = fun(Key, Tally, All) -> All#{Key => add(Tally, maps:get(Key, All, ?NO_TALLY))} end,
            gather(Left - 1, Deadline, maps:fold(Add, Sum, Tallies))
    after max(0, Deadline - erlang:monotonic_time(millisecond)) ->
        {error, {Left, Sum}}
    end.

add(Tally, Sum) ->
    maps:map(fun(Key, Value) -> join(Key, Value, maps:get(Key, Tally)) end, Sum).

join(by_node, A, B) -> maps:fold(fun(Node, N, All) -> All#{Node => N + maps:get(Node, All, 0)} end, A, B);
join(example, none, B) -> B;
join(example, A, _) -> A;
join(_Number, A, B) -> A + B.
