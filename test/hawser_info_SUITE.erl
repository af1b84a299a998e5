%% What hawser tells its users: the totals of a node outlive its sessions, every drop is in them, the keys are the
%% documented ones, and nobody is asked for them. And what await/2 takes.
-module(hawser_info_SUITE).

-export([suite/0, all/0]).
-export([
    keys/1, live/1, peer_killed/1, node_killed/1, disconnected/1, owner_killed/1, never_backwards/1, no_session/1,
    not_running/1, asks_nobody/1, await_arguments/1
]).
%% Run on the nodes.
-export([watch/1, kill_owner/0, suspended_info/1, refused/1]).

-import(hawser_test_nodes, [start_node/1, kill/1, freeze/1, thaw/1, call/4, call/5, await_session/2, await_end/2, name/1]).

-define(MS, 60000).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [
        keys, live, peer_killed, node_killed, disconnected, owner_killed, never_backwards, no_session, not_running,
        asks_nobody, await_arguments
    ].

%% The keys are those that the README has in its tables, all of them and no others.
keys(_) ->
    [{A, _}, {_, NodeB}] = pair(),
    #{totals := #{dropped := Dropped} = Totals} = Info = call(A, hawser, info, []),
    #{session := #{shards := [Shard], dropped := SessionDropped} = Session} = Of = call(A, hawser, info, [NodeB]),
    Documented = documented(),
    Found = lists:append([maps:keys(Map) || Map <- [Info, Totals, Dropped, Of, Session, Shard]]),
    {Documented, Documented} = {lists:usort(Found), Documented},
    [no_session] = maps:keys(Dropped) -- maps:keys(SessionDropped),
    up = maps:get(state, Of),
    #{node := none_such, state := none} = call(A, hawser, info, [none_such]).

%% A live session is in the totals of both ends.
live(_) ->
    [{A, NodeA} = First, {B, NodeB} = Second] = pair(),
    101 = stream(100, First, Second),
    #{sent_messages := 101, received_messages := 0, sent_bytes := Sent, sessions_ended := 0} = totals(A),
    #{sent_messages := 0, received_messages := 101, received_bytes := Received, sessions_ended := 0} = totals(B),
    true = Sent > 100 * 1000 andalso Received > 100 * 1000,
    #{session := #{shards := [#{sent_messages := 101}]}} = call(A, hawser, info, [NodeB]),
    #{session := #{shards := [#{received_messages := 101}]}} = call(B, hawser, info, [NodeA]).

%% The sender is killed: what the receiver got, and what it had to drop, is counted after that; nothing is twice there
%% when a node of the same name comes back.
peer_killed(_) ->
    NodeA = name("info"),
    {A, NodeA} = start_node(#{full_name => NodeA, env => #{shards => 1}}),
    {B, NodeB} = start_node(#{}),
    ok = await_session({A, NodeA}, {B, NodeB}),
    _ = [lost = call(A, hawser, send, [{nobody, NodeB}, lost]) || _ <- lists:seq(1, 7)],
    101 = stream(100, {A, NodeA}, {B, NodeB}),
    #{received_messages := 108, dropped := #{unknown_name := 7}} = totals(B),
    kill(A),
    _ = await_end(B, NodeA),
    #{received_messages := 108, sessions_ended := 1, dropped := #{unknown_name := 7}} = Ended = totals(B),
    {Again, NodeA} = start_node(#{full_name => NodeA, env => #{shards => 1}}),
    ok = await_session({Again, NodeA}, {B, NodeB}),
    Ended = maps:merge(totals(B), maps:with([received_bytes, sent_bytes], Ended)),
    11 = stream(10, {Again, NodeA}, {B, NodeB}),
    #{received_messages := 119, sessions_ended := 1} = totals(B),
    #{state := up, session := #{shards := [#{received_messages := 11}]}} = call(B, hawser, info, [NodeA]).

%% The receiver is stopped and killed: what was queued for it, and what it had not acknowledged, is counted after that.
node_killed(_) ->
    Env = #{shards => 1, fallback => none, connect_timeout_ms => 1000},
    {A, NodeA} = start_node(#{env => Env}),
    {B, NodeB} = start_node(#{env => Env}),
    ok = await_session({A, NodeA}, {B, NodeB}),
    OsPid = call(B, os, getpid, []),
    Frozen = freeze(B),
    Message = binary:copy(<<"x">>, 100_000),
    flooded = call(A, ?MODULE, watch, [{flood, {nobody, NodeB}, Message}]),
    #{sent_messages := Sent} = totals(A),
    true = Sent > 10,
    "" = os:cmd("kill -9 " ++ OsPid),
    true = exit(Frozen, kill),
    _ = await_end(A, NodeB),
    #{sent_messages := Sent, sessions_ended := 1, dropped := Dropped} = totals(A),
    #{queued_at_close_bytes := Queued, unacked_at_close_bytes := Unacked} = Dropped,
    true = Queued > 0 andalso Unacked > 0 andalso Queued + Unacked > Sent * byte_size(Message).

%% Every session of several is counted once.
disconnected(_) ->
    [{A, NodeA} = First, {B, NodeB} = Second] = pair(),
    _ = [begin
        ok = call(A, hawser, await, [NodeB, 10000]),
        ok = call(B, hawser, await, [NodeA, 10000]),
        11 = stream(10, First, Second),
        ok = call(A, hawser, disconnect, [NodeB]),
        #{sessions_ended := N} = totals(A)
    end || N <- [1, 2, 3]],
    #{sent_messages := 33, dropped := #{queued_at_close_bytes := 0, unacked_at_close_bytes := 0, unknown_name := 0, no_session := 0}} = totals(A),
    #{received_messages := 33, sessions_ended := 3} = totals(B).

%% The process that owns the session is killed: the directory counts for it.
owner_killed(_) ->
    [{A, NodeA} = First, {B, NodeB} = Second] = pair(),
    11 = stream(10, First, Second),
    ok = call(A, ?MODULE, kill_owner, []),
    _ = await_end(B, NodeA),
    ok = call(A, hawser, await, [NodeB, 10000]),
    #{sent_messages := 11, sessions_ended := 1} = totals(A).

%% While sessions end and begin no reader sees any total fall.
never_backwards(_) ->
    [{A, NodeA} = First, {B, NodeB} = Second] = pair(),
    Watcher = call(A, ?MODULE, watch, [totals]),
    _ = [begin
        ok = call(A, hawser, await, [NodeB, 10000]),
        ok = call(B, hawser, await, [NodeA, 10000]),
        101 = stream(100, First, Second),
        ok = call(A, hawser, disconnect, [NodeB])
    end || _ <- lists:seq(1, 10)],
    {Looks, []} = call(A, ?MODULE, watch, [{stop, Watcher}]),
    true = Looks > 100,
    #{sent_messages := 1010, sessions_ended := 10} = totals(A).

%% What send/2 could not send without the old way is counted; what send/3 did not send it has said.
no_session(_) ->
    {A, _} = start_node(#{env => #{fallback => none, connect_timeout_ms => 1000}}),
    Nobody = {a_name, name("nobody")},
    _ = [message = call(A, hawser, send, [Nobody, message]) || _ <- [1, 2, 3]],
    _ = [noconnect = call(A, hawser, send, [Nobody, message, Opts]) || Opts <- [[], [noconnect], [nosuspend]]],
    #{sent_messages := 0, sessions_ended := 0, dropped := #{no_session := 3}} = totals(A).

%% Where hawser does not run there is nothing to tell, and a send is what `!' is.
not_running(_) ->
    {A, NodeA} = start_node(#{hawser => false}),
    #{node := NodeA, alive := true, incarnation := undefined, listening := undefined, totals := Totals} =
        call(A, hawser, info, []),
    {Dropped, Sums} = maps:take(dropped, Totals),
    [0] = lists:usort(maps:values(Dropped) ++ maps:values(Sums)),
    message = call(A, hawser, send, [{a_name, name("nobody")}, message]),
    ok = call(A, hawser_test_nodes, node_forget_logs, []).

%% Neither a node that is stopped nor hawser's own processes are waited for.
asks_nobody(_) ->
    [{A, _} = First, {B, NodeB} = Second] = pair(),
    11 = stream(10, First, Second),
    Frozen = freeze(B),
    {#{totals := #{sent_messages := 11}}, #{state := up, session := #{}}} = call(A, ?MODULE, suspended_info, [NodeB]),
    thaw(Frozen).

%% A timeout that the VM's timers do not take is refused before anything happens, as every other wrong argument.
await_arguments(_) ->
    {A, NodeA} = start_node(#{}),
    Nobody = name("nobody"),
    _ = [badarg = call(A, ?MODULE, refused, [Args])
         || Args <- [[Nobody, 5000000000], [NodeA, 5000000000], [Nobody, -1], [Nobody, 1.0], [Nobody, forever],
                     ["nobody", 1], ["nobody", infinity]]],
    {error, noconnection} = call(A, hawser, await, [Nobody, 16#FFFFFFFF]),
    {error, noconnection} = call(A, hawser, await, [Nobody, infinity]),
    [ok, ok] = [call(A, hawser, await, [NodeA, Ms]) || Ms <- [0, infinity]].

%% ---- help ----

pair() ->
    [A, B] = [start_node(#{env => #{shards => 1}}) || _ <- [a, b]],
    ok = await_session(A, B),
    [A, B].

totals(Peer) ->
    #{totals := Totals} = call(Peer, hawser, info, []),
    Totals.

%% Answers the number of messages: those asked for, and the end.
stream(Count, {A, _}, {B, _}) ->
    [Receiver] = call(B, hawser_stream, receivers, [1]),
    ok = call(A, hawser_stream, stream, [me, Receiver, #{count => Count, payload => {bytes, 1000}}], ?MS),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS),
    Count + 1.

%% The first column of the README's tables under the heading on counters.
documented() ->
    {ok, Readme} = file:read_file(filename:join([filename:dirname(?FILE), "..", "README.md"])),
    [_, Section] = binary:split(Readme, <<"\n## Counters\n">>),
    [Tables | _] = binary:split(Section, <<"\n## ">>),
    Cells = [Cell || <<"| `", Row/binary>> <- binary:split(Tables, <<"\n">>, [global]),
                     [Cell | _] <- [binary:split(Row, <<" | ">>)]],
    lists:usort([binary_to_atom(Word, utf8) || Cell <- Cells, Word <- string:lexemes(Cell, "`, "), Word =/= <<"info(Node)">>,
                                               Word =/= <<"info()">>]).

%% ---- on the nodes ----

%% Sends until there is no room; or looks at the totals until it is told to stop, for those that fell.
-spec watch(term()) -> term().
watch({flood, To, Message}) ->
    case hawser:send(To, Message, [nosuspend]) of
        ok -> watch({flood, To, Message});
        nosuspend -> flooded
    end;
watch(totals) ->
    spawn(fun() -> look(maps:get(totals, hawser:info()), 0, []) end);
watch({stop, Watcher}) ->
    Watcher ! {stop, self()},
    receive {Watcher, Seen} -> Seen end.

look(Before, Looks, Fallen) ->
    receive
        {stop, From} -> From ! {self(), {Looks, Fallen}}
    after 0 ->
        #{totals := After} = hawser:info(),
        Now = [{Key, Before, After} || {Key, Value} <- maps:to_list(After), is_integer(Value), Value < maps:get(Key, Before)],
        erlang:yield(),
        look(After, Looks + 1, Now ++ Fallen)
    end.

-spec kill_owner() -> ok.
kill_owner() ->
    [{_, Owner, _, _}] = supervisor:which_children(hawser_peer_sup),
    Monitor = monitor(process, Owner),
    exit(Owner, kill),
    receive {'DOWN', Monitor, process, Owner, killed} -> ok end.

-spec suspended_info(node()) -> {map(), map()}.
suspended_info(Node) ->
    [{_, Owner, _, _}] = supervisor:which_children(hawser_peer_sup),
    {links, Links} = process_info(Owner, links),
    Processes = [Owner, whereis(hawser_directory), whereis(hawser_control) | Links -- [whereis(hawser_peer_sup)]],
    _ = [true = erlang:suspend_process(Pid) || Pid <- Processes],
    Told = {hawser:info(), hawser:info(Node)},
    _ = [true = erlang:resume_process(Pid) || Pid <- Processes],
    Told.

-spec refused([term()]) -> term().
refused(Args) ->
    try apply(hawser, await, Args) catch error:Reason -> Reason end.
