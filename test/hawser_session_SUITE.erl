%% Nodes find each other, get a session, lose it and get it back; what ends a
%% session is told once, and nothing but a session suffers from it.
-module(hawser_session_SUITE).

-export([suite/0, all/0, groups/0, init_per_group/2, end_per_group/2]).
-export([
    known_before_start/1, start_late/1, five_at_once/1, shards_differ/1, hidden_node/1,
    disconnect_and_await/1, disconnect_on_both/1, disconnect_unknown/1,
    stop_delivers/1, stop_and_start_often/1, killed_node/1, stopped_node/1, restarted_node/1,
    distribution_lost/1, reader_killed/1, flusher_killed/1, reading_port_closed/1, peer_process_killed/1, directory_killed/1
]).
-export([
    wrong_advertise/1, no_hawser_there/1, no_such_node/1, auto_connect_never/1, await_deadline/1, await_itself/1,
    fallback_none/1, lying_peer/1, c_node/1
]).
%% Run on the nodes.
-export([flood/2, sink/0, count/1, numbered/0, load/1, all_in/1, linked/1, lie/2, awaited/2, silent_directory/0, close_reading_ports/0]).

-import(hawser_test_nodes, [
    start_node/0, start_node/1, call/4, stop/1, kill/1, name/1, start_hawser/1, start_hawser/2,
    stop_hawser/1, await_session/2, await_end/2, await_log/3, forget_logs/1, logs/1
]).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [{group, one_shard}, {group, four_shards}, {group, alone}].

groups() ->
    Lives = [
        known_before_start, start_late, disconnect_and_await, disconnect_on_both, stop_delivers,
        stop_and_start_often, killed_node, stopped_node, restarted_node, distribution_lost, reader_killed,
        flusher_killed, reading_port_closed, peer_process_killed, directory_killed
    ],
    [
        {one_shard, [], Lives},
        {four_shards, [], Lives ++ [five_at_once, shards_differ, hidden_node]},
        {alone, [], [
            disconnect_unknown, wrong_advertise, no_hawser_there, no_such_node, auto_connect_never, await_deadline,
            await_itself, fallback_none, lying_peer, c_node
        ]}
    ].

init_per_group(one_shard, Config) -> [{shards, 1} | Config];
init_per_group(four_shards, Config) -> [{shards, 4} | Config];
init_per_group(alone, Config) -> [{shards, 1} | Config].

end_per_group(_, _) ->
    ok.

%% ---- nodes find each other ----

%% Nodes that are connected already get a session, whichever starts hawser first.
known_before_start(Config) ->
    [{A, NodeA}, {B, NodeB}] = lists:keysort(2, [start_node(#{hawser => false}) || _ <- [a, b]]),
    lists:foreach(
        fun([First, Second]) ->
            pong = call(A, net_adm, ping, [NodeB]),
            ok = start_hawser(First, env(Config)),
            ok = start_hawser(Second, env(Config)),
            ok = await_session({A, NodeA}, {B, NodeB}),
            [NodeB] = call(A, hawser_directory, nodes, []),
            [NodeA] = call(B, hawser_directory, nodes, []),
            ok = stop_hawser(First),
            ok = stop_hawser(Second)
        end, [[A, B], [B, A]]).

%% An await that found no hawser there does not stand in the way of a hawser that starts later.
start_late(Config) ->
    lists:foreach(
        fun(Late) ->
            Nodes = [{A, _}, {B, NodeB}] = lists:keysort(2, [start_node(#{hawser => false}) || _ <- [a, b]]),
            {Early, _} = lists:nth(3 - Late, Nodes),
            {Later, LaterNode} = lists:nth(Late, Nodes),
            ok = start_hawser(Early, env(Config)),
            pong = call(A, net_adm, ping, [NodeB]),
            {error, notsup} = call(Early, hawser_directory, await, [LaterNode, 10000]),
            ok = start_hawser(Later, env(Config)),
            ok = await_session(A, B)
        end, [1, 2]).

%% Nodes that start together and connect all at once all meet.
five_at_once(Config) ->
    Self = self(),
    Started = [spawn_link(fun() ->
        Self ! {self(), start_node(#{env => env(Config), link => false})}
    end) || _ <- lists:seq(1, 5)],
    Nodes = [receive {Pid, Node} -> Node end || Pid <- Started],
    Names = [Name || {_, Name} <- Nodes],
    _ = [spawn_link(fun() ->
        Self ! {self(), [call(Peer, net_kernel, connect_node, [Name]) || Name <- Names]}
    end) || {Peer, _} <- Nodes],
    _ = [ok = await_session(X, Y) || {_, NameX} = X <- Nodes, {_, NameY} = Y <- Nodes, NameX < NameY],
    _ = [[] = Names -- [Name | call(Peer, hawser_directory, nodes, [])] || {Peer, Name} <- Nodes],
    _ = [stop(Peer) || {Peer, _} <- Nodes],
    ok.

%% The smaller wish counts, whoever has it.
shards_differ(_) ->
    lists:foreach(
        fun([ForSmaller, ForLarger]) ->
            [{A, NodeA}, {B, NodeB}] = lists:keysort(2, [start_node(#{hawser => false}) || _ <- [a, b]]),
            ok = start_hawser(A, #{shards => ForSmaller}),
            ok = start_hawser(B, #{shards => ForLarger}),
            ok = await_session(A, B),
            _ = [#{report := #{shards := 1}} = await_log(Peer, up_with(Node), 5000)
                 || {Peer, Node} <- [{A, NodeB}, {B, NodeA}]]
        end, [[1, 4], [4, 1]]).

%% A hidden node that runs hawser makes itself known.
hidden_node(Config) ->
    {A, NodeA} = start_node(#{env => env(Config)}),
    {B, NodeB} = start_node(#{env => env(Config), args => ["-hidden"]}),
    true = call(B, net_kernel, connect_node, [NodeA]),
    ok = await_session({A, NodeA}, {B, NodeB}).

%% ---- sessions end, and come back ----

%% Disconnected on purpose, both sides leave it at that, until one awaits the other.
disconnect_and_await(Config) ->
    Nodes = pair(Config),
    _ = [begin
        ok = call(X, hawser_directory, disconnect, [NodeY]),
        disconnected = await_end(X, NodeY),
        peer_closed = await_end(Y, NodeX),
        [] = call(X, hawser_directory, nodes, []),
        #{state := held} = call(X, hawser_directory, info, [NodeY]),
        ok = call(Awaiting, hawser_directory, await, [Awaited, 10000]),
        ok = await_session({X, NodeX}, {Y, NodeY}),
        _ = [forget_logs(Peer) || Peer <- [X, Y]]
    end || [{X, NodeX}, {Y, NodeY}] <- [Nodes, lists:reverse(Nodes)],
           {Awaiting, Awaited} <- [{X, NodeY}, {Y, NodeX}]],
    ok.

disconnect_on_both(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    Self = self(),
    Helper = spawn_link(fun() -> Self ! {self(), call(A, hawser_directory, disconnect, [NodeB])} end),
    ok = call(B, hawser_directory, disconnect, [NodeA]),
    receive {Helper, ok} -> ok end,
    [] = call(A, hawser_directory, nodes, []),
    [] = call(B, hawser_directory, nodes, []),
    ok = call(A, hawser_directory, await, [NodeB, 10000]).

disconnect_unknown(_) ->
    {A, _} = start_node(),
    ok = call(A, hawser_directory, disconnect, ['nobody@127.0.0.1']).

%% What was sent before the application stops arrives, at both ends.
stop_delivers(Config) ->
    [{A, _}, {B, NodeB}] = pair(Config),
    Sink = call(B, ?MODULE, sink, []),
    Numbers = lists:seq(1, 20000),
    ok = call(A, ?MODULE, flood, [Sink, Numbers]),
    ok = stop_hawser(A),
    application_stopped = await_end(A, NodeB),
    length(Numbers) =:= call(B, ?MODULE, count, [Sink]) orelse ct:fail(lost).

%% Each start gets a session at once; each end is told once.
stop_and_start_often(Config) ->
    [{A, NodeA}, {B, _}] = pair(Config),
    Times = 20,
    _ = [begin
        ok = stop_hawser(A),
        ok = start_hawser(A),
        ok = await_session(A, B)
    end || _ <- lists:seq(1, Times)],
    Ends = [Reason || #{report := #{what := session_ended, node := N, reason := Reason}} <- logs(B), N =:= NodeA],
    Times = length(Ends).

%% kill -9: the session ends, and a send is what `!` to a dead node is.
killed_node(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    Sink = call(B, ?MODULE, sink, []),
    ok = kill(B),
    {lost, _} = await_end(A, NodeB),
    [] = call(A, hawser_directory, nodes, []),
    hello = call(A, hawser, send, [Sink, hello]),
    hello = call(A, hawser, send, [{nobody, NodeB}, hello]),
    {error, noconnection} = call(A, hawser_directory, await, [NodeB, 10000]),
    #{node := NodeA, peers := #{}} = call(A, hawser_directory, info, []).

%% A node that stands still is silent, which ends the session while distribution
%% still takes the node for alive. It comes back soon after the node does.
stopped_node(_) ->
    Env = #{heartbeat_interval_ms => 100, connect_timeout_ms => 500},
    Nodes = lists:keysort(2, [start_node(#{env => Env}) || _ <- [a, b]]),
    _ = [begin
        ok = await_session({X, NodeX}, {Y, NodeY}),
        Pid = call(Y, os, getpid, []),
        "" = os:cmd("kill -STOP " ++ Pid),
        {silent, _} = await_end(X, NodeY),
        {error, timeout} = call(X, hawser_directory, await, [NodeY, 1500]),
        "" = os:cmd("kill -CONT " ++ Pid),
        ok = await_session({X, NodeX}, {Y, NodeY}),
        _ = [forget_logs(Peer) || Peer <- [X, Y]]
    end || [{X, NodeX}, {Y, NodeY}] <- [Nodes, lists:reverse(Nodes)]],
    ok.

%% A new node of the same name gets a session of its own, from both sides of the order of names.
restarted_node(Config) ->
    _ = [begin
        {B0, NodeB} = start_node(#{full_name => name(Prefix), env => env(Config)}),
        {A, NodeA} = start_node(#{full_name => name("m"), env => env(Config)}),
        ok = await_session({A, NodeA}, {B0, NodeB}),
        ok = kill(B0),
        {B1, NodeB} = start_node(#{full_name => NodeB, env => env(Config)}),
        ok = await_session({B1, NodeB}, {A, NodeA}),
        {lost, _} = await_end(A, NodeB),
        Sink = call(B1, ?MODULE, sink, []),
        ok = call(A, ?MODULE, flood, [Sink, [1, 2, 3]]),
        3 = call(B1, ?MODULE, count, [Sink])
    end || Prefix <- ["a", "z"]],
    ok.

%% The session outlives a lost distribution connection: its sockets are well.
distribution_lost(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    true = call(A, erlang, disconnect_node, [NodeB]),
    [NodeB] = call(A, hawser_directory, nodes, []),
    true = call(A, net_kernel, connect_node, [NodeB]),
    ok = await_session({A, NodeA}, {B, NodeB}),
    [] = [Entry || #{report := #{what := session_ended}} = Entry <- logs(A) ++ logs(B)].

reader_killed(Config) -> own_process_killed(hawser_reader, Config).

flusher_killed(Config) -> own_process_killed(hawser_flusher, Config).

%% Killed under load: the session ends with a reason on both sides, a new one comes up, and whatever way a message
%% took, it arrives once at the most.
own_process_killed(Module, Config) ->
    Nodes = pair(Config),
    _ = [begin
        Sinks = [Sink || _ <- lists:seq(1, 8), Sink <- [call(Y, ?MODULE, numbered, [])]],
        Loads = [call(X, ?MODULE, load, [Sink]) || Sink <- Sinks],
        [Victim | _] = call(Where, ?MODULE, linked, [Module]),
        true = call(Where, erlang, exit, [Victim, kill]),
        {died, _} = await_end(Where, Node),
        ok = await_session({X, NodeX}, {Y, NodeY}),
        _ = [call(X, erlang, send, [Load, stop]) || Load <- Loads],
        [] = lists:append([call(Y, ?MODULE, all_in, [Sink]) || Sink <- Sinks]),
        _ = [forget_logs(Peer) || Peer <- [X, Y]]
    end || [{X, NodeX}, {Y, NodeY}] <- [Nodes, lists:reverse(Nodes)],
           {Where, Node} <- [{X, NodeY}, {Y, NodeX}]],
    ok.

%% A port that somebody closes under its reader is found out at the next heartbeat.
reading_port_closed(Config) ->
    [{A, NodeA}, {B, NodeB}] = [start_node(#{env => (env(Config))#{heartbeat_interval_ms => 100}}) || _ <- [a, b]],
    ok = await_session({A, NodeA}, {B, NodeB}),
    ok = call(A, ?MODULE, close_reading_ports, []),
    {lost, {_, _}} = await_end(A, NodeB),
    ok = call(A, hawser, await, [NodeB, 10000]),
    ok = call(B, hawser, await, [NodeA, 10000]).

%% Nothing of the session is left, and the node's session comes back.
peer_process_killed(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    [{_, Peer, _, _}] = call(A, supervisor, which_children, [hawser_peer_sup]),
    true = call(A, erlang, exit, [Peer, kill]),
    {lost, _} = await_end(B, NodeA),
    ok = await_session({A, NodeA}, {B, NodeB}).

directory_killed(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    ok = forget_logs(B),
    true = call(A, erlang, apply, [fun() -> exit(whereis(hawser_directory), kill) end, []]),
    _ = await_end(B, NodeA),
    _ = await_log(B, up_with(NodeA), 30000),
    ok = await_session({B, NodeB}, {A, NodeA}).

%% ---- peers that cannot or will not ----

%% Told to dial where nobody listens: no session, attempts are counted, distribution works on.
wrong_advertise(_) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Closed} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Env = #{advertise => {"127.0.0.1", Closed}},
    {A, NodeA} = start_node(#{env => Env}),
    {B, NodeB} = start_node(#{env => Env}),
    {error, timeout} = call(A, hawser_directory, await, [NodeB, 1000]),
    _ = await_log(A, fun(#{report := #{what := no_session, node := N}}) -> N =:= NodeB; (_) -> false end, 20000),
    hello = call(A, hawser, send, [{nobody, NodeB}, hello]),
    ok = stop_hawser(A),
    ok = start_hawser(A, #{advertise => {"127.0.0.1", 0}}),
    ok = await_session({A, NodeA}, {B, NodeB}).

no_hawser_there(_) ->
    {A, _} = start_node(),
    {_, NodeB} = start_node(#{hawser => false}),
    {error, notsup} = call(A, hawser_directory, await, [NodeB, 10000]),
    [] = call(A, hawser_directory, nodes, []),
    hello = call(A, hawser, send, [{nobody, NodeB}, hello]).

no_such_node(_) ->
    {A, _} = start_node(),
    {error, noconnection} = call(A, hawser_directory, await, ['nobody@127.0.0.1', 10000]),
    #{state := none} = call(A, hawser_directory, info, ['nobody@127.0.0.1']).

%% hawser connects distribution no more than the kernel may.
auto_connect_never(Config) ->
    {A, NodeA} = start_node(#{env => env(Config), args => ["-kernel", "dist_auto_connect", "never"]}),
    {B, NodeB} = start_node(#{env => env(Config)}),
    {error, noconnection} = call(A, hawser_directory, await, [NodeB, 10000]),
    [] = call(A, erlang, nodes, []),
    true = call(A, net_kernel, connect_node, [NodeB]),
    ok = await_session({A, NodeA}, {B, NodeB}).

%% A node whose hawser does not answer costs no more than the caller's own limit.
await_deadline(_) ->
    {A, _} = start_node(),
    {B, NodeB} = start_node(#{hawser => false}),
    true = call(A, net_kernel, connect_node, [NodeB]),
    ok = call(B, ?MODULE, silent_directory, []),
    {{error, timeout}, Ms} = call(A, ?MODULE, awaited, [NodeB, 300]),
    true = Ms >= 300 andalso Ms < 1300,
    {{error, timeout}, 0} = call(A, ?MODULE, awaited, [NodeB, 0]).

silent_directory() ->
    true = register(hawser_directory, spawn(fun() -> receive never -> ok end end)),
    ok.

awaited(Node, TimeoutMs) ->
    Start = erlang:monotonic_time(millisecond),
    Answer = hawser_directory:await(Node, TimeoutMs),
    {Answer, erlang:monotonic_time(millisecond) - Start}.

await_itself(_) ->
    {A, NodeA} = start_node(),
    ok = call(A, hawser_directory, await, [NodeA, 0]).

%% Without the old route, a node without session is no destination.
fallback_none(_) ->
    {A, _} = start_node(#{env => #{fallback => none, connect_timeout_ms => 500}}),
    {_, NodeB} = start_node(#{hawser => false}),
    noconnect = call(A, hawser, send, [{nobody, NodeB}, hello, []]).

%% Terms of any shape from another node: refused, and the session next to them lives.
lying_peer(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    {C, _} = start_node(#{hawser => false}),
    true = call(C, net_kernel, connect_node, [NodeA]),
    Party = {<<"somebody@else">>, 1, <<0:128>>},
    _ = [{error, Reason} = call(C, ?MODULE, lie, [NodeA, Lie]) || {Lie, Reason} <- [
        {{invite, 1, nothing}, bad_invitation},
        {{invite, 1, #{}}, bad_invitation},
        {{invite, 1, #{party => Party, terms => #{}}}, bad_invitation},
        {{invite, 1, #{party => self(), terms => []}}, bad_invitation},
        {{invite, 2, #{}}, bad_version},
        {{invite, x, #{}}, bad_invitation},
        {{your_turn, 1, #{party => Party}}, bad_invitation},
        {{your_turn, 1, {}}, bad_invitation}
    ]],
    true = call(A, erlang, is_pid, [call(A, erlang, whereis, [hawser_directory])]),
    [NodeB] = call(A, hawser_directory, nodes, []),
    [NodeA] = call(B, hawser_directory, nodes, []).

lie(Node, Lie) ->
    gen_server:call({hawser_directory, Node}, Lie, 5000).

%% A C node that connects is not spoken to: its own request gets its answer.
c_node(_) ->
    {A, NodeA} = start_node(),
    case os:find_executable("erl_call") of
        false ->
            {skip, "erl_call is not installed"};
        ErlCall ->
            Cookie = atom_to_list(call(A, erlang, get_cookie, [])),
            "ok" = os:cmd(lists:concat([ErlCall, " -c ", Cookie, " -name ", NodeA, " -a 'timer sleep [200]'"]))
    end.

%% ---- help ----

env(Config) ->
    #{shards => proplists:get_value(shards, Config, 1)}.

%% Two nodes with a session, the one with the smaller name first.
pair(Config) ->
    [A, B] = lists:keysort(2, [start_node(#{env => env(Config)}) || _ <- [a, b]]),
    ok = await_session(A, B),
    [A, B].

up_with(Node) ->
    fun(#{report := #{what := session_up, node := N}}) -> N =:= Node; (_) -> false end.

%% ---- on the nodes ----

%% Counts what it gets, until it is asked.
sink() ->
    spawn(fun() -> sink(0) end).

sink(N) ->
    receive
        {count, From} -> From ! {self(), N};
        _ -> sink(N + 1)
    end.

%% Asked only when nothing more comes: the messages of one sender are in order, so the last is in.
count(Sink) ->
    Sink ! {count, self()},
    receive {Sink, N} -> N end.

flood(Sink, Numbers) ->
    lists:foreach(fun(N) -> hawser:send(Sink, N) end, Numbers).

%% Sends numbers until it is stopped, then its end on both ways that its messages can have taken.
load(Sink) ->
    spawn(fun() -> load(Sink, 1) end).

load(Sink, N) ->
    _ = hawser:send(Sink, {number, N}),
    receive
        stop ->
            [Module:send(Sink, ended) || Module <- [erlang, hawser]]
    after 0 ->
        load(Sink, N + 1)
    end.

%% Takes numbers of one load, which may be missing or late, and remembers those that came twice.
numbered() ->
    spawn(fun() -> numbered(0, [], [], 0) end).

%% Missing: the ranges of numbers up to Last that have not come.
numbered(_, _, Twice, 2) ->
    receive {all_in, From} -> From ! {self(), Twice} end;
numbered(Last, Missing, Twice, Ends) ->
    receive
        {number, N} when N > Last ->
            numbered(N, [{Last + 1, N - 1} || N > Last + 1] ++ Missing, Twice, Ends);
        {number, N} ->
            case lists:partition(fun({From, To}) -> From =< N andalso N =< To end, Missing) of
                {[{From, To}], Others} ->
                    Parts = [{A, B} || {A, B} <- [{From, N - 1}, {N + 1, To}], A =< B],
                    numbered(Last, Parts ++ Others, Twice, Ends);
                {[], _} ->
                    numbered(Last, Missing, [N | Twice], Ends)
            end;
        ended ->
            numbered(Last, Missing, Twice, Ends + 1)
    end.

all_in(Sink) ->
    Sink ! {all_in, self()},
    receive {Sink, Answer} -> Answer end.

%% The processes that run Module for the node's only peer.
linked(Module) ->
    [{_, Peer, _, _}] = supervisor:which_children(hawser_peer_sup),
    {links, Links} = process_info(Peer, links),
    [Pid || Pid <- Links, is_pid(Pid), {initial_call, {M, _, _}} <- [process_info(Pid, initial_call)], M =:= Module].

close_reading_ports() ->
    _ = [port_close(Port) || Reader <- linked(hawser_reader), {links, Links} <- [process_info(Reader, links)],
                             Port <- Links, is_port(Port)],
    ok.
