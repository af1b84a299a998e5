%% A node under attack, and what shows whether it suffers: a good neighbour
%% that streams to it all the time, a process that keeps what is delivered, a
%% log handler that misses nothing, descriptors, threads, memory. The suites
%% with peers of another make start it and judge by it. Test code only.
-module(hawser_attacked).

-export([start/1, stop/1, victim/1, stranger/1, address/1]).
-export([invite/2, session/1, session/2, opened/1, ended/1]).
-export([sink/1, take/2, pending/1, left/1, forget/1, tell/2]).
-export([unharmed/1, mark/0, base/1, back_to/2, peak_kib/2, info/1, dropped/2, until/1, until/2]).
%% Run on the nodes, and the logger's callback.
-export([log/2, node_watch/0, node_log_holds/1, node_ends_of/1]).
-export([node_sink/0, node_take/2, node_left/1, node_forget/1]).
-export([node_stream/1, node_echo/0, node_progress/2, node_peak_kib/0, node_forget_peak/0]).

-export_type([attacked/0]).

-type attacked() :: #{
    victim := {hawser_test_nodes:peer(), node()},
    neighbour := {hawser_test_nodes:peer(), node()},
    %% Runs no hawser; its name is smaller than the victim's, so that the victim leaves the dialing to it.
    stranger := {hawser_test_nodes:peer(), node()},
    sink := #{pid := pid(), name := binary(), alias := reference(), stale_alias := reference()},
    stream := pid(),
    incarnation := term()
}.

-import(hawser_test_nodes, [call/4, call/5]).

-define(WAIT_MS, 20000).
%% Every payload that a hostile peer sends carries it; no log may.
-define(MARK, <<"payload-never-in-a-log">>).
%% What the stream has in flight, and its pace.
-define(WINDOW, 4).
-define(PACE_MS, 4).

-spec start(#{atom() => term()}) -> attacked().
start(Env) ->
    Common = #{fallback => none, shards => 2},
    {Victim, VictimNode} = start_node("m", #{env => maps:merge(Common, Env)}),
    {Neighbour, NeighbourNode} = start_node("n", #{env => Common}),
    {Stranger, StrangerNode} = start_node("a", #{hawser => false}),
    ok = call(Victim, ?MODULE, node_watch, []),
    Sink = call(Victim, ?MODULE, node_sink, []),
    _ = call(Victim, ?MODULE, node_echo, []),
    pong = call(Neighbour, net_adm, ping, [VictimNode]),
    ok = hawser_test_nodes:await_session({Victim, VictimNode}, {Neighbour, NeighbourNode}),
    Stream = call(Neighbour, ?MODULE, node_stream, [VictimNode]),
    pong = call(Stranger, net_adm, ping, [VictimNode]),
    #{victim => {Victim, VictimNode}, neighbour => {Neighbour, NeighbourNode}, stranger => {Stranger, StrangerNode},
      sink => Sink, stream => Stream, incarnation => call(Victim, hawser_nif, incarnation, [])}.

start_node(Prefix, Opts) ->
    hawser_test_nodes:start_node(Opts#{name => Prefix, link => false}).

-spec stop(attacked()) -> ok.
stop(Attacked) ->
    _ = [hawser_test_nodes:stop(Peer) || {Peer, _} <- maps:values(maps:with([victim, neighbour, stranger], Attacked))],
    ok.

-spec victim(attacked()) -> hawser_test_nodes:peer().
victim(#{victim := {Peer, _}}) -> Peer.

-spec stranger(attacked()) -> hawser_test_nodes:peer().
stranger(#{stranger := {Peer, _}}) -> Peer.

%% Where the victim listens.
-spec address(attacked()) -> #{host := string(), port := inet:port_number()}.
address(Attacked) ->
    #{listening := {Host, Port}} = call(victim(Attacked), hawser, info, []),
    #{host => binary_to_list(Host), port => Port}.

%% ---- sessions with the victim, without hawser ----

-spec invite(attacked(), #{atom() => term()}) -> hawser_raw_peer:invitation().
invite(#{victim := {_, Node}} = Attacked, Terms) ->
    call(stranger(Attacked), hawser_raw_peer, invite, [Node, Terms]).

%% A session of one shard; its socket belongs to the caller.
-spec session(attacked()) -> hawser_raw_peer:conn().
session(Attacked) ->
    [Conn] = session(Attacked, #{}),
    Conn.

-spec session(attacked(), #{atom() => term()}) -> [hawser_raw_peer:conn()].
session(Attacked, Terms) ->
    hawser_raw_peer:dial(invite(Attacked, Terms)).

%% The same, once the victim has it too.
-spec opened(attacked()) -> hawser_raw_peer:conn().
opened(#{stranger := {_, Node}} = Attacked) ->
    Conn = session(Attacked),
    ok = call(victim(Attacked), hawser, await, [Node, ?WAIT_MS]),
    Conn.

%% Why the session with the stranger ended, once it has; the next question is about the next session.
-spec ended(attacked()) -> term().
ended(#{stranger := {_, Node}} = Attacked) ->
    Reason = hawser_test_nodes:await_end(victim(Attacked), Node),
    ok = hawser_test_nodes:forget_logs(victim(Attacked)),
    Reason.

%% ---- what is delivered ----

-spec sink(attacked()) -> #{pid := pid(), name := binary(), alias := reference(), stale_alias := reference()}.
sink(#{sink := Sink}) -> Sink.

%% The next Count messages, in the order they came.
-spec take(attacked(), non_neg_integer()) -> [term()].
take(#{sink := #{pid := Sink}} = Attacked, Count) ->
    call(victim(Attacked), ?MODULE, node_take, [Sink, Count], ?WAIT_MS).

%% How many messages are there to be taken.
-spec pending(attacked()) -> non_neg_integer().
pending(#{sink := #{pid := Sink}} = Attacked) ->
    {message_queue_len, Count} = call(victim(Attacked), erlang, process_info, [Sink, message_queue_len]),
    Count.

%% What was delivered beyond what was taken.
-spec left(attacked()) -> [term()].
left(#{sink := #{pid := Sink}} = Attacked) ->
    call(victim(Attacked), ?MODULE, node_left, [Sink]).

%% Throws away what was delivered, whatever it is; tells how much it was.
-spec forget(attacked()) -> non_neg_integer().
forget(#{sink := #{pid := Sink}} = Attacked) ->
    call(victim(Attacked), ?MODULE, node_forget, [Sink]).

%% A frame for the sink, with a message that carries the mark.
-spec tell(attacked(), term()) -> {Frame :: binary(), Message :: term()}.
tell(#{sink := #{pid := Sink}, victim := {_, Node}}, N) ->
    Message = {N, ?MARK},
    {hawser_raw_wire:to_pid(Sink, hawser_raw_wire:term(Message, #{}, {{nobody, 0}, {Node, 0}})), Message}.

%% ---- verdicts ----

%% The node is the one that was started, the neighbour's stream runs on, over
%% the same session and without a gap, and no log event holds a payload.
-spec unharmed(attacked()) -> ok.
unharmed(#{neighbour := {Neighbour, NeighbourNode}, stream := Stream, incarnation := Incarnation} = Attacked) ->
    Victim = victim(Attacked),
    Incarnation = call(Victim, hawser_nif, incarnation, []),
    Sent = call(Neighbour, ?MODULE, node_progress, [Stream, 50], ?WAIT_MS),
    [] = call(Victim, ?MODULE, node_ends_of, [NeighbourNode]),
    #{session := #{shards := Shards}} = call(Victim, hawser, info, [NeighbourNode]),
    true = lists:sum([Received || #{received_messages := Received} <- Shards]) >= Sent,
    false = call(Victim, ?MODULE, node_log_holds, [?MARK]),
    ok.

-spec mark() -> binary().
mark() ->
    ?MARK.

%% Descriptors and threads of the victim now.
-spec base(attacked()) -> {Descriptors :: pos_integer(), Threads :: pos_integer()}.
base(Attacked) ->
    Count = fun(Dir) ->
        {ok, Entries} = call(victim(Attacked), file, list_dir, [Dir]),
        length(Entries)
    end,
    {Count("/proc/self/fd"), Count("/proc/self/task")}.

%% Waits until no more of either are in use than there were.
-spec back_to({pos_integer(), pos_integer()}, attacked()) -> ok.
back_to({Descriptors, Threads}, Attacked) ->
    until(fun() ->
        {D, T} = base(Attacked),
        D =< Descriptors andalso T =< Threads
    end).

%% How much more memory than now the victim's whole process used at its worst during Fun.
-spec peak_kib(attacked(), fun(() -> term())) -> integer().
peak_kib(Attacked, Fun) ->
    Before = call(victim(Attacked), ?MODULE, node_forget_peak, []),
    _ = Fun(),
    call(victim(Attacked), ?MODULE, node_peak_kib, []) - Before.

%% Counters and gauges of the victim's session with the stranger.
-spec info(attacked()) -> #{atom() => term()}.
info(#{stranger := {_, Node}} = Attacked) ->
    #{session := Session} = call(victim(Attacked), hawser, info, [Node]),
    Session.

%% What the victim dropped of that session while Fun ran, by reason.
-spec dropped(attacked(), fun(() -> Result)) -> {#{atom() => pos_integer()}, Result}.
dropped(Attacked, Fun) ->
    #{dropped := Before} = info(Attacked),
    Result = Fun(),
    #{dropped := After} = info(Attacked),
    Grown = maps:map(fun(Key, Count) -> Count - maps:get(Key, Before) end, After),
    {maps:filter(fun(_, Count) -> Count > 0 end, Grown), Result}.

%% For what tells nobody that it has happened: asks again and again, without sleeping.
-spec until(fun(() -> boolean())) -> ok.
until(Holds) ->
    until(Holds, ?WAIT_MS).

-spec until(fun(() -> boolean()), pos_integer()) -> ok.
until(Holds, Ms) ->
    until_monotonic(Holds, erlang:monotonic_time(millisecond) + Ms).

until_monotonic(Holds, Deadline) ->
    case Holds() of
        true ->
            ok;
        false ->
            erlang:monotonic_time(millisecond) < Deadline orelse error(never_held),
            erlang:yield(),
            until_monotonic(Holds, Deadline)
    end.

%% ---- on the victim: all that is logged ----

-spec node_watch() -> ok.
node_watch() ->
    Starter = self(),
    Keeper = spawn(fun() ->
        ?MODULE = ets:new(?MODULE, [named_table, public, ordered_set]),
        Starter ! {self(), ready},
        receive stop -> ok end
    end),
    receive {Keeper, ready} -> ok end,
    %% Hundreds of warnings are wanted here; nobody needs to read them.
    ok = logger:set_handler_config(default, level, none),
    logger:add_handler(?MODULE, ?MODULE, #{}).

-spec log(logger:log_event(), map()) -> ok.
log(Event, _) ->
    true = ets:insert(?MODULE, {erlang:unique_integer([monotonic]), Event}),
    ok.

-spec node_log_holds(binary()) -> boolean().
node_log_holds(Mark) ->
    Bytes = iolist_to_binary(io_lib:format("~0p", [binary_to_list(Mark)])),
    Texts = [unicode:characters_to_binary(io_lib:format("~0tp", [Event])) || {_, Event} <- ets:tab2list(?MODULE)],
    lists:any(fun(Text) -> binary:match(Text, [Mark, Bytes]) =/= nomatch end, Texts).

-spec node_ends_of(node()) -> [term()].
node_ends_of(Node) ->
    [Reason || {_, #{msg := {report, #{what := session_ended, node := N, reason := Reason}}}}
                   <- ets:tab2list(?MODULE), N =:= Node].

%% ---- on the victim: the sink ----

-spec node_sink() -> map().
node_sink() ->
    Starter = self(),
    Name = hostile_sink,
    Pid = spawn(fun() ->
        true = register(Name, self()),
        Alias = alias(),
        Stale = alias(),
        true = unalias(Stale),
        Starter ! {self(), Alias, Stale},
        sink_loop()
    end),
    receive
        {Pid, Alias, Stale} -> #{pid => Pid, name => atom_to_binary(Name), alias => Alias, stale_alias => Stale}
    end.

sink_loop() ->
    receive
        {?MODULE, take, From, Ref, Count} ->
            From ! {Ref, [receive Message -> Message end || _ <- lists:seq(1, Count)]},
            sink_loop();
        {?MODULE, left, From, Ref} ->
            From ! {Ref, rest()},
            sink_loop()
    end.

rest() ->
    receive Message -> [Message | rest()] after 0 -> [] end.

-spec node_take(pid(), non_neg_integer()) -> [term()].
node_take(Sink, Count) ->
    Ref = make_ref(),
    Sink ! {?MODULE, take, self(), Ref, Count},
    receive {Ref, Messages} -> Messages end.

-spec node_left(pid()) -> [term()].
node_left(Sink) ->
    Ref = make_ref(),
    Sink ! {?MODULE, left, self(), Ref},
    receive {Ref, Messages} -> Messages end.

-spec node_forget(pid()) -> non_neg_integer().
node_forget(Sink) ->
    length(node_left(Sink)).

%% ---- the stream: numbered, answered one by one ----

-spec node_echo() -> pid().
node_echo() ->
    spawn(fun() ->
        true = register(hostile_echo, self()),
        process_flag(priority, high),
        echo(1)
    end).

%% Dies at the first number that is not the next one.
echo(Next) ->
    receive
        {Next, From, _} ->
            _ = hawser:send(From, {Next, echoed}),
            echo(Next + 1)
    end.

-spec node_stream(node()) -> pid().
node_stream(Victim) ->
    spawn(fun() -> stream(Victim, 1, 1) end).

stream(Victim, Next, Due) when Next - Due < ?WINDOW ->
    ok = hawser:send({hostile_echo, Victim}, {Next, self(), #{some => payload, list => lists:seq(1, 20)}}, []),
    stream(Victim, Next + 1, Due);
stream(Victim, Next, Due) ->
    receive
        {Due, echoed} ->
            receive
                {progress, From, Ref} -> From ! {Ref, Due}
            after ?PACE_MS -> ok
            end,
            stream(Victim, Next, Due + 1)
    after ?WAIT_MS ->
        exit(stream_stopped)
    end.

%% Waits until Count more messages have made the way, and answers how many have in all.
-spec node_progress(pid(), pos_integer()) -> pos_integer().
node_progress(Stream, Count) ->
    Monitor = monitor(process, Stream),
    First = progress(Stream, Monitor),
    Answer = progressed(Stream, Monitor, First + Count),
    demonitor(Monitor, [flush]),
    Answer.

progressed(Stream, Monitor, Wanted) ->
    case progress(Stream, Monitor) of
        Due when Due >= Wanted -> Due;
        _ -> progressed(Stream, Monitor, Wanted)
    end.

progress(Stream, Monitor) ->
    Ref = make_ref(),
    Stream ! {progress, self(), Ref},
    receive
        {Ref, Due} -> Due;
        {'DOWN', Monitor, process, Stream, Why} -> error({stream, Why})
    end.

%% ---- memory of the victim's process, as the operating system sees it ----

-spec node_forget_peak() -> non_neg_integer().
node_forget_peak() ->
    _ = [erlang:garbage_collect(Pid) || Pid <- processes()],
    %% Where this is not allowed, only growth beyond the highest mark so far shows.
    _ = file:write_file("/proc/self/clear_refs", "5"),
    node_peak_kib().

-spec node_peak_kib() -> non_neg_integer().
node_peak_kib() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Kib]} = re:run(Status, "VmHWM:\\s*(\\d+) kB", [{capture, all_but_first, list}]),
    list_to_integer(Kib).
