%% A sender that finds its queue full waits, as `!' does on a busy channel, or is told so; whatever happens to those who
%% wait, the others go on. The peer is stopped by the operating system, so that the queues fill and stay full.
-module(hawser_suspend_SUITE).

-export([suite/0, all/0, groups/0, init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([
    nosuspend/1, nosuspend_between/1, nosuspend_beside_waiting/1, waiting_go_on/1, plain_waits/1, turn_comes/1, killed_while_waiting/1,
    killed_before_others/1, exit_trapped/1, nothing_left_behind/1, killed_at_random/1, peer_dies/1, disconnected/1,
    bursts/1
]).
%% Run on the nodes.
-export([worker/0, do/2, fill/1, sinks/1, bursts/2]).

-import(hawser_test_nodes, [start_node/1, stop/1, freeze/1, thaw/1, call/4, call/5, await_session/2]).

-define(MS, 60000).
%% Full after a few hundred kilobytes.
-define(NARROW, #{max_queue_bytes => 65536, max_unacked_bytes => 131072, ack_every_bytes => 32768}).
-define(PAYLOAD, {bytes, 1000}).
-define(PLAN, #{count => 20, forms => [pid, name, alias], payload => ?PAYLOAD}).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [{group, one_shard}, {group, four_shards}].

groups() ->
    Cases = [
        nosuspend, nosuspend_between, nosuspend_beside_waiting, waiting_go_on, plain_waits, turn_comes, killed_while_waiting,
        killed_before_others, exit_trapped, nothing_left_behind, killed_at_random, peer_dies, disconnected, bursts
    ],
    [{one_shard, [], Cases}, {four_shards, [], Cases}].

init_per_group(one_shard, Config) -> [{env, maps:put(shards, 1, ?NARROW)} | Config];
init_per_group(four_shards, Config) -> [{env, maps:put(shards, 4, ?NARROW)} | Config].

end_per_group(_, _) ->
    ok.

%% Nodes of its own for each case: what waits at its end must not disturb the next one.
init_per_testcase(Case, Config) ->
    Env = maps:merge(proplists:get_value(env, Config), env(Case)),
    Nodes = [A, B] = [start_node(#{env => Env, args => args(Case), link => false}) || _ <- [a, b]],
    ok = await_session(A, B),
    [{nodes, Nodes} | Config].

end_per_testcase(_, Config) ->
    [stop(Peer) || {Peer, _} <- proplists:get_value(nodes, Config), is_process_alive(Peer)].

%% More schedulers than cores: a caller that writes is interrupted in the midst of it.
args(bursts) -> ["+S", "4"];
args(_) -> [].

env(disconnected) -> #{drain_timeout_ms => 200};
env(bursts) -> #{heartbeat_interval_ms => 3600000};
env(_) -> #{}.

%% ---- who does not want to wait ----

%% With a full queue the answer is nosuspend; every message that was answered with ok arrives, in order.
nosuspend(Config) ->
    {A, B, Worker} = at_work(Config),
    [#{pid := Pid} = Receiver] = call(B, hawser_stream, receivers, [1]),
    Frozen = freeze(B),
    First = do(A, Worker, fun() -> until_full(Pid, 1, erlang:monotonic_time(millisecond)) end),
    true = First > 100,
    %% The kernel may still take a little of what is queued.
    Second = do(A, Worker, fun() -> tried(Pid, First, 1000) end),
    true = Second - First < 500,
    ok = thaw(Frozen),
    Last = do(A, Worker, fun() ->
        Next = tried(Pid, Second, 20000),
        ok = hawser:send(Pid, hawser_stream:number(me, Next, ?PAYLOAD), []),
        hawser:send(Pid, {stream_end, me, Next}),
        Next
    end),
    ct:log("~b at once, ~b in all", [First - 1, Last]),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS).

%% A process that sends with and without nosuspend in turn keeps the order of what was taken.
nosuspend_between(Config) ->
    {A, B, Worker} = at_work(Config),
    [#{pid := Pid, name := Name, alias := Alias} = Receiver] = call(B, hawser_stream, receivers, [1]),
    do(A, Worker, fun() ->
        Next = lists:foldl(
            fun(_, N) ->
                Waiting = tried(Pid, N, 3),
                Message = hawser_stream:number(me, Waiting, ?PAYLOAD),
                Message = hawser:send(Name, Message),
                tried(Alias, Waiting + 1, 2)
            end, 1, lists:seq(1, 3000)),
        hawser:send(Alias, {stream_end, me, Next - 1})
    end),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS).

%% While others wait, nosuspend is answered at once and takes nothing from those who wait.
nosuspend_beside_waiting(Config) ->
    {A, B, Worker} = at_work(Config),
    {Frozen, [#{pid := Pid} = Own | Receivers]} = frozen(Config, 101),
    _ = do(A, Worker, fun() -> waiting(Receivers, ?PLAN) end),
    Refused = do(A, Worker, fun() -> [hawser:send(Pid, {stream_end, me, 0}, [nosuspend]) || _ <- lists:seq(1, 100)] end),
    [nosuspend] = lists:usort(Refused),
    ok = thaw(Frozen),
    _ = do(A, Worker, fun() -> hawser:send(Pid, {stream_end, me, 0}) end),
    [] = call(B, hawser_stream, finished, [[Own | Receivers], ?MS], 2 * ?MS).

%% Short bursts that fill the queue of a peer that takes everything: whoever empties the queue, those who waited go on.
%% Nothing else wakes them: no heartbeat comes in the time of the test.
bursts(Config) ->
    {A, B, _} = at_work(Config),
    [#{pid := Pid}] = call(B, hawser_stream, receivers, [1]),
    ok = call(A, ?MODULE, bursts, [Pid, 1500], 2 * ?MS).

%% ---- who waits ----

%% All who wait go on when the peer does, and their messages arrive in order.
waiting_go_on(Config) ->
    {A, B, Worker} = at_work(Config),
    {Frozen, Receivers} = frozen(Config, 300),
    Senders = do(A, Worker, fun() -> waiting(Receivers, ?PLAN) end),
    ok = thaw(Frozen),
    [] = do(A, Worker, fun() -> hawser_stream:wait(Senders) end),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% The same for messages that are too long, or of a kind, for hawser's own form.
plain_waits(Config) ->
    {A, B, Worker} = at_work(Config),
    {Frozen, Receivers} = frozen(Config, 30),
    Senders = do(A, Worker, fun() -> waiting(Receivers, #{count => 20, payload => {bytes, 100000}}) end),
    ok = thaw(Frozen),
    [] = do(A, Worker, fun() -> hawser_stream:wait(Senders) end),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% A sender comes to its turn though others never stop to flood.
turn_comes(Config) ->
    {A, B, Worker} = at_work(Config),
    Sinks = call(B, ?MODULE, sinks, [4]),
    Receivers = call(B, hawser_stream, receivers, [64]),
    do(A, Worker, fun() ->
        Flooding = flooding(64, Sinks),
        [] = hawser_stream:run(hawser_stream:senders(Receivers, ?PLAN)),
        killed = killed(Flooding)
    end),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% Killed ones leave at once, while the peer still stands; those who wait before and behind them go on.
killed_while_waiting(Config) ->
    {A, B, Worker} = at_work(Config),
    {Frozen, Receivers} = frozen(Config, 200),
    {Before, Behind} = lists:split(100, Receivers),
    do(A, Worker, fun() ->
        _ = waiting(Before, ?PLAN),
        Victims = waiting(lists:duplicate(500, hd(Before)), ?PLAN),
        _ = waiting(Behind, ?PLAN),
        killed = killed(Victims)
    end),
    ok = thaw(Frozen),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% A sender that waits behind nobody but killed ones goes on, though no other sender comes to its help.
killed_before_others(Config) ->
    {A, B, Worker} = at_work(Config),
    {Frozen, Receivers} = frozen(Config, 16),
    do(A, Worker, fun() ->
        Victims = waiting(lists:duplicate(4000, hd(Receivers)), ?PLAN),
        _ = waiting(Receivers, ?PLAN),
        killed = killed(Victims)
    end),
    ok = thaw(Frozen),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% One that traps exits leaves when there is room: its message is sent, and the signal waits for it in its mailbox.
exit_trapped(Config) ->
    {A, B, Worker} = at_work(Config),
    {Frozen, Receivers} = frozen(Config, 50),
    Trapping = do(A, Worker, fun() ->
        Victims = all_waiting([spawn_monitor(fun() ->
            process_flag(trap_exit, true),
            ok = hawser_stream:stream(self(), Receiver, maps:put(count, 1, ?PLAN)),
            {messages, Messages} = process_info(self(), messages),
            exit({had, Messages})
        end) || Receiver <- Receivers]),
        _ = [exit(Pid, shutdown) || {Pid, _} <- Victims],
        _ = all_waiting(Victims)
    end),
    ok = thaw(Frozen),
    Reasons = do(A, Worker, fun() -> hawser_stream:wait(Trapping) end),
    [] = [Reason || Reason <- Reasons, not match_exit(Reason, Worker)],
    50 = length(Reasons),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

match_exit({had, [{'EXIT', Worker, shutdown}]}, Worker) -> true;
match_exit(_, _) -> false.

%% Who has waited finds no message, no monitor and no active alias of it afterwards.
nothing_left_behind(Config) ->
    {A, B, Worker} = at_work(Config),
    {Frozen, Receivers} = frozen(Config, 50),
    Senders = do(A, Worker, fun() ->
        all_waiting([spawn_monitor(fun() ->
            Clean = process_info(self(), [messages, monitors, monitored_by, links]),
            ok = hawser_stream:stream(self(), Receiver, ?PLAN),
            Clean = process_info(self(), [messages, monitors, monitored_by, links])
        end) || Receiver <- Receivers])
    end),
    ok = thaw(Frozen),
    [] = do(A, Worker, fun() -> hawser_stream:wait(Senders) end),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% Ten thousand senders are killed at random moments under flood, over and over: living senders on every shard lose
%% nothing, and no shard stalls.
killed_at_random(Config) ->
    {A, B, Worker} = at_work(Config),
    Sinks = call(B, ?MODULE, sinks, [4]),
    _ = [begin
        Receivers = call(B, hawser_stream, receivers, [64]),
        Senders = do(A, Worker, fun() ->
            Living = hawser_stream:senders(Receivers, #{count => 200, forms => [pid, name, alias]}),
            Victims = flooding(10000, Sinks),
            _ = [Pid ! go || {Pid, _} <- Living],
            killed = killed_one_by_one(Victims),
            Living
        end),
        [] = do(A, Worker, fun() -> hawser_stream:wait(Senders) end),
        [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS)
    end || _ <- lists:seq(1, 3)],
    Alone = call(B, hawser_stream, receivers, [64]),
    [] = do(A, Worker, fun() -> hawser_stream:run(hawser_stream:senders(Alone, ?PLAN)) end),
    [] = call(B, hawser_stream, finished, [Alone, ?MS], 2 * ?MS).

%% ---- when the session ends ----

%% The peer dies (kill -9): those who wait go on, as `!' to a dead node does.
peer_dies(Config) ->
    {A, B, Worker} = at_work(Config),
    OsPid = call(B, os, getpid, []),
    {_, Receivers} = frozen(Config, 300),
    Senders = do(A, Worker, fun() -> waiting(Receivers, ?PLAN) end),
    Monitor = monitor(process, B),
    "" = os:cmd("kill -9 " ++ OsPid),
    receive {'DOWN', Monitor, process, B, _} -> ok end,
    [] = do(A, Worker, fun() -> hawser_stream:wait(Senders) end).

%% The session is ended by its owner: those who wait go on over distribution, and their messages arrive.
disconnected(Config) ->
    {A, B, Worker} = at_work(Config),
    [_, {_, NodeB}] = proplists:get_value(nodes, Config),
    {Frozen, Receivers} = frozen(Config, 100),
    Senders = do(A, Worker, fun() -> waiting(Receivers, ?PLAN) end),
    ok = call(A, hawser, disconnect, [NodeB]),
    ok = thaw(Frozen),
    [] = do(A, Worker, fun() -> hawser_stream:wait(Senders) end),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% ---- help ----

at_work(Config) ->
    [{A, _}, {B, _}] = proplists:get_value(nodes, Config),
    {A, B, call(A, ?MODULE, worker, [])}.

%% So many receivers on a peer that is stopped, and no room in any shard's queue.
frozen(Config, N) ->
    [{A, _}, {B, _}] = proplists:get_value(nodes, Config),
    Receivers = call(B, hawser_stream, receivers, [N]),
    [Sink] = call(B, ?MODULE, sinks, [1]),
    Frozen = freeze(B),
    full = call(A, ?MODULE, fill, [Sink], ?MS),
    {Frozen, Receivers}.

do(Peer, Worker, Fun) ->
    call(Peer, ?MODULE, do, [Worker, Fun], 2 * ?MS).

%% ---- on the nodes ----

%% Rounds of eight senders, three messages of some 20 KB each; the next begins when all are done.
bursts(_Pid, 0) ->
    ok;
bursts(Pid, Rounds) ->
    Message = {ignored, lists:seq(1000, 5000)},
    Senders = [spawn_monitor(fun() -> [hawser:send(Pid, Message) || _ <- [1, 2, 3]] end) || _ <- lists:seq(1, 8)],
    [normal] = lists:usort([receive {'DOWN', Ref, process, _, Why} -> Why end || {_, Ref} <- Senders]),
    bursts(Pid, Rounds - 1).

%% A process that lives on between the calls.
worker() ->
    spawn(fun Work() ->
        receive {do, Fun, From, Ref} -> From ! {Ref, Fun()} end,
        Work()
    end).

do(Worker, Fun) ->
    Monitor = monitor(process, Worker),
    Worker ! {do, Fun, self(), Monitor},
    receive
        {Monitor, Answer} -> demonitor(Monitor, [flush]), Answer;
        {'DOWN', Monitor, process, Worker, Reason} -> error(Reason)
    end.

%% From processes of many shards, until on each of them as much as may be waits for the peer and the queue behind it is full.
fill(Sink) ->
    Fillers = [spawn_monitor(fun() -> _ = until_full(Sink, 1, erlang:monotonic_time(millisecond)) end) || _ <- lists:seq(1, 64)],
    [] = hawser_stream:wait(Fillers),
    #{max_queue_bytes := Queued, max_unacked_bytes := Unacked} = ?NARROW,
    #{session := #{shards := Shards}} = hawser:info(node(Sink)),
    case [room || #{queued_bytes := Q, unacked_bytes := U} <- Shards, Q < Queued orelse U < Unacked] of
        [] -> full;
        _ -> fill(Sink)
    end.

%% The number of the first message that was refused, and refused again for so long that flusher and kernel had their turn.
until_full(To, N, Since) ->
    case hawser:send(To, hawser_stream:number(me, N, ?PAYLOAD), [nosuspend]) of
        ok ->
            until_full(To, N + 1, erlang:monotonic_time(millisecond));
        nosuspend ->
            erlang:yield(),
            case erlang:monotonic_time(millisecond) - Since > 500 of
                true -> N;
                false -> until_full(To, N, Since)
            end
    end.

%% So many tries; the number after the last message that was taken.
tried(_, N, 0) ->
    N;
tried(To, N, Tries) ->
    case hawser:send(To, hawser_stream:number(me, N, ?PAYLOAD), [nosuspend]) of
        ok -> tried(To, N + 1, Tries - 1);
        nosuspend -> tried(To, N, Tries - 1)
    end.

%% A sender for each receiver, all of them waiting for room.
waiting(Receivers, Plan) ->
    Senders = hawser_stream:senders(Receivers, Plan),
    _ = [Pid ! go || {Pid, _} <- Senders],
    all_waiting(Senders).

%% They wait for nothing else, once they have taken what they were sent.
all_waiting(Senders) ->
    _ = [is_waiting(Pid) || {Pid, _} <- Senders],
    Senders.

is_waiting(Pid) ->
    case process_info(Pid, [status, message_queue_len, monitors]) of
        [{status, waiting}, {message_queue_len, _}, {monitors, [_]}] -> ok;
        [_, _, _] -> erlang:yield(), is_waiting(Pid)
    end.

%% None of them has ended otherwise.
killed(Victims) ->
    _ = [exit(Pid, kill) || {Pid, _} <- Victims],
    case [Reason || {Pid, Monitor} <- Victims, Reason <- [ended(Pid, Monitor)], Reason =/= killed] of
        [] -> killed;
        Others -> {ended, length(Others), lists:usort(Others)}
    end.

ended(Pid, Monitor) ->
    receive {'DOWN', Monitor, process, Pid, Reason} -> Reason end.

flooding(N, Sinks) ->
    [spawn_monitor(fun() -> flood(lists:nth(Number rem length(Sinks) + 1, Sinks), 1) end) || Number <- lists:seq(1, N)].

flood(Sink, N) ->
    _ = hawser:send(Sink, {self(), N, <<"some bytes that nobody reads">>}),
    flood(Sink, N + 1).

%% In no order, a few at a time: the flood goes on between them.
killed_one_by_one(Victims) ->
    process_flag(priority, high),
    Shuffled = [Victim || {_, Victim} <- lists:sort([{rand:uniform(), Victim} || Victim <- Victims])],
    _ = [begin
        exit(Pid, kill),
        rand:uniform(20) > 1 orelse receive after 1 -> true end
    end || {Pid, _} <- Shuffled],
    process_flag(priority, normal),
    killed(Victims).

sinks(N) ->
    [spawn(fun Sink() -> receive _ -> Sink() end end) || _ <- lists:seq(1, N)].
