%% Messages of one sender to one receiver keep their order and arrive once, whatever the form of the destination, the
%% size of the messages, the number of senders, nodes and shards, and however full the queues are.
-module(hawser_order_SUITE).

-export([suite/0, all/0, groups/0, init_per_group/2, end_per_group/2]).
-export([
    forms_and_sizes/1, many_to_one/1, one_to_many/1, pipeline/1, five_nodes/1, both_ways/1
]).
%% Run on the nodes.
-export([relay/1]).

-import(hawser_test_nodes, [start_node/1, stop/1, call/4, call/5, await_session/2]).

-define(MS, 60000).
%% So small that senders wait for room all the time.
-define(NARROW, #{max_queue_bytes => 65536, max_unacked_bytes => 131072, ack_every_bytes => 32768}).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [{group, one_shard}, {group, four_shards}].

groups() ->
    Cases = [forms_and_sizes, many_to_one, one_to_many, pipeline, both_ways],
    [{one_shard, [], Cases}, {four_shards, [], Cases ++ [five_nodes]}].

init_per_group(Group, Config) ->
    Env = #{shards => shards(Group)},
    [A, B] = [start_node(#{env => Env, link => false}) || _ <- [a, b]],
    ok = await_session(A, B),
    [{env, Env}, {nodes, [A, B]} | Config].

end_per_group(_, Config) ->
    [stop(Peer) || {Peer, _} <- proplists:get_value(nodes, Config)].

shards(one_shard) -> 1;
shards(four_shards) -> 4.

%% 64 senders, each to its receiver by pid, name and alias in turn, with messages from 10 bytes to 1 MB.
forms_and_sizes(Config) ->
    [{A, _}, {B, _}] = proplists:get_value(nodes, Config),
    Receivers = call(B, hawser_stream, receivers, [64]),
    Plan = #{count => 120, forms => [pid, name, alias], payload => mixed},
    [] = streamed(A, Receivers, Plan),
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% Ten thousand senders to one receiver: the order of each pair is kept, nothing is lost.
many_to_one(Config) ->
    [{A, _}, {B, _}] = proplists:get_value(nodes, Config),
    [Receiver] = call(B, hawser_stream, receivers, [1]),
    [] = streamed(A, lists:duplicate(10000, Receiver), #{count => 10, forms => [pid, name, alias]}),
    ok = call(B, hawser_stream, await, [Receiver, 10000, ?MS], 2 * ?MS).

%% One sender to a hundred receivers: each gets its own messages in order.
one_to_many(Config) ->
    [{A, _}, {B, _}] = proplists:get_value(nodes, Config),
    Receivers = call(B, hawser_stream, receivers, [100]),
    Plan = #{count => 50, payload => {bytes, 300}},
    [ok = call(A, hawser_stream, stream, [one, Receiver, Plan]) || Receiver <- Receivers],
    [] = call(B, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS).

%% What goes there and back arrives as it was sent: both directions keep the order of a chain of processes.
pipeline(Config) ->
    [{A, _}, {B, _}] = proplists:get_value(nodes, Config),
    [#{pid := Last} = Receiver] = call(A, hawser_stream, receivers, [1]),
    First = lists:foldl(
        fun(Peer, Next) -> call(Peer, erlang, spawn, [?MODULE, relay, [Next]]) end, Last, [B, A, B, A, B]),
    ok = call(A, hawser_stream, stream, [there_and_back, Receiver#{pid := First}, #{count => 20000}]),
    ok = call(A, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS).

%% A node's sessions with four others at once: nobody gets what was sent to another, and all arrives.
five_nodes(Config) ->
    {Hub, _} = hd(proplists:get_value(nodes, Config)),
    Others = [start_node(#{env => proplists:get_value(env, Config)}) || _ <- lists:seq(1, 4)],
    _ = [ok = await_session(Hub, Peer) || {Peer, _} <- Others],
    Plan = #{count => 1000, forms => [name, pid, alias], payload => {bytes, 500}},
    AtHub = [{Peer, call(Hub, hawser_stream, receivers, [8])} || {Peer, _} <- Others],
    AtOthers = [{Peer, call(Peer, hawser_stream, receivers, [8])} || {Peer, _} <- Others],
    [] = at_once([{Peer, Receivers, Plan} || {Peer, Receivers} <- AtHub]
                 ++ [{Hub, Receivers, Plan} || {_, Receivers} <- AtOthers]),
    [] = lists:append([call(Hub, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS) || {_, Receivers} <- AtHub]),
    [] = lists:append([call(Peer, hawser_stream, finished, [Receivers, ?MS], 2 * ?MS) || {Peer, Receivers} <- AtOthers]).

%% Two nodes flood each other through queues that are always full: no deadlock, and all arrives in order.
both_ways(Config) ->
    Env = maps:merge(proplists:get_value(env, Config), ?NARROW),
    [{A, _}, {B, _}] = Nodes = [start_node(#{env => Env}) || _ <- [a, b]],
    ok = await_session(A, B),
    Plan = #{count => 300, forms => [pid, alias, name], payload => {bytes, 2000}},
    [AtA, AtB] = [call(Peer, hawser_stream, receivers, [100]) || {Peer, _} <- Nodes],
    [] = at_once([{A, AtB, Plan}, {B, AtA, Plan}]),
    [] = call(A, hawser_stream, finished, [AtA, ?MS], 2 * ?MS),
    [] = call(B, hawser_stream, finished, [AtB, ?MS], 2 * ?MS).

%% ---- help ----

%% A sender for each receiver; the reasons for which any did not come to its end.
streamed(Peer, Receivers, Plan) ->
    call(Peer, erlang, apply, [fun() -> hawser_stream:run(hawser_stream:senders(Receivers, Plan)) end, []], 2 * ?MS).

at_once(Floods) ->
    Self = self(),
    Pids = [spawn_link(fun() -> Self ! {self(), streamed(Peer, Receivers, Plan)} end) || {Peer, Receivers, Plan} <- Floods],
    lists:append([receive {Pid, Reasons} -> Reasons end || Pid <- Pids]).

%% ---- on the nodes ----

relay(Next) ->
    receive Message -> Message = hawser:send(Next, Message) end,
    relay(Next).
