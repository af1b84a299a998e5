%% Which way a message takes: a session with the node's present incarnation, distribution where there is none, or none at
%% all; and that nothing meant for an earlier life of a node reaches the present one.
-module(hawser_route_SUITE).

-export([suite/0, all/0]).
-export([
    without_hawser/1, never_connected/1, connects_as_erlang/1, after_disconnect/1, without_distribution/1, no_fallback/1, no_fallback_connects/1,
    old_processes/1, old_identifiers_travel/1
]).
%% Run on the nodes.
-export([hold/1, occupy/1, with_numbers/1]).

-import(hawser_test_nodes, [start_node/1, kill/1, call/4, call/5, await_session/2, await_end/2, name/1]).

-define(MS, 60000).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [
        without_hawser, never_connected, connects_as_erlang, after_disconnect, without_distribution, no_fallback, no_fallback_connects,
        old_processes, old_identifiers_travel
    ].

%% ---- no session ----

%% To a node without hawser messages go over distribution, and arrive in order.
without_hawser(_) ->
    {A, NodeA} = start_node(#{}),
    {C, NodeC} = start_node(#{hawser => false}),
    [Receiver] = call(C, hawser_stream, receivers, [1]),
    Plan = #{count => 300, forms => [name, pid, alias], payload => mixed},
    ok = call(A, hawser_stream, stream, [me, Receiver, Plan], ?MS),
    ok = call(C, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS),
    [NodeC] = call(A, erlang, nodes, []),
    {[], NodeA} = {call(A, hawser, nodes, []), call(A, erlang, node, [])}.

%% A name at a node that there is not: the message is answered, as `!' does, and nothing is known of the node after.
never_connected(_) ->
    {A, _} = start_node(#{}),
    Nobody = {a_name, name("nobody")},
    noconnect = call(A, hawser, send, [Nobody, message, [noconnect]]),
    message = call(A, hawser, send, [Nobody, message]),
    ok = call(A, hawser, send, [Nobody, message, []]),
    ok = call(A, hawser, send, [Nobody, message, [nosuspend]]),
    [] = call(A, erlang, nodes, []),
    [] = call(A, hawser, nodes, []).

%% A node that is not connected yet is connected by the first message, which arrives; with noconnect it is not.
connects_as_erlang(_) ->
    {A, NodeA} = start_node(#{}),
    {B, NodeB} = start_node(#{}),
    [#{name := Name} = Receiver] = call(B, hawser_stream, receivers, [1]),
    noconnect = call(A, hawser, send, [Name, {stream_end, lost, 0}, [noconnect]]),
    [] = call(A, erlang, nodes, []),
    ok = call(A, hawser, send, [Name, {stream_end, first, 0}, []]),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS),
    {_, [first], []} = call(B, hawser_stream, messages, [maps:get(pid, Receiver)]),
    ok = await_session({A, NodeA}, {B, NodeB}),
    ok = call(A, hawser_stream, stream, [second, Receiver, #{count => 100}]),
    ok = call(B, hawser_stream, await, [Receiver, 2, ?MS], 2 * ?MS).

%% After a disconnect messages go over distribution again, and after the next await through a session.
after_disconnect(_) ->
    {A, NodeA} = start_node(#{}),
    {B, NodeB} = start_node(#{}),
    ok = await_session({A, NodeA}, {B, NodeB}),
    [Receiver] = call(B, hawser_stream, receivers, [1]),
    Plan = #{count => 100, forms => [name, pid, alias], payload => {bytes, 1000}},
    ok = call(A, hawser_stream, stream, [first, Receiver, Plan]),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS),
    ok = call(A, hawser, disconnect, [NodeB]),
    [] = call(A, hawser, nodes, []),
    ok = call(A, hawser_stream, stream, [second, Receiver, Plan]),
    ok = call(B, hawser_stream, await, [Receiver, 2, ?MS], 2 * ?MS),
    [] = call(A, hawser, nodes, []),
    ok = call(A, hawser, await, [NodeB, 10000]),
    ok = call(A, hawser_stream, stream, [third, Receiver, Plan]),
    ok = call(B, hawser_stream, await, [Receiver, 3, ?MS], 2 * ?MS),
    #{session := #{shards := Shards}} = call(A, hawser, info, [NodeB]),
    101 = lists:sum([Sent || #{sent_messages := Sent} <- Shards]).

%% While the session lives messages need no distribution, and do not connect it.
without_distribution(_) ->
    {A, NodeA} = start_node(#{}),
    {B, NodeB} = start_node(#{}),
    ok = await_session({A, NodeA}, {B, NodeB}),
    [AtA, AtB] = [hd(call(Peer, hawser_stream, receivers, [1])) || Peer <- [A, B]],
    true = call(A, erlang, disconnect_node, [NodeB]),
    Plan = #{count => 300, forms => [name, pid, alias], payload => mixed},
    ok = call(A, hawser_stream, stream, [me, AtB, Plan], ?MS),
    ok = call(B, hawser_stream, stream, [me, AtA, Plan], ?MS),
    ok = call(B, hawser_stream, await, [AtB, 1, ?MS], 2 * ?MS),
    ok = call(A, hawser_stream, await, [AtA, 1, ?MS], 2 * ?MS),
    ok = call(A, hawser, send, [maps:get(name, AtB), {stream_end, again, 0}, [noconnect]]),
    [] = call(A, erlang, nodes, []),
    [] = call(B, erlang, nodes, []).

%% Without the old way a node that has no hawser, or is not there, gets nothing, and the answer says so.
no_fallback(_) ->
    {A, _} = start_node(#{env => #{fallback => none, connect_timeout_ms => 1000}}),
    {C, NodeC} = start_node(#{hawser => false}),
    [#{name := Name, pid := Pid, alias := Alias}] = call(C, hawser_stream, receivers, [1]),
    Message = {stream, me, 1, none, none},
    [noconnect = call(A, hawser, send, [To, Message, Opts])
     || To <- [Name, Pid, Alias, {a_name, name("nobody")}], Opts <- [[], [noconnect], [nosuspend]]],
    [Message = call(A, hawser, send, [To, Message]) || To <- [Name, Pid, Alias]],
    {Streams, [], []} = call(C, hawser_stream, messages, [Pid]),
    0 = map_size(Streams),
    [NodeC] = call(A, erlang, nodes, []).

%% Without the old way the first message makes the session, and arrives; with noconnect it does not.
no_fallback_connects(_) ->
    Env = #{fallback => none},
    {A, _} = start_node(#{env => Env}),
    {B, NodeB} = start_node(#{env => Env}),
    [#{name := Name} = Receiver] = call(B, hawser_stream, receivers, [1]),
    noconnect = call(A, hawser, send, [Name, lost, [noconnect]]),
    [] = call(A, erlang, nodes, []),
    ok = call(A, hawser_stream, stream, [me, Receiver, #{count => 1000, forms => [name, pid, alias]}]),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS),
    [NodeB] = call(A, hawser, nodes, []).

%% ---- a node that comes back under its name ----

%% Messages to processes and aliases of its former life are counted, and reach nobody: not even the process that has the
%% number of the old one.
old_processes(_) ->
    _ = [begin
        {A, Old, B, NodeB} = restarted(Shards),
        #{pid := OldPid, alias := OldAlias} = Old,
        New = call(B, ?MODULE, with_numbers, [numbers(OldPid)]),
        true = numbers(OldPid) =:= numbers(maps:get(pid, New)),
        ok = call(A, erlang, apply, [fun() ->
            _ = [{lost, N} = hawser:send(To, {lost, N}) || N <- lists:seq(1, 1000), To <- [OldPid, OldAlias]],
            _ = [ok = hawser:send(To, {lost, <<0:800000>>}, []) || To <- [OldPid, OldAlias]],
            hawser_stream:stream(new, New, #{count => 100, forms => [pid, name, alias]})
        end, []]),
        ok = call(B, hawser_stream, await, [New, 1, ?MS], 2 * ?MS),
        #{session := #{dropped := Dropped}} = call(A, hawser, info, [NodeB]),
        #{stale_pid := 1001, stale_alias := 1001} = Dropped
    end || Shards <- [1, 4]],
    ok.

%% What names processes of the former life stays what it was inside of messages, and is not taken for a present one.
old_identifiers_travel(_) ->
    {A, #{pid := OldPid, alias := OldAlias}, B, _} = restarted(2),
    Echo = call(B, hawser_send_SUITE, echo, []),
    ok = call(A, erlang, apply, [fun() ->
        Message = {OldPid, [OldAlias, #{OldPid => OldAlias}], self()},
        _ = hawser:send(Echo, {self(), Message}),
        receive {echo, Message} -> ok end
    end, []]).

%% A node, a receiver of the former life of another one that the node still knows, and the present one.
restarted(Shards) ->
    Env = #{shards => Shards},
    {A, NodeA} = start_node(#{env => Env}),
    {Former, NodeB} = start_node(#{full_name => name("again"), env => Env}),
    ok = await_session({A, NodeA}, {Former, NodeB}),
    ok = call(Former, ?MODULE, occupy, [20000]),
    [Old] = call(Former, hawser_stream, receivers, [1]),
    _ = call(A, erlang, spawn, [?MODULE, hold, [Old]]),
    ok = call(A, hawser_stream, stream, [old, Old, #{count => 10, forms => [pid, alias, name]}]),
    ok = call(Former, hawser_stream, await, [Old, 1, ?MS], 2 * ?MS),
    ok = kill(Former),
    _ = await_end(A, NodeB),
    {B, NodeB} = start_node(#{full_name => NodeB, env => Env}),
    ok = await_session({A, NodeA}, {B, NodeB}),
    {A, Old, B, NodeB}.

%% Id and serial, without the node and its creation.
numbers(Pid) ->
    External = term_to_binary(Pid),
    binary:part(External, byte_size(External) - 12, 8).

%% ---- on the nodes ----

hold(Known) ->
    receive never -> Known end.

%% So many numbers of processes are used up.
occupy(N) ->
    _ = [receive {'DOWN', Monitor, process, Pid, _} -> ok end
         || {Pid, Monitor} <- [spawn_monitor(fun() -> ok end) || _ <- lists:seq(1, N)]],
    ok.

%% A receiver that has these numbers on this node.
with_numbers(Numbers) ->
    [#{pid := Pid} = Receiver] = hawser_stream:receivers(1),
    case numbers(Pid) of
        Numbers -> Receiver;
        Before when Before < Numbers -> exit(Pid, kill), with_numbers(Numbers)
    end.
