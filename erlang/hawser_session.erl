%% The live part of a peer: a native session with one flusher and one reader
%% process per shard, and what those have reported so far. Plain functions,
%% called by hawser_peer, which owns the processes (linked) and traps exits.
%% Never decides what follows from a report.
-module(hawser_session).

-export([open/4, cut/1, heard/2, tick/1, withdraw/1, finish/1, finish/2, all_read/1, all_done/1, close/1]).
-export([handle/1, terms/1, age_ms/1]).

-export_type([live/0, event/0, ends/0, counts/0]).

-record(live, {
    node :: node(),
    session :: hawser_nif:session(),
    shards :: [hawser_nif:shard()],
    %% Where the VM's driver reads each shard's socket.
    ports :: [inet:socket()],
    terms :: hawser_invitation:terms(),
    flushers :: #{pid() => Index :: non_neg_integer()},
    readers :: #{pid() => Index :: non_neg_integer()},
    %% Indexes of the readers that may still deliver, of the flushers that may still write.
    reading :: [non_neg_integer()],
    writing :: [non_neg_integer()],
    since :: integer()
}).

-opaque live() :: #live{}.

%% This node's side and the other's.
-type ends() :: {Local :: hawser_invitation:party(), Remote :: hawser_invitation:party()}.

%% Over all shards, and what was dropped by cause.
-type counts() :: #{
    sent_messages := non_neg_integer(),
    received_messages := non_neg_integer(),
    dropped := #{atom() => non_neg_integer()}
}.

%% closed: the peer has sent its last record on this shard. finished: ours is
%% written. lost: a socket broke. died: one of our own processes.
-type event() ::
    {closed, Index :: non_neg_integer()}
    | finished
    | {lost, {Index :: non_neg_integer(), Why :: term()}}
    | {malformed, {Index :: non_neg_integer(), What :: binary()}}
    | {died, {flusher | reader, Index :: non_neg_integer(), Why :: term()}}.

-define(EXIT_MS, 1000).

%% Opens the session over authenticated sockets (one per shard, in order) and
%% installs the route to Node when everything runs.
-spec open(node(), ends(), hawser_invitation:terms(), [hawser_nif:socket()]) -> {ok, live()} | {error, term()}.
open(Node, {{OwnName, OwnCreation, _}, {Name, Creation, _}}, Terms, Sockets) ->
    case hawser_nif:session_open(Node, {OwnName, OwnCreation}, {Name, Creation}, Sockets, limits(Terms)) of
        {ok, Session, Shards} ->
            case open_ports(Shards, []) of
                {ok, Ports} ->
                    {ok, run(Node, Session, Shards, Ports, Terms)};
                {error, Reason} ->
                    ok = cut(Session),
                    {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

open_ports([Shard | Shards], Opened) ->
    case hawser_reader:open(Shard) of
        {ok, Port} ->
            open_ports(Shards, [{Shard, Port} | Opened]);
        {error, Reason} ->
            lists:foreach(fun({Done, Port}) -> hawser_reader:close(Done, Port) end, Opened),
            ok = hawser_nif:shard_release(Shard),
            {error, Reason}
    end;
open_ports([], Opened) ->
    {ok, [Port || {_, Port} <- lists:reverse(Opened)]}.

run(Node, Session, Shards, Ports, Terms) ->
    ok = hawser_totals:opened(Node, Session),
    Indexes = lists:seq(0, length(Shards) - 1),
    Processes = [start(Shard, Port, Index) || {Shard, Port, Index} <- lists:zip3(Shards, Ports, Indexes)],
    %% Closed already: the processes report it.
    _ = hawser_nif:session_up(Session),
    #live{
        node = Node,
        session = Session,
        shards = Shards,
        ports = Ports,
        terms = Terms,
        flushers = maps:from_list([{Flusher, Index} || {Index, Flusher, _} <- Processes]),
        readers = maps:from_list([{Reader, Index} || {Index, _, Reader} <- Processes]),
        reading = Indexes,
        writing = Indexes,
        since = now_ms()
    }.

limits(Terms) ->
    Agreed = maps:with([max_message_bytes, max_unacked_bytes, ack_every_bytes], Terms),
    Own = maps:from_list([{Key, hawser_config:get(Key)} || Key <- [max_queue_bytes, reply_reserve_bytes]]),
    maps:merge(Agreed, Own).

start(Shard, Port, Index) ->
    {ok, Flusher} = hawser_flusher:start_link(Shard, Index),
    {ok, Reader} = hawser_reader:start_link(Shard, Port, Index, self()),
    _ = hawser_nif:shard_bind(Shard, Flusher, Reader),
    ok = hawser_reader:begin_reading(Reader),
    {Index, Flusher, Reader}.

%% Takes down what a message to the owner says about the session.
-spec heard(term(), live()) -> {event(), live()} | other.
heard({hawser_reader, Index, closed}, Live) ->
    {{closed, Index}, read(Index, Live)};
heard({hawser_reader, Index, {lost, Why}}, Live) ->
    {{lost, {Index, Why}}, read(Index, Live)};
heard({hawser_reader, Index, {malformed, What}}, Live) ->
    {{malformed, {Index, What}}, read(Index, Live)};
heard({hawser_flusher, Index, finished}, Live) ->
    {finished, written(Index, Live)};
heard({hawser_flusher, Index, {lost, Why}}, Live) ->
    {{lost, {Index, Why}}, written(Index, Live)};
heard({'EXIT', Pid, Why}, Live) ->
    died(Pid, Why, Live);
heard(_, _) ->
    other.

read(Index, #live{reading = Reading} = Live) ->
    Live#live{reading = lists:delete(Index, Reading)}.

written(Index, #live{writing = Writing} = Live) ->
    Live#live{writing = lists:delete(Index, Writing)}.

died(Pid, Why, #live{flushers = Flushers, readers = Readers} = Live) ->
    case {Flushers, Readers} of
        {#{Pid := Index}, _} ->
            {{died, {flusher, Index, Why}}, written(Index, Live#live{flushers = maps:remove(Pid, Flushers)})};
        {_, #{Pid := Index}} ->
            {{died, {reader, Index, Why}}, read(Index, Live#live{readers = maps:remove(Pid, Readers)})};
        _ ->
            other
    end.

%% Heartbeat: to be called once per agreed interval. A port that is closed while its reader lives was closed by a
%% stranger: nobody would read the socket any more.
-spec tick(live()) -> ok | {dead, {silent | lost, {Index :: non_neg_integer(), SilentMs :: non_neg_integer() | binary()}}}.
tick(#live{session = Session, ports = Ports, terms = #{heartbeat_interval_ms := Interval}}) ->
    Arrived = [hawser_reader:arrived(Port) || Port <- Ports],
    case [Index || {Index, closed} <- lists:zip(lists:seq(0, length(Ports) - 1), Arrived)] of
        [] ->
            case hawser_nif:session_tick(Session, now_ms(), Interval, Arrived) of
                ok -> ok;
                {dead, Index, SilentMs} -> {dead, {silent, {Index, SilentMs}}}
            end;
        [Index | _] ->
            {dead, {lost, {Index, <<"the port that reads the socket was closed">>}}}
    end.

%% No new message takes this way; what is queued still goes out.
-spec withdraw(live()) -> ok.
withdraw(#live{session = Session}) ->
    hawser_nif:session_down(Session).

%% Asks every flusher to write a last record after all that is queued.
-spec finish(live()) -> ok.
finish(#live{shards = Shards}) ->
    lists:foreach(fun(Shard) -> ok = hawser_nif:shard_finish(Shard) end, Shards).

%% The same for the shard on which the peer is done: our last record tells it
%% that everything it sent there is delivered.
-spec finish(non_neg_integer(), live()) -> ok.
finish(Index, #live{shards = Shards}) ->
    hawser_nif:shard_finish(lists:nth(Index + 1, Shards)).

%% Everything that the peer sent and that arrived is delivered.
-spec all_read(live()) -> boolean().
all_read(#live{reading = Reading}) ->
    Reading =:= [].

%% The same, and everything of ours is written.
-spec all_done(live()) -> boolean().
all_done(#live{reading = Reading, writing = Writing}) ->
    Reading =:= [] andalso Writing =:= [].

%% Closes the sockets and ends the processes; answers the session's last counts.
-spec close(live()) -> counts().
close(#live{node = Node, session = Session, shards = Shards, ports = Ports, flushers = Flushers, readers = Readers}) ->
    ok = cut(Session),
    lists:foreach(fun({Shard, Port}) -> hawser_reader:close(Shard, Port) end, lists:zip(Shards, Ports)),
    lists:foreach(fun end_process/1, maps:keys(Flushers) ++ maps:keys(Readers)),
    ok = hawser_totals:ended(Node),
    #{shards := Counts, dropped := Dropped} = hawser_nif:session_info(Session),
    #{
        sent_messages => sum(sent_messages, Counts),
        received_messages => sum(received_messages, Counts),
        dropped => maps:filter(fun(_, Count) -> Count > 0 end, Dropped)
    }.

%% Ends a native session; whoever waits for an answer learns that none will come.
-spec cut(hawser_nif:session()) -> ok.
cut(Session) ->
    lists:foreach(
        fun(Alias) -> Alias ! {Alias, {system, noconnection}} end,
        hawser_nif:session_close(Session)
    ).

sum(Counter, Shards) ->
    lists:sum([maps:get(Counter, Shard) || Shard <- Shards]).

end_process(Pid) ->
    exit(Pid, shutdown),
    receive
        {'EXIT', Pid, _} -> ok
    after ?EXIT_MS ->
        exit(Pid, kill),
        receive {'EXIT', Pid, _} -> ok end
    end.

%% What session_info and the directory need.
-spec handle(live()) -> hawser_nif:session().
handle(#live{session = Session}) ->
    Session.

-spec terms(live()) -> hawser_invitation:terms().
terms(#live{terms = Terms}) ->
    Terms.

-spec age_ms(live()) -> non_neg_integer().
age_ms(#live{since = Since}) ->
    now_ms() - Since.

now_ms() ->
    erlang:monotonic_time(millisecond).
