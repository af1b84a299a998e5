%% What hawser's casts and calls promise: every answer, every bad argument, order, whose process the body is, and that
%% nothing stays behind on the calling node, whatever dies or stops in the middle.
-module(hawser_call_SUITE).

-include_lib("proper/include/proper_common.hrl").

-export([suite/0, all/0, groups/0, init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([
    answers/1, crashes/1, unwrapped/1, casts/1, bad_arguments/1, every_term/1, any_term/1, order/1, group_leader/1,
    caster_dies/1, caller_dies/1, caller_dies_without_answer/1, body_killed/1, late_answers/1, many_callers/1
]).
-export([
    node_dies/1, node_without_session_dies/1, burst_of_casts/1, both_flood/1, stopped/1, stopped_stranger/1, expired/1,
    waits_for_room/1, waiting_caller_killed/1, too_long/1, without_fallback/1, not_running/1
]).

-import(hawser_call_bodies, [on/2, with/3, caught/2, sent/2]).
-import(hawser_test_nodes, [start_node/1, stop/1, kill/1, freeze/1, thaw/1, call/4, call/5, await_session/2]).
-import(hawser_attacked, [until/1]).

-define(MS, 60000).
-define(BODIES, hawser_call_bodies).
%% Full after a few hundred kilobytes.
-define(NARROW, #{max_queue_bytes => 65536, max_unacked_bytes => 131072, ack_every_bytes => 32768}).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [{group, one_shard}, {group, four_shards}].

groups() ->
    Cases = [
        answers, crashes, unwrapped, casts, bad_arguments, every_term, any_term, order, group_leader, caster_dies,
        caller_dies, caller_dies_without_answer, body_killed, late_answers, many_callers,
        {group, own_nodes}
    ],
    Own = [
        node_dies, node_without_session_dies, burst_of_casts, both_flood, stopped, stopped_stranger, expired,
        waits_for_room, waiting_caller_killed, too_long, without_fallback, not_running
    ],
    [{one_shard, [], Cases}, {four_shards, [], Cases}, {own_nodes, [], Own}].

init_per_group(own_nodes, Config) ->
    Config;
init_per_group(Group, Config) ->
    Env = #{shards => shards(Group), heartbeat_interval_ms => 1000},
    [A, B] = [start_node(#{env => Env, link => false}) || _ <- [a, b]],
    {_, _} = C = start_node(#{hawser => false, link => false}),
    ok = await_session(A, B),
    [{env, Env}, {nodes, [A, B, C]} | Config].

end_per_group(own_nodes, _) ->
    ok;
end_per_group(_, Config) ->
    [stop(Peer) || {Peer, _} <- proplists:get_value(nodes, Config)].

shards(one_shard) -> 1;
shards(four_shards) -> 4.

init_per_testcase(Case, Config) ->
    case special(Case) of
        shared ->
            Config;
        Env ->
            Shards = maps:with([shards], proplists:get_value(env, Config)),
            Nodes = [A, B] = [start_node(#{env => maps:merge(Shards, Env), link => false}) || _ <- [a, b]],
            ok = await_session(A, B),
            [{own, Nodes} | Config]
    end.

%% Nothing of a case stays in the table of those who wait: else the case has failed.
end_per_testcase(_, Config) ->
    Own = proplists:get_value(own, Config, []),
    try
        [{A, _} = OnA, {B, NodeB}] = pair(Config),
        %% The session of the group is one and the same.
        [] = [Report || Own =:= [], Peer <- [A, B],
                        #{report := #{what := session_ended} = Report} <- hawser_test_nodes:logs(Peer)],
        until(fun() -> on(OnA, fun() -> ?BODIES:waiting_calls(NodeB) end) =:= 0 end)
    catch
        error:Reason -> {fail, Reason}
    after
        _ = [stop(Peer) || {Peer, _} <- Own, is_process_alive(Peer)]
    end.

special(Case) when Case =:= both_flood; Case =:= expired; Case =:= waits_for_room; Case =:= waiting_caller_killed ->
    ?NARROW;
special(too_long) ->
    #{max_message_bytes => 10000};
special(without_fallback) ->
    #{fallback => none, connect_timeout_ms => 300};
special(Case) when
    Case =:= node_dies; Case =:= node_without_session_dies; Case =:= burst_of_casts; Case =:= stopped;
    Case =:= stopped_stranger; Case =:= not_running
->
    #{};
special(_) ->
    shared.

pair(Config) ->
    [A, B | _] = case proplists:get_value(own, Config) of
        undefined -> proplists:get_value(nodes, Config);
        Own -> Own
    end,
    [A, B].

%% ---- answers ----

%% What a function returns comes in `ok', over a session, over distribution and on the node itself, with and without a
%% timeout.
answers(Config) ->
    [A | _] = Nodes = proplists:get_value(nodes, Config),
    [{ok, Node} = on(A, fun() -> hawser:call(Node, erlang, node, []) end) || {_, Node} <- Nodes],
    [{ok, Node} = on(A, fun() -> hawser:call(Node, erlang, node, [], Timeout) end)
     || {_, Node} <- Nodes, Timeout <- [infinity, 30000, 4294967295]],
    [{error, {badrpc, timeout}} = on(A, fun() -> hawser:call(Node, ?BODIES, pause, [30000, late], 50) end)
     || {_, Node} <- Nodes],
    [{error, {badrpc, timeout}} = on(A, fun() -> hawser:call(Node, ?BODIES, pause, [30000, late], 0) end)
     || {_, Node} <- Nodes],
    {error, {badrpc, noconnection}} = on(A, fun() -> hawser:call('nobody@127.0.0.1', erlang, node, []) end),
    {error, {badrpc, noconnection}} = on(A, fun() -> hawser:call('nobody@127.0.0.1', erlang, node, [], 30000) end).

%% A crash comes with the reason that the process would have ended with, the same over every way.
crashes(Config) ->
    [A | _] = Nodes = proplists:get_value(nodes, Config),
    _ = [begin
        {error, {exit, Reason}} = on(A, fun() -> hawser:call(Node, ?BODIES, fail, [How], Timeout) end),
        crashed(How, Reason)
    end || {_, Node} <- Nodes, Timeout <- [infinity, 30000], How <- [throw, exit, normal, error]],
    %% A signal to the body would end the caller where it runs in the caller: on its own node without a timeout.
    _ = [begin
        {error, {exit, Reason}} = on(A, fun() -> hawser:call(Node, ?BODIES, fail, [How], 30000) end),
        crashed(How, Reason)
    end || {_, Node} <- Nodes, How <- [killed, {signal, sent}, {signal, {a, term}}]],
    [{error, {exit, {undef, [{no_such_module, nothing, [1], _} | _]}}} =
         on(A, fun() -> hawser:call(Node, no_such_module, nothing, [1]) end) || {_, Node} <- Nodes].

crashed(throw, {nocatch, thrown}) -> ok;
crashed(exit, left) -> ok;
crashed(normal, normal) -> ok;
crashed(error, {failed, [{?BODIES, fail, 1, _} | _]}) -> ok;
crashed(killed, killed) -> ok;
crashed({signal, Reason}, Reason) -> ok.

%% Only `{error, _}' is taken as it is: `{ok, _}' is a value like any other.
unwrapped(Config) ->
    [A | _] = Nodes = proplists:get_value(nodes, Config),
    [[{ok, {ok, value}}, {error, reason}, {ok, value}] =
         on(A, fun() -> [hawser:call(Node, ?BODIES, return, [What]) || What <- [ok, error, plain]] end)
     || {_, Node} <- Nodes].

%% Both forms of cast run the function at the node they name, and answer ok, also for a node that nobody knows and for
%% a function that fails.
casts(Config) ->
    [A | _] = Nodes = proplists:get_value(nodes, Config),
    _ = [on(A, fun() ->
        Me = self(),
        ok = hawser:cast(Node, erlang, apply, [fun() -> Me ! {first, node()} end, []]),
        receive {first, Node} -> ok end,
        ok = hawser:cast(Node, fun() -> Me ! {second, node()} end),
        receive {second, Node} -> ok end
    end) || {_, Node} <- Nodes],
    ok = on(A, fun() -> hawser:cast('nobody@127.0.0.1', erlang, node, []) end),
    [ok = on(A, fun() -> hawser:cast(Node, ?BODIES, fail, [exit]) end) || {_, Node} <- Nodes].

%% What is no node, module, function, list of arguments, timeout or fun raises badarg, and nothing is sent.
bad_arguments(Config) ->
    [A, {_, NodeB}] = pair(Config),
    Good = [NodeB, erlang, node, []],
    Four = [with(N, Bad, Good)
            || {N, Bads} <- [{1, [1, "node", {NodeB}]}, {2, ["m", 1]}, {3, [<<"f">>, 1.0]},
                             {4, [a, [1 | 2], {}, <<>>]}],
               Bad <- Bads],
    Five = [Args ++ [infinity] || Args <- Four]
        ++ [Good ++ [Bad] || Bad <- [-1, 4294967296, 1.0, never, "1", {abs, 0}, #{}]],
    Two = [[NodeB, Bad] || Bad <- [node, fun(X) -> X end, {erlang, node}]] ++ [[1, fun() -> ok end]],
    Before = sent(A, NodeB),
    _ = on(A, fun() ->
        [{F, Args, {caught, badarg}} = {F, Args, caught(F, Args)}
         || {F, Table} <- [{cast, Two}, {cast, Four}, {call, Four}, {call, Five}], Args <- Table]
    end),
    Before = sent(A, NodeB).

%% Every kind of term is the same as an argument and as a result as over erpc, also one that hawser does not write
%% itself.
every_term(Config) ->
    [A, {_, NodeB}] = pair(Config),
    [] = on(A, fun() -> [Name || {Name, Term} <- hawser_term_kinds:all(), not same(NodeB, Term)] end).

same(Node, Term) ->
    {ok, Got} = hawser:call(Node, ?BODIES, same, [Term]),
    hawser_term_kinds:equal(Got, erpc:call(Node, ?BODIES, same, [Term])).

any_term(Config) ->
    [A, {_, NodeB}] = pair(Config),
    on(A, fun() ->
        Property = ?FORALL(Term, hawser_term_gen:term(), same(NodeB, Term)),
        true = proper:quickcheck(Property, [{numtests, 500}, {max_size, 30}, quiet, long_result])
    end).

%% What a body sends to the caller before it returns is there when the answer is, for messages and answers of 10 bytes
%% to 1 MB, by pid and by alias.
order(Config) ->
    [A, {_, NodeB}] = pair(Config),
    Rounds = [{10, 50}, {1000, 50}, {70000, 10}, {1000000, 3}],
    Callers = [fun() -> in_order(NodeB, To, Count, Bytes) end
               || {Bytes, Count} <- Rounds, To <- [pid, alias], _ <- lists:seq(1, 4)],
    [] = on(A, fun() -> [Left || Left <- together(Callers), Left =/= {ok, []}] end).

in_order(Node, Form, Count, Bytes) ->
    To = case Form of pid -> self(); alias -> alias() end,
    lists:foreach(fun(_) ->
        {ok, {done, Payload}} = hawser:call(Node, ?BODIES, numbered, [To, Count, Bytes]),
        {messages, Parts} = process_info(self(), messages),
        Parts = [{part, N, Payload} || N <- lists:seq(1, Count)],
        _ = [receive {part, N, _} -> ok end || N <- lists:seq(1, Count)]
    end, lists:seq(1, 5)).

%% Each function in a process of its own, all at once.
together(Funs) ->
    Running = [spawn_monitor(fun() -> exit({ran, ?BODIES:mailbox(Fun)}) end) || Fun <- Funs],
    [receive {'DOWN', Monitor, process, Pid, Reason} -> {ran, Answer} = Reason, Answer end
     || {Pid, Monitor} <- Running].

%% ---- whose process the body is ----

%% The group leader of a body is the caller's, in a call and in a cast.
group_leader(Config) ->
    [A | _] = Nodes = proplists:get_value(nodes, Config),
    _ = [on(A, fun() ->
        Leader = spawn(fun() -> receive never -> ok end end),
        true = group_leader(Leader, self()),
        {ok, Leader} = hawser:call(Node, erlang, group_leader, []),
        {ok, Leader} = hawser:call(Node, erlang, group_leader, [], 30000),
        ok = hawser:cast(Node, ?BODIES, leader, [self()]),
        receive {leader, Leader} -> ok end,
        exit(Leader, kill)
    end) || {_, Node} <- Nodes].

%% The death of who cast does not end the body.
caster_dies(Config) ->
    [A | _] = Nodes = proplists:get_value(nodes, Config),
    _ = [on(A, fun() ->
        Me = self(),
        {Caster, Monitor} = spawn_monitor(fun() ->
            ok = hawser:cast(Node, ?BODIES, hold, [Me]),
            receive never -> ok end
        end),
        Body = receive {body, Pid} -> Pid end,
        exit(Caster, kill),
        receive {'DOWN', Monitor, process, Caster, killed} -> ok end,
        true = erpc:call(Node, erlang, is_process_alive, [Body]),
        exit(Body, kill)
    end) || {_, Node} <- Nodes].

%% The caller's death does not end the body, nobody gets its answer, and the call is taken out of the table.
caller_dies(Config) ->
    [A, B] = pair(Config),
    on(A, fun() -> caller_dies(B, A, fun(Body) -> Body ! {return, nobody_wants_this} end) end).

%% The same when the body goes on for ever: the table is swept.
caller_dies_without_answer(Config) ->
    [A, B] = pair(Config),
    on(A, fun() -> caller_dies(B, A, fun(_) -> ok end) end).

caller_dies({_, Node}, _, Then) ->
    Me = self(),
    Caller = spawn(fun() -> hawser:call(Node, ?BODIES, hold, [Me]) end),
    Body = receive {body, Pid} -> Pid end,
    1 = ?BODIES:waiting_calls(Node),
    Monitor = monitor(process, Caller),
    exit(Caller, kill),
    receive {'DOWN', Monitor, process, Caller, killed} -> ok end,
    until(fun() -> ?BODIES:waiting_calls(Node) =:= 0 end),
    true = erpc:call(Node, erlang, is_process_alive, [Body]),
    Watched = monitor(process, Body),
    _ = Then(Body),
    exit(Body, kill),
    receive {'DOWN', Watched, process, Body, _} -> ok end.

%% A body that somebody kills is answered with the reason.
body_killed(Config) ->
    [A, {_, NodeB}, {_, NodeC}] = proplists:get_value(nodes, Config),
    _ = [on(A, fun() ->
        Me = self(),
        Killer = spawn(fun() -> receive {body, Body} -> exit(Body, Reason) end end),
        Answer = hawser:call(Node, ?BODIES, hold, [Killer], Timeout),
        {error, {exit, Expected}} = Answer,
        Expected = case Reason of kill -> killed; _ -> Reason end,
        Me
    end) || Node <- [NodeB, NodeC], Timeout <- [infinity, 30000], Reason <- [kill, shutdown, {shutdown, [a]}]].

%% An answer that comes about when the time is up is the answer or it is nothing: no message comes later.
late_answers(Config) ->
    [A, {_, NodeB}] = pair(Config),
    Callers = [fun() -> [hawser:call(NodeB, ?BODIES, pause, [Ms, Ms], Ms) || _ <- lists:seq(1, 50), Ms <- [0, 1, 2]] end
               || _ <- lists:seq(1, 50)],
    Answers = on(A, fun() ->
        Ended = together(Callers),
        [] = [Left || {_, Left} <- Ended, Left =/= []],
        %% Behind every answer that could still come.
        {ok, NodeB} = hawser:call(NodeB, erlang, node, []),
        lists:append([Answer || {Answer, _} <- Ended])
    end),
    7500 = length([Answer || Answer <- Answers, one_of(Answer)]).

one_of({ok, _}) -> true;
one_of({error, {badrpc, timeout}}) -> true.

%% A thousand callers at once get each its own answer.
many_callers(Config) ->
    [A, {_, NodeB}] = pair(Config),
    Callers = [fun() -> [{ok, {N, K}} = hawser:call(NodeB, ?BODIES, same, [{N, K}]) || K <- lists:seq(1, 20)], ok end
               || N <- lists:seq(1, 1000)],
    [{ok, []}] = on(A, fun() -> lists:usort(together(Callers)) end).

%% ---- nodes that die, stop, or are too busy ----

%% The node dies in the middle of calls: noconnection for all who wait, with and without a timeout, and nothing stays.
node_dies(Config) ->
    [A, {B, NodeB}] = pair(Config),
    Callers = start_callers(A, NodeB, 100),
    ok = kill(B),
    [{error, {badrpc, noconnection}}] = lists:usort(on(A, fun() -> ended(Callers) end)),
    {error, {badrpc, noconnection}} = on(A, fun() -> hawser:call(NodeB, erlang, node, []) end).

%% The same for a node that is called over distribution.
node_without_session_dies(Config) ->
    [A | _] = pair(Config),
    {C, NodeC} = start_node(#{hawser => false}),
    Callers = start_callers(A, NodeC, 100),
    ok = kill(C),
    [{error, {badrpc, noconnection}}] = lists:usort(on(A, fun() -> ended(Callers) end)).

%% Callers whose bodies run when this returns.
start_callers(A, Node, Count) ->
    on(A, fun() ->
        Me = self(),
        Callers = [spawn(fun() ->
            Answer = ?BODIES:mailbox(fun() -> hawser:call(Node, ?BODIES, hold, [Me], Timeout) end),
            receive {tell, Teller} -> Teller ! {self(), Answer} end
        end) || _ <- lists:seq(1, Count div 2), Timeout <- [infinity, 120000]],
        _ = [receive {body, _} -> ok end || _ <- Callers],
        Callers
    end).

ended(Callers) ->
    _ = [Caller ! {tell, self()} || Caller <- Callers],
    [receive {Caller, {Answer, []}} -> Answer end || Caller <- Callers].

%% Twenty thousand casts while the node goes down: every caller is let go, and the session's end is reported once.
burst_of_casts(Config) ->
    [{A, _} = OnA, {B, NodeB}] = pair(Config),
    Started = call(A, ?BODIES, mailbox, [fun() ->
        Me = self(),
        Casters = [spawn(fun() ->
            lists:foreach(fun(N) ->
                ok = hawser:cast(NodeB, erlang, node, []),
                _ = [Me ! {begun, self()} || N =:= 20]
            end, lists:seq(1, 1000)),
            receive {tell, Teller} -> Teller ! {self(), {done, []}} end
        end) || _ <- lists:seq(1, 20)],
        _ = [receive {begun, Caster} -> ok end || Caster <- Casters],
        Casters
    end], ?MS),
    {Casters, []} = Started,
    ok = kill(B),
    [done] = lists:usort(on(OnA, fun() -> ended(Casters) end)),
    _ = hawser_test_nodes:await_end(A, NodeB),
    [_] = [Entry || #{report := #{what := session_ended}} = Entry <- hawser_test_nodes:logs(A)].

%% Both nodes call each other with requests and answers that fill the small queues: every call is answered.
both_flood(Config) ->
    [{_, NodeA} = A, {_, NodeB} = B] = pair(Config),
    Flood = fun(Node) ->
        Callers = [fun() -> echoed(Node, [sized(N, K) || K <- lists:seq(1, 10)]) end || N <- lists:seq(1, 64)],
        [{ok, []}] = lists:usort(together(Callers))
    end,
    Running = [spawn_monitor(fun() -> [{ok, []}] = on(From, fun() -> Flood(To) end) end)
               || {From, To} <- [{A, NodeB}, {B, NodeA}]],
    [receive {'DOWN', Monitor, process, Pid, Reason} -> normal = Reason end || {Pid, Monitor} <- Running].

echoed(Node, Terms) ->
    lists:foreach(fun(Term) -> {ok, Term} = hawser:call(Node, ?BODIES, same, [Term]) end, Terms).

sized(N, K) -> {N, K, binary:copy(<<N>>, (N * K * 97) rem 20000)}.

%% A call to a node that is stopped times out; when the node goes on its answer reaches nobody, and calls work.
stopped(Config) ->
    [A, {B, NodeB}] = pair(Config),
    Frozen = freeze(B),
    on(A, fun() ->
        [{error, {badrpc, timeout}} = hawser:call(NodeB, erlang, node, [], 200) || _ <- [1, 2]],
        0 = ?BODIES:waiting_calls(NodeB)
    end),
    ok = thaw(Frozen),
    on(A, fun() -> {ok, NodeB} = hawser:call(NodeB, erlang, node, [], 30000) end).

%% The same for a node that has never been connected.
stopped_stranger(Config) ->
    [A | _] = pair(Config),
    {C, NodeC} = start_node(#{hawser => false}),
    Frozen = freeze(C),
    on(A, fun() -> {error, {badrpc, timeout}} = hawser:call(NodeC, erlang, node, [], 200) end),
    ok = thaw(Frozen).

%% A request that leaves the queue after its time is not executed, and counted.
expired(Config) ->
    [{_, NodeA} = A, {B, NodeB} = OnB] = pair(Config),
    0 = expired_calls(B, NodeA),
    Frozen = freeze(B),
    on(A, fun() ->
        _ = fill_connection(NodeB),
        {error, {badrpc, timeout}} = hawser:call(NodeB, persistent_term, put, [hawser_call_expired, ran], 100)
    end),
    ok = thaw(Frozen),
    until(fun() -> expired_calls(B, NodeA) =:= 1 end),
    on(OnB, fun() -> undefined = persistent_term:get(hawser_call_expired, undefined) end),
    on(A, fun() -> {ok, ok} = hawser:call(NodeB, persistent_term, put, [hawser_call_expired, ran]) end),
    on(OnB, fun() -> ran = persistent_term:get(hawser_call_expired) end).

%% Until so much is not acknowledged that nothing leaves the queue any more; there is room in it.
fill_connection(Node) ->
    _ = hawser:send({no_such_name, Node}, binary:copy(<<1>>, 1000)),
    #{session := #{shards := Shards}} = hawser:info(Node),
    #{max_unacked_bytes := Most} = ?NARROW,
    lists:max([maps:get(unacked_bytes, Shard) || Shard <- Shards]) >= Most orelse fill_connection(Node).

expired_calls(Peer, Node) ->
    #{session := #{dropped := #{expired_call := Count}}} = call(Peer, hawser, info, [Node]),
    Count.

%% The timeout covers the wait for room in a full queue; such a request is never sent.
waits_for_room(Config) ->
    [{_, NodeA} = A, {B, NodeB} = OnB] = pair(Config),
    Frozen = freeze(B),
    Fillers = on(A, fun() -> ?BODIES:fill(NodeB, 64) end),
    on(A, fun() ->
        {error, {badrpc, timeout}} = hawser:call(NodeB, persistent_term, put, [hawser_call_no_room, ran], 200),
        0 = ?BODIES:waiting_calls(NodeB),
        _ = [exit(Filler, kill) || Filler <- Fillers]
    end),
    ok = thaw(Frozen),
    on(A, fun() -> {ok, NodeB} = hawser:call(NodeB, erlang, node, []) end),
    0 = expired_calls(B, NodeA),
    on(OnB, fun() -> undefined = persistent_term:get(hawser_call_no_room, undefined) end).

%% A caller that is killed while it waits for room leaves nothing, and those behind it go on.
waiting_caller_killed(Config) ->
    [A, {B, NodeB}] = pair(Config),
    Frozen = freeze(B),
    Fillers = on(A, fun() -> ?BODIES:fill(NodeB, 64) end),
    Others = on(A, fun() ->
        Spawn = fun() -> spawn(fun() ->
            Answer = ?BODIES:mailbox(fun() -> hawser:call(NodeB, erlang, node, []) end),
            receive {tell, Teller} -> Teller ! {self(), Answer} end
        end) end,
        Killed = [spawn(fun() -> hawser:call(NodeB, erlang, node, []) end) || _ <- lists:seq(1, 64)],
        Others = [Spawn() || _ <- lists:seq(1, 64)],
        until(fun() -> lists:all(fun(Pid) -> process_info(Pid, status) =:= {status, waiting} end, Killed) end),
        _ = [exit(Pid, kill) || Pid <- Killed ++ Fillers],
        Others
    end),
    ok = thaw(Frozen),
    [{ok, NodeB}] = lists:usort(on(A, fun() -> ended(Others) end)),
    until(fun() -> call(element(1, A), ?BODIES, waiting_calls, [NodeB]) =:= 0 end).

%% A request or an answer that is longer than `max_message_bytes' is system_limit.
too_long(Config) ->
    [A, {_, NodeB}] = pair(Config),
    Long = binary:copy(<<1>>, 10000),
    on(A, fun() ->
        {error, {badrpc, system_limit}} = hawser:call(NodeB, ?BODIES, same, [Long]),
        {error, {badrpc, system_limit}} = hawser:call(NodeB, ?BODIES, same, [Long], 30000),
        {error, {badrpc, system_limit}} = hawser:call(NodeB, binary, copy, [<<1>>, 10000]),
        {caught, system_limit} = caught(cast, [NodeB, ?BODIES, same, [Long]]),
        {ok, NodeB} = hawser:call(NodeB, erlang, node, [])
    end).

%% With `fallback' set to none a node without hawser is not called: noconnection after `connect_timeout_ms'.
without_fallback(Config) ->
    [A, {_, NodeB}] = pair(Config),
    {_, NodeC} = start_node(#{hawser => false}),
    on(A, fun() ->
        true = net_kernel:connect_node(NodeC),
        {ok, NodeB} = hawser:call(NodeB, erlang, node, []),
        {error, {badrpc, noconnection}} = hawser:call(NodeC, erlang, node, []),
        {error, {badrpc, noconnection}} = hawser:call(NodeC, erlang, node, [], 30000),
        ok = hawser:cast(NodeC, erlang, node, []),
        {ok, Own} = hawser:call(node(), erlang, node, []),
        Own = node()
    end).

%% Where hawser does not run, casts and calls go over distribution.
not_running(Config) ->
    [A, {_, NodeB} | _] = pair(Config),
    ok = hawser_test_nodes:stop_hawser(element(1, A)),
    on(A, fun() ->
        {ok, NodeB} = hawser:call(NodeB, erlang, node, []),
        {error, reason} = hawser:call(NodeB, ?BODIES, return, [error], 30000),
        ok = hawser:cast(NodeB, ?BODIES, mark, [self(), here]),
        receive {ran, here} -> ok end
    end).
