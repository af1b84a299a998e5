%% A crowded node: hawser finds out that it is one, and that it is none any more; what it does ahead of others then takes
%% nobody's share.
-module(hawser_pulse_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([comes_and_goes/1, many_that_are_quick/1, bodies_have_normal_priority/1, computing_goes_on/1]).
%% Run on the nodes.
-export([
    node_compute/1, node_stop/1, node_progress/1, node_until/2, node_priority/0, node_slice/0, node_callers/2, node_swarm/1
]).

-import(hawser_test_nodes, [start_node/1, stop/1, call/4, call/5, await_session/2]).

-define(COMPUTING, 200).
-define(CALL_MS, 60000).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [comes_and_goes, many_that_are_quick, bodies_have_normal_priority, computing_goes_on].

init_per_suite(Config) ->
    [{A, _}, {B, _}] = Nodes = [start_node(#{args => ["+S", "2"], link => false}) || _ <- [a, b]],
    ok = await_session(hd(Nodes), lists:last(Nodes)),
    [{a, A}, {b, B}, {node, element(2, lists:last(Nodes))} | Config].

end_per_suite(Config) ->
    _ = [stop(proplists:get_value(Key, Config)) || Key <- [a, b]],
    ok.

init_per_testcase(many_that_are_quick, Config) ->
    Config;
init_per_testcase(_, Config) ->
    [{load, call(proplists:get_value(b, Config), ?MODULE, node_compute, [?COMPUTING])} | Config].

end_per_testcase(many_that_are_quick, _) ->
    ok;
end_per_testcase(_, Config) ->
    call(proplists:get_value(b, Config), ?MODULE, node_stop, [proplists:get_value(load, Config)], ?CALL_MS).

%% Traffic shows that the node is crowded once many compute on it, and that it is not when they have ended.
comes_and_goes(Config) ->
    {A, B, Node} = both(Config),
    ok = call(A, ?MODULE, node_until, [Node, true], ?CALL_MS),
    ok = call(B, ?MODULE, node_stop, [proplists:get_value(load, Config)], ?CALL_MS),
    ok = call(A, ?MODULE, node_until, [Node, false], ?CALL_MS).

%% Thousands that are ready to run and soon done with it are no crowd.
many_that_are_quick(Config) ->
    {A, B, Node} = both(Config),
    Swarm = call(B, ?MODULE, node_swarm, [5000]),
    ok = call(A, ?MODULE, node_until, [Node, false], ?CALL_MS),
    call(B, ?MODULE, node_stop, [Swarm], ?CALL_MS).

%% A body that began ahead of others runs like any other process.
bodies_have_normal_priority(Config) ->
    {A, _, Node} = both(Config),
    ok = call(A, ?MODULE, node_until, [Node, true], ?CALL_MS),
    Told = [call(A, hawser, call, [Node, ?MODULE, node_priority, []]) || _ <- lists:seq(1, 20)],
    [{ok, {priority, normal}}] = lists:usort(Told).

%% Calls without end whose bodies use up their time slices leave every computing process its turns.
computing_goes_on(Config) ->
    {A, B, Node} = both(Config),
    ok = call(A, ?MODULE, node_until, [Node, true], ?CALL_MS),
    Callers = call(A, ?MODULE, node_callers, [Node, 300]),
    ok = call(B, ?MODULE, node_progress, [proplists:get_value(load, Config)], ?CALL_MS),
    call(A, ?MODULE, node_stop, [Callers], ?CALL_MS).

both(Config) ->
    list_to_tuple([proplists:get_value(Key, Config) || Key <- [a, b, node]]).

%% ---- on the nodes ----

%% Processes that compute without end and count their rounds, by the place in a counters array.
node_compute(N) ->
    Rounds = counters:new(N, [write_concurrency]),
    {Rounds, [spawn(fun() -> compute(Rounds, Place, 1) end) || Place <- lists:seq(1, N)]}.

compute(Rounds, Place, Value) ->
    Next = lists:foldl(fun(_, X) -> (X * 1103515245 + 12345) band 16#7fffffff end, Value, lists:seq(1, 200)),
    ok = counters:add(Rounds, Place, 1),
    compute(Rounds, Place, Next).

%% Waits until each of them has been through fifty more rounds.
node_progress({Rounds, Pids}) ->
    process_flag(priority, high),
    Places = lists:seq(1, length(Pids)),
    Goal = [{Place, counters:get(Rounds, Place) + 50} || Place <- Places],
    reach(Rounds, Goal).

reach(_Rounds, []) ->
    ok;
reach(Rounds, Goal) ->
    erlang:yield(),
    reach(Rounds, [Left || {Place, Count} = Left <- Goal, counters:get(Rounds, Place) < Count]).

%% Processes that do next to nothing and are ready to do it again.
node_swarm(N) ->
    {none, [spawn(fun Swarm() -> erlang:yield(), Swarm() end) || _ <- lists:seq(1, N)]}.

node_stop({_, Pids}) ->
    Refs = [monitor(process, Pid) || Pid <- Pids],
    _ = [exit(Pid, kill) || Pid <- Pids],
    _ = [receive {'DOWN', Ref, process, _, _} -> ok end || Ref <- Refs],
    ok.

%% Asks the node again and again, which is the traffic too.
node_until(Node, Crowded) ->
    case hawser:call(Node, hawser_pulse, crowded, []) of
        {ok, Crowded} -> ok;
        {ok, _} -> node_until(Node, Crowded)
    end.

node_callers(Node, N) ->
    {none, [spawn(fun Call() -> {ok, _} = hawser:call(Node, ?MODULE, node_slice, []), Call() end) || _ <- lists:seq(1, N)]}.

node_slice() ->
    lists:sum(lists:seq(1, 3000)).

node_priority() ->
    process_info(self(), priority).
