%% What hawser may take from the node that it runs on (memory, system calls, time slices), and that nobody who waits for
%% it is forgotten: heartbeats are a minute apart where a late tick could help one who was.
-module(hawser_duty_SUITE).

-export([suite/0, all/0]).
-export([
    idle_shards/1, system_calls/1, behind_long_messages/1, behind_long_message_at_defaults/1, behind_long_lists/1,
    killed_in_front/1, killed_between/1, time_slices/1
]).
%% Run on the nodes.
-export([resident_kib/0, largest/0, calls/1, sink/0, long_and_last/4, jam/3, watch/1, slices/0, work/3, sunk/1]).

-import(hawser_test_nodes, [start_node/1, freeze/1, thaw/1, call/4, call/5, await_session/2]).

%% Far more than what is waited for takes, far less than a heartbeat.
-define(PROMPT_MS, 10000).
-define(NO_TICKS, #{heartbeat_interval_ms => 60000}).
%% Full after some ten kilobytes.
-define(NARROW, #{
    heartbeat_interval_ms => 60000, max_queue_bytes => 65536, max_unacked_bytes => 131072, ack_every_bytes => 32768
}).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [
        idle_shards, system_calls, behind_long_messages, behind_long_message_at_defaults, behind_long_lists,
        killed_in_front, killed_between, time_slices
    ].

%% ---- memory ----

%% A session costs either node less than 100 KiB per shard; and its processes a few of them, also after it was in use.
idle_shards(_) ->
    Shards = 64,
    [{A, NodeA}, {B, NodeB}] = Nodes = [start_node(#{env => #{shards => Shards, heartbeat_interval_ms => 200}}) || _ <- [a, b]],
    Before = [call(Peer, ?MODULE, resident_kib, []) || {Peer, _} <- Nodes],
    ok = await_session({A, NodeA}, {B, NodeB}),
    ok = until(fun() -> lists:max(grown(Nodes, Before)) < 100 * Shards end),
    Idle = grown(Nodes, Before),
    Receivers = streams(A, B, 2 * Shards, #{count => 50}),
    _ = [true = call(B, erlang, exit, [Pid, kill]) || #{pid := Pid} <- Receivers],
    #{session := #{shards := Used}} = call(A, hawser, info, [NodeB]),
    true = length([used || #{sent_messages := Sent} <- Used, Sent > 0]) > Shards div 2,
    ok = until(fun() -> lists:max([call(Peer, ?MODULE, largest, []) || Peer <- [A, B]]) < 10000 end),
    ct:comment("KiB per shard: ~w, after use ~w", [[Kib div Shards || Kib <- Sizes] || Sizes <- [Idle, grown(Nodes, Before)]]).

grown(Nodes, Before) ->
    [call(Peer, ?MODULE, resident_kib, []) - Kib || {{Peer, _}, Kib} <- lists:zip(Nodes, Before)].

resident_kib() ->
    _ = [garbage_collect(Pid) || Pid <- processes(), not is_of_hawser(Pid)],
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Kib]} = re:run(Status, "VmRSS:\\s+(\\d+)", [{capture, all_but_first, list}]),
    list_to_integer(Kib).

%% Bytes of the largest of the session's processes.
largest() ->
    lists:max([Bytes || Pid <- processes(), is_of_hawser(Pid), {memory, Bytes} <- [process_info(Pid, memory)]]).

is_of_hawser(Pid) ->
    case process_info(Pid, initial_call) of
        {initial_call, {Module, _, _}} -> Module =:= hawser_flusher orelse Module =:= hawser_reader;
        undefined -> false
    end.

%% ---- system calls ----

%% Under load a system call serves many messages, whoever makes it.
system_calls(_) ->
    [{A, NodeA}, {B, NodeB}] = [start_node(#{}) || _ <- [a, b]],
    ok = await_session({A, NodeA}, {B, NodeB}),
    Before = call(A, ?MODULE, calls, [NodeB]) + call(B, ?MODULE, calls, [NodeA]),
    {Streams, Count} = {100, 2000},
    _ = streams(A, B, Streams, #{count => Count}),
    Calls = call(A, ?MODULE, calls, [NodeB]) + call(B, ?MODULE, calls, [NodeA]) - Before,
    ct:comment("~b messages, ~b system calls", [Streams * Count, Calls]),
    true = Calls * 10 < Streams * Count.

calls(Node) ->
    #{session := #{shards := Shards}} = hawser:info(Node),
    lists:sum([Writes + Reads || #{writes := Writes, reads := Reads} <- Shards]).

%% ---- who comes behind something long ----

%% What follows a message that is longer than all that may be unacknowledged arrives at once, be it sent with it or when
%% it is on its way already. Nothing goes the other way.
behind_long_messages(_) ->
    {A, B} = pair(maps:put(shards, 1, ?NARROW)),
    Lengths = [130000, 200000, 262144, 400000, 1000000, 1048576],
    none = late(A, B, [{binary, Bytes} || Bytes <- Lengths, _ <- lists:seq(1, 10)]).

behind_long_message_at_defaults(_) ->
    {A, B} = pair(?NO_TICKS),
    none = late(A, B, [{binary, MiB bsl 20} || MiB <- [17, 20, 20]]).

%% The same for what is written in hawser's own form, as long as that may be.
behind_long_lists(_) ->
    {A, B} = pair(maps:put(shards, 1, ?NARROW)),
    none = late(A, B, [{list, Elements} || Elements <- [5000, 12000, 60000], _ <- lists:seq(1, 10)]).

%% The first that was.
late(A, B, Longs) ->
    Late = fun({Long, When}) -> arrival(A, B, Long, When) =/= ok end,
    case lists:search(Late, [{Long, When} || Long <- Longs, When <- [together, behind]]) of
        {value, Found} -> Found;
        false -> none
    end.

arrival(A, B, Long, When) ->
    Sink = call(B, ?MODULE, sink, []),
    Ref = make_ref(),
    ok = call(A, ?MODULE, long_and_last, [Sink, Long, When, Ref]),
    call(B, ?MODULE, sunk, [{Sink, Ref}]).

long_and_last(Sink, Long, When, Ref) ->
    _ = hawser:send(Sink, long(Long)),
    _ = [taken(node(Sink)) || When =:= behind],
    _ = hawser:send(Sink, {last, Ref}),
    ok.

long({binary, Bytes}) -> binary:copy(<<1>>, Bytes);
long({list, Elements}) -> [{N, [N]} || N <- lists:seq(1, Elements)].

%% The flusher has made batches of all that was sent.
taken(Node) ->
    #{session := #{shards := Shards}} = hawser:info(Node),
    case lists:sum([Bytes || #{queued_bytes := Bytes} <- Shards]) of
        0 -> ok;
        _ -> erlang:yield(), taken(Node)
    end.

%% ---- who waits behind killed ones ----

%% Those who wait for room behind thousands that were killed while they waited all get through.
killed_in_front(_) ->
    [ok = behind_killed(Shards, [{killed, 8000}, {living, 16}]) || Shards <- [1, 4]].

%% And so do those who wait here and there among them.
killed_between(_) ->
    Turns = lists:append(lists:duplicate(20, [{killed, 300}, {living, 1}])),
    [ok = behind_killed(Shards, Turns ++ [{killed, 2000}]) || Shards <- [1, 4]].

behind_killed(Shards, Turns) ->
    {A, B} = pair(maps:put(shards, Shards, ?NARROW)),
    Sink = call(B, ?MODULE, sink, []),
    Receivers = call(B, hawser_stream, receivers, [lists:sum([N || {living, N} <- Turns])]),
    Frozen = freeze(B),
    ok = call(A, ?MODULE, jam, [Sink, Receivers, Turns], 60000),
    ok = thaw(Frozen),
    [] = call(B, hawser_stream, finished, [Receivers, ?PROMPT_MS]),
    _ = [hawser_test_nodes:stop(Peer) || Peer <- [A, B]],
    ok.

%% Fills every shard, lets processes wait in turns, one living for each receiver, and kills the others.
jam(Sink, Receivers, Turns) ->
    full = fill(Sink),
    Victims = wait_in_turns(Turns, Sink, Receivers),
    _ = [exit(Pid, kill) || {Pid, _} <- Victims],
    [killed] = lists:usort(hawser_stream:wait(Victims)),
    ok.

wait_in_turns([], _, []) ->
    [];
wait_in_turns([{killed, N} | Turns], Sink, Receivers) ->
    all_waiting([spawn_monitor(fun() -> hawser:send(Sink, a_word) end) || _ <- lists:seq(1, N)])
        ++ wait_in_turns(Turns, Sink, Receivers);
wait_in_turns([{living, N} | Turns], Sink, Receivers) ->
    {Now, Later} = lists:split(N, Receivers),
    Living = hawser_stream:senders(Now, #{count => 20, payload => {bytes, 1000}}),
    _ = [Pid ! go || {Pid, _} <- Living],
    _ = all_waiting(Living),
    wait_in_turns(Turns, Sink, Later).

%% From processes of many shards, until each shard has sent as much as it may and the queue behind it is full.
fill(Sink) ->
    Fillers = [spawn_monitor(fun() -> until_full(Sink, binary:copy(<<1>>, 1000), 0) end) || _ <- lists:seq(1, 64)],
    [] = hawser_stream:wait(Fillers),
    #{max_queue_bytes := Queued, max_unacked_bytes := Unacked} = ?NARROW,
    #{session := #{shards := Shards}} = hawser:info(node(Sink)),
    case [room || #{queued_bytes := Q, unacked_bytes := U} <- Shards, Q < Queued orelse U < Unacked] of
        [] -> full;
        _ -> fill(Sink)
    end.

until_full(_, _, 50) ->
    ok;
until_full(To, Message, Refused) ->
    case hawser:send(To, Message, [nosuspend]) of
        ok -> until_full(To, Message, 0);
        nosuspend -> erlang:yield(), until_full(To, Message, Refused + 1)
    end.

%% They wait for nothing else.
all_waiting(Senders) ->
    _ = [is_waiting(Pid) || {Pid, _} <- Senders],
    Senders.

is_waiting(Pid) ->
    case process_info(Pid, [status, message_queue_len, monitors]) of
        [{status, waiting}, {message_queue_len, 0}, {monitors, [_]}] -> ok;
        [_, _, _] -> erlang:yield(), is_waiting(Pid)
    end.

%% ---- time slices ----

%% Whatever is sent, no process of hawser and no sender within a push runs longer than 20 ms at a stretch. A machine
%% that takes the processor away from the VM makes slices look longer: what counts is what is long every time.
time_slices(_) ->
    {A, B} = pair(maps:put(shards, 1, ?NO_TICKS)),
    _ = [ok = call(Peer, ?MODULE, watch, [5]) || Peer <- [A, B]],
    Rounds = lists:seq(1, 3),
    Seen = [{{Work, Role}, Round, Ms} || Round <- Rounds, Work <- works(), {Role, Ms} <- slices(A, B, Work, Round)],
    ct:log("Slices from 5 ms on, {{work, role}, round, ms}:~n~w", [Seen]),
    Longest = [{What, [lists:max([0 | [Ms || {W, R, Ms} <- Seen, W =:= What, R =:= Round]]) || Round <- Rounds]}
               || What <- lists:usort([What || {What, _, _} <- Seen])],
    ct:comment("longest of each round, ms: ~w", [Longest]),
    [] = [{What, Ms} || {What, Ms} <- Longest, lists:min(Ms) >= 100].

works() ->
    [nested_lists, new_atoms, binaries, one_of_binaries, large_binary, large_map, deep].

slices(A, B, Work, Round) ->
    Sink = call(B, ?MODULE, sink, []),
    Ref = make_ref(),
    ok = call(A, ?MODULE, work, [Sink, {Work, Round}, Ref], 60000),
    ok = call(B, ?MODULE, sunk, [{Sink, Ref}], 60000),
    call(A, ?MODULE, slices, []) ++ call(B, ?MODULE, slices, []).

%% Made before, so that the slices are those of sending.
work(Sink, Work, Ref) ->
    {_, Monitor} = spawn_monitor(fun() ->
        Messages = messages(Work),
        erlang:yield(),
        _ = [hawser:send(Sink, Message) || Message <- Messages],
        hawser:send(Sink, {last, Ref})
    end),
    receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason, ok end.

messages({nested_lists, _}) ->
    lists:duplicate(5, [[N, [N, [N]]] || N <- lists:seq(1, 60000)]);
messages({new_atoms, Round}) ->
    [[list_to_atom(lists:concat(["new_atom_", Round, "_", N])) || N <- lists:seq(1, 20000)]];
messages({binaries, _}) ->
    [binary:copy(<<N>>, 65536) || N <- lists:seq(1, 200)];
messages({one_of_binaries, _}) ->
    lists:duplicate(3, [binary:copy(<<N>>, 65536) || N <- lists:seq(1, 100)]);
messages({large_binary, _}) ->
    [binary:copy(<<1>>, 128 bsl 20)];
messages({large_map, _}) ->
    lists:duplicate(5, maps:from_list([{{key, N}, [N]} || N <- lists:seq(1, 30000)]));
messages({deep, _}) ->
    [hawser_term_kinds:nested(Shape, 200000) || Shape <- [list, tuple, map_value]].

%% Takes down who ran for so long at a stretch.
watch(Ms) ->
    Starter = self(),
    Watch = spawn(fun() ->
        true = register(?MODULE, self()),
        process_flag(priority, max),
        _ = erlang:system_monitor(self(), [{long_schedule, Ms}]),
        Starter ! {self(), ready},
        watching([])
    end),
    receive {Watch, ready} -> ok end.

watching(Slices) ->
    receive
        {monitor, Process, long_schedule, Info} ->
            Roles = [{Role, proplists:get_value(timeout, Info)} || Role <- role(Process, Info)],
            watching(Roles ++ Slices);
        {slices, From} ->
            From ! {self(), Slices},
            watching([])
    end.

role(Process, Info) when is_pid(Process) ->
    Modules = [Module || Key <- [in, out], {Module, _, _} <- [proplists:get_value(Key, Info)]],
    case {process_info(Process, initial_call), lists:any(fun is_of_sending/1, Modules)} of
        {{initial_call, {Module, _, _}}, _} when Module =:= hawser_flusher; Module =:= hawser_reader -> [Module];
        {_, true} -> [sender];
        _ -> []
    end;
role(_, _) ->
    [].

is_of_sending(Module) ->
    lists:member(Module, [hawser, hawser_nif, hawser_dist]).

slices() ->
    Watch = whereis(?MODULE),
    Watch ! {slices, self()},
    receive {Watch, Slices} -> Slices end.

%% ---- help ----

pair(Env) ->
    [{A, _}, {B, _}] = Nodes = [start_node(#{env => Env}) || _ <- [a, b]],
    ok = await_session(hd(Nodes), lists:last(Nodes)),
    {A, B}.

%% So many streams from A to B, whole.
streams(A, B, N, Plan) ->
    Receivers = call(B, hawser_stream, receivers, [N]),
    [] = call(A, erlang, apply, [fun() -> hawser_stream:run(hawser_stream:senders(Receivers, Plan)) end, []], 60000),
    [] = call(B, hawser_stream, finished, [Receivers, 30000], 60000),
    Receivers.

%% Asks again and again, the question being some work of its own, until it is so.
until(Question) ->
    until(Question, erlang:monotonic_time(millisecond) + 30000).

until(Question, Deadline) ->
    case Question() of
        true -> ok;
        false -> true = erlang:monotonic_time(millisecond) < Deadline, until(Question, Deadline)
    end.

%% Takes anything and tells whoever asks when the last has come.
sink() ->
    spawn(fun() -> sink([], []) end).

sink(Ended, Asked) ->
    receive
        {last, Ref} ->
            _ = [From ! {self(), Ref} || {From, R} <- Asked, R =:= Ref],
            sink([Ref | Ended], Asked);
        {sunk, From, Ref} ->
            _ = [From ! {self(), Ref} || lists:member(Ref, Ended)],
            sink(Ended, [{From, Ref} | Asked]);
        _ ->
            sink(Ended, Asked)
    end.

sunk({Sink, Ref}) ->
    Sink ! {sunk, self(), Ref},
    receive {Sink, Ref} -> ok after ?PROMPT_MS -> late end.
