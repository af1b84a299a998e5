%% The limits of a shard's queue where both directions are full: answers have a reserve that senders do not get, nobody
%% waits for ever whatever the reserve is, and those who wait are woken a few at a time.
-module(hawser_limits_SUITE).

-export([suite/0, all/0, groups/0, init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([answers_go_first/1, answers_wait_past_the_reserve/1, both_flood/1, few_are_woken/1, dropped_are_acknowledged/1]).
%% Run on the nodes.
-export([keeper/1, held/1, release/2, called/3, flood/4, deeper/4, wait_in_push/2, blocked/2, most_ready/1, to_nobody/2]).

-import(hawser_test_nodes, [start_node/1, stop/1, freeze/1, thaw/1, call/4, call/5, await_session/2]).
-import(hawser_call_bodies, [on/2]).
-import(hawser_attacked, [until/1]).

-define(MS, 100000).
-define(QUEUE, 65536).
-define(RESERVE, 65536).
-define(NARROW, #{max_queue_bytes => ?QUEUE, max_unacked_bytes => 131072, ack_every_bytes => 32768}).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [{group, without_reserve}, {group, one_shard}, {group, four_shards}, few_are_woken, dropped_are_acknowledged].

groups() ->
    [
        {without_reserve, [], [both_flood]},
        {one_shard, [], [answers_go_first, answers_wait_past_the_reserve, both_flood]},
        {four_shards, [], [answers_go_first, answers_wait_past_the_reserve, both_flood]}
    ].

init_per_group(without_reserve, Config) -> [{env, ?NARROW#{shards => 2, reply_reserve_bytes => 0}} | Config];
init_per_group(one_shard, Config) -> [{env, ?NARROW#{shards => 1, reply_reserve_bytes => ?RESERVE}} | Config];
init_per_group(four_shards, Config) -> [{env, ?NARROW#{shards => 4, reply_reserve_bytes => ?RESERVE}} | Config].

end_per_group(_, _) ->
    ok.

init_per_testcase(Case, Config) ->
    Env = case Case of
        few_are_woken -> ?NARROW#{shards => 1, max_queue_bytes => 4 bsl 20};
        dropped_are_acknowledged -> ?NARROW#{shards => 1, heartbeat_interval_ms => 3600000};
        _ -> proplists:get_value(env, Config)
    end,
    Nodes = [A, B] = [start_node(#{env => Env, link => false}) || _ <- [a, b]],
    ok = await_session(A, B),
    [{nodes, Nodes} | Config].

end_per_testcase(_, Config) ->
    [stop(Peer) || {Peer, _} <- proplists:get_value(nodes, Config), is_process_alive(Peer)].

%% ---- the reserve ----

%% Where senders wait for room, the answers to calls do not: their bodies end while the calling node stands still.
answers_go_first(Config) ->
    [{A, NodeA}, OnB] = proplists:get_value(nodes, Config),
    {Callers, Bodies} = held(Config, 40),
    Frozen = freeze(A),
    Fillers = on(OnB, fun() -> hawser_call_bodies:fill(NodeA, 64) end),
    on(OnB, fun() ->
        Monitors = [monitor(process, Body) || Body <- Bodies],
        ok = release(Bodies, small),
        _ = [receive {'DOWN', Monitor, process, _, {hawser_answered, _}} -> ok end || Monitor <- Monitors],
        true = lists:all(fun(Filler) -> wait_in_push(Filler, 1) =:= waits end, Fillers),
        _ = [exit(Filler, kill) || Filler <- Fillers]
    end),
    ok = thaw(Frozen),
    [{ok, small}] = lists:usort(call(A, ?MODULE, called, [Callers, answers, ?MS], ?MS)).

%% Past the reserve bodies wait as senders do, and what is queued stays below the limits and one answer more.
answers_wait_past_the_reserve(Config) ->
    [{A, NodeA}, OnB] = proplists:get_value(nodes, Config),
    {Callers, Bodies} = held(Config, 100),
    Frozen = freeze(A),
    Fillers = on(OnB, fun() -> hawser_call_bodies:fill(NodeA, 64) end),
    Answer = binary:copy(<<7>>, 20000),
    on(OnB, fun() ->
        ok = release(Bodies, Answer),
        Found = [wait_in_push(Body, infinity) || Body <- Bodies],
        true = lists:member(waits, Found) andalso lists:member(ended, Found),
        #{session := #{shards := Shards}} = hawser:info(NodeA),
        Queued = [Bytes || #{queued_bytes := Bytes} <- Shards],
        true = lists:max(Queued) > ?QUEUE,
        true = lists:max(Queued) < ?QUEUE + ?RESERVE + byte_size(Answer) + 100,
        _ = [exit(Filler, kill) || Filler <- Fillers]
    end),
    ok = thaw(Frozen),
    [{ok, Answer}] = lists:usort(call(A, ?MODULE, called, [Callers, answers, ?MS], ?MS)).

%% Both nodes call each other, and the bodies call back, with requests and answers that fill the small queues: no call
%% waits for ever.
both_flood(Config) ->
    [{A, NodeA}, {B, NodeB}] = proplists:get_value(nodes, Config),
    Running = [spawn_monitor(fun() -> exit(call(Peer, ?MODULE, flood, [Node, Own, 64, 40], ?MS)) end)
               || {Peer, Own, Node} <- [{A, NodeA, NodeB}, {B, NodeB, NodeA}]],
    [ok, ok] = [receive {'DOWN', Monitor, process, Pid, Reason} -> Reason end || {Pid, Monitor} <- Running].

%% ---- who waits for room ----

%% Ten thousand senders that wait are woken a few at a time as the queue empties: never are many of them ready to run.
few_are_woken(Config) ->
    [{A, _}, {B, _}] = proplists:get_value(nodes, Config),
    Receivers = call(B, hawser_stream, receivers, [100]),
    Frozen = freeze(B),
    Meter = call(A, ?MODULE, blocked, [Receivers, 10000], ?MS),
    ok = thaw(Frozen),
    Most = call(A, ?MODULE, most_ready, [Meter], ?MS),
    ct:comment("~b of 10000 ready to run at most", [Most]),
    true = Most < 1000,
    _ = [ok = call(B, hawser_stream, await, [Receiver, 100, ?MS], ?MS) || Receiver <- Receivers],
    ok.

%% What has no receiver there is taken over like everything else: its sender goes on, though no heartbeat comes.
dropped_are_acknowledged(Config) ->
    [{A, _}, {_, NodeB}] = proplists:get_value(nodes, Config),
    ok = call(A, ?MODULE, to_nobody, [NodeB, 3000], ?MS).

%% ---- help ----

%% So many callers, each with a body that waits for what it is to return.
held(Config, N) ->
    [{A, _}, {B, NodeB}] = proplists:get_value(nodes, Config),
    Keeper = call(B, ?MODULE, keeper, [N]),
    Callers = call(A, ?MODULE, called, [NodeB, Keeper, N]),
    {Callers, call(B, ?MODULE, held, [Keeper])}.

%% ---- on the nodes ----

keeper(N) ->
    spawn(fun() ->
        Bodies = [receive {body, Body} -> Body end || _ <- lists:seq(1, N)],
        receive {held, From, Ref} -> From ! {Ref, Bodies} end
    end).

held(Keeper) ->
    Ref = make_ref(),
    Keeper ! {held, self(), Ref},
    receive {Ref, Bodies} -> Bodies end.

release(Bodies, Value) ->
    _ = [Body ! {return, Value} || Body <- Bodies],
    ok.

%% Callers that keep their answers, and what they have got.
called(Callers, answers, Ms) ->
    [begin
        Ref = make_ref(),
        Caller ! {answer, self(), Ref},
        receive {Ref, Answer} -> Answer after Ms -> error(unanswered) end
    end || Caller <- Callers];
called(Node, Keeper, N) ->
    [spawn(fun() ->
        Answer = hawser:call(Node, hawser_call_bodies, hold, [Keeper]),
        receive {answer, From, Ref} -> From ! {Ref, Answer} end
    end) || _ <- lists:seq(1, N)].

%% The process waits for room in a shard, or has ended; it may take a while until it is one or the other.
wait_in_push(_Pid, 0) ->
    neither;
wait_in_push(Pid, Tries) ->
    case process_info(Pid, [current_function, status]) of
        undefined -> ended;
        [{current_function, {hawser_push, _, _}}, {status, waiting}] -> waits;
        _ -> erlang:yield(), wait_in_push(Pid, case Tries of infinity -> infinity; _ -> Tries - 1 end)
    end.

to_nobody(_Node, 0) ->
    ok;
to_nobody(Node, N) ->
    _ = hawser:send({no_such_name, Node}, binary:copy(<<1>>, 1000)),
    to_nobody(Node, N - 1).

flood(Node, Own, Callers, Calls) ->
    Payload = binary:copy(<<1>>, 10000),
    Monitors = [element(2, spawn_monitor(fun() ->
        _ = [{ok, {ok, Payload}} = hawser:call(Node, ?MODULE, deeper, [Own, N, Calls, Payload]) || N <- lists:seq(1, Calls)]
    end)) || _ <- lists:seq(1, Callers)],
    [normal] = lists:usort([receive {'DOWN', Monitor, process, _, Reason} -> Reason end || Monitor <- Monitors]),
    ok.

%% What is called: it calls back, and both answers are as long as the requests were.
deeper(Node, _, _, Payload) ->
    hawser:call(Node, hawser_call_bodies, same, [Payload]).

%% Senders of which each waits for room; answers the process that waits for their ends and counts who is ready to run.
blocked(Receivers, N) ->
    Starter = self(),
    Meter = spawn_link(fun() ->
        Fillers = hawser_call_bodies:fill(node(maps:get(pid, hd(Receivers))), 64),
        Spread = lists:append(lists:duplicate(N div length(Receivers), Receivers)),
        Senders = hawser_stream:senders(Spread, #{count => 5, payload => {bytes, 1000}}),
        _ = [Pid ! go || {Pid, _} <- Senders],
        _ = [waits = wait_in_push(Pid, infinity) || {Pid, _} <- Senders],
        _ = [exit(Filler, kill) || Filler <- Fillers],
        process_flag(priority, high),
        Starter ! {self(), blocked},
        Most = ready(maps:from_list([{Monitor, true} || {_, Monitor} <- Senders]), 0),
        receive {most, From, Ref} -> From ! {Ref, Most} end
    end),
    receive {Meter, blocked} -> Meter end.

most_ready(Meter) ->
    Ref = monitor(process, Meter),
    Meter ! {most, self(), Ref},
    receive {Ref, Most} -> Most end.

ready(Left, Most) when map_size(Left) =:= 0 ->
    Most;
ready(Left, Most) ->
    Now = max(Most, statistics(total_run_queue_lengths)),
    receive
        {'DOWN', Monitor, process, _, normal} -> ready(maps:remove(Monitor, Left), Now)
    after 1 ->
        ready(Left, Now)
    end.
