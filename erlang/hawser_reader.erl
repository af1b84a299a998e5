%% @private
%% @doc Takes one shard's messages out of its socket and delivers them, for the life of the session.
%%
%% The VM's socket driver reads (schedulers poll its sockets themselves, those of a NIF only through another thread) and
%% sends what it read, a bounded number of reads ahead. The NIF decodes and sorts out what has no receiver here; what it
%% returns goes to processes of this incarnation with `!', requests get a process of their own. Coming back for more is
%% the receipt for what was delivered. The process raises for nothing that a peer sends and waits for nobody; how the
%% shard ended it tells the session's owner, once.
-module(hawser_reader).

-export([open/1, close/2, start_link/4, begin_reading/1, arrived/1]).
-export([init/1, loop/1]).

%% Bytes of one read, and how many reads may lie in the mailbox.
-define(READ_BYTES, 65536).
-define(READS_AHEAD, 16).
%% Bodies that may have their first turn ahead of others on a crowded node: so many a millisecond, and so many at once.
%% If each used its time slice up, the others would still have more than half of the node.
-define(TURNS_PER_MS, 6).
-define(TURNS_AT_ONCE, 128).

-record(state, {
    shard :: hawser_nif:shard(),
    port :: inet:socket(),
    index :: non_neg_integer(),
    owner :: pid(),
    %% Reads that the driver may still make by itself.
    ahead = 0 :: integer(),
    priority = normal :: normal | high,
    %% Turns that bodies may have ahead of others, as of that millisecond.
    turns :: {Left :: non_neg_integer(), AtMs :: integer()},
    mode = busy :: busy | idle
}).

%% @doc Has the VM's driver take over the reading of the shard's socket, for the calling process.
-spec open(hawser_nif:shard()) -> {ok, inet:socket()} | {error, Sentence :: binary()}.
open(Shard) ->
    case hawser_nif:shard_descriptor(Shard) of
        {ok, Descriptor} ->
            %% Whoever gives a descriptor to the driver keeps it, unless the driver is to exit when the peer closes.
            Opts = [{inet_backend, inet}, binary, {active, false}, {packet, raw}, {buffer, ?READ_BYTES}, {exit_on_close, false}],
            case gen_tcp:fdopen(Descriptor, Opts) of
                {ok, Port} -> {ok, Port};
                {error, Reason} -> {error, iolist_to_binary(io_lib:format("the VM does not take the socket: ~p", [Reason]))}
            end;
        {error, Sentence} ->
            {error, Sentence}
    end.

%% @doc Ends the driver's reading and closes its descriptor. By any process; the port may be closed already.
-spec close(hawser_nif:shard(), inet:socket()) -> ok.
close(Shard, Port) ->
    %% Returns when the driver has let go of the descriptor.
    try port_close(Port) of _ -> ok catch error:badarg -> ok end,
    hawser_nif:shard_release(Shard).

%% @doc Starts the reader of a port that the calling process owns. It reads nothing before {@link begin_reading/1}.
-spec start_link(hawser_nif:shard(), inet:socket(), Index :: non_neg_integer(), Owner :: pid()) -> {ok, pid()}.
start_link(Shard, Port, Index, Owner) ->
    Turns = {?TURNS_AT_ONCE, erlang:monotonic_time(millisecond)},
    State = #state{shard = Shard, port = Port, index = Index, owner = Owner, turns = Turns},
    Pid = spawn_opt(?MODULE, init, [State], [
        link, {priority, normal}, {fullsweep_after, 20}, {message_queue_data, off_heap}
    ]),
    %% A port that has closed in between is found out when the reader asks for data.
    _ = gen_tcp:controlling_process(Port, Pid),
    {ok, Pid}.

-spec begin_reading(pid()) -> ok.
begin_reading(Reader) ->
    Reader ! hawser_begin,
    ok.

%% @doc Bytes that have been read from the socket so far, decoded or not.
-spec arrived(inet:socket()) -> non_neg_integer() | closed.
arrived(Port) ->
    case inet:getstat(Port, [recv_oct]) of
        {ok, [{recv_oct, Bytes}]} -> Bytes;
        {error, _} -> closed
    end.

-spec init(#state{}) -> no_return().
init(State) ->
    receive
        hawser_begin -> read_ahead(State)
    end.

%% Until there is something to decode. An idle shard's reader gives its heap back, and does so again after each tick of
%% the peer that wakes it.
-spec loop(#state{}) -> no_return().
loop(#state{port = Port, shard = Shard, ahead = Ahead} = State) ->
    receive
        {tcp, Port, Bytes} ->
            take(hawser_nif:recv(Shard, Bytes), State#state{ahead = Ahead - 1});
        {{hawser_body, Call}, _, process, Pid, Reason} ->
            hawser_body:ended(Shard, Call, Pid, Reason),
            loop(State);
        {tcp_passive, Port} ->
            loop(State);
        {tcp_closed, Port} ->
            finish(ended(hawser_nif:recv(Shard, none), closed_by_peer), State);
        {tcp_error, Port, Reason} ->
            finish(ended(hawser_nif:recv(Shard, none), Reason), State);
        hawser_idle ->
            erlang:hibernate(?MODULE, loop, [State#state{mode = idle}])
    end.

take(again, State) ->
    rest(pace(State));
take(Messages, State0) when is_list(Messages) ->
    {Turn, #state{shard = Shard} = State} = turn(Messages, State0),
    case deliver(Messages, {Shard, Turn}) of
        ok -> take(hawser_nif:recv(Shard, none), State#state{mode = busy});
        Malformed -> finish(Malformed, State)
    end;
take(End, State) ->
    finish(End, State).

rest(#state{ahead = Ahead} = State) when Ahead =< ?READS_AHEAD div 2 ->
    read_ahead(State);
rest(#state{mode = idle} = State) ->
    erlang:hibernate(?MODULE, loop, [State]);
rest(State) ->
    loop(State).

%% The driver reads on before it has used up what it was allowed, so that it never has to stop polling the socket; one
%% that is not asked again stops, and the peer's sender with it.
read_ahead(#state{port = Port, ahead = Ahead} = State) ->
    %% The answer of a port that has closed is the message about it.
    _ = inet:setopts(Port, [{active, ?READS_AHEAD - Ahead}]),
    loop(State#state{ahead = ?READS_AHEAD}).

%% On a crowded node a reader goes ahead of others, so that a message waits for the turn of its receiver alone. Not one
%% that finds more waiting than it has just delivered: at high priority it would starve those who are to handle it.
pace(#state{priority = Priority} = State) ->
    ok = hawser_pulse:beat(),
    case hawser_pulse:crowded() andalso process_info(self(), message_queue_len) of
        false when Priority =:= normal ->
            State;
        {message_queue_len, Waiting} when Waiting < ?READS_AHEAD div 2 ->
            prioritise(high, State);
        _ ->
            prioritise(normal, State)
    end.

prioritise(Priority, #state{priority = Priority} = State) ->
    State;
prioritise(Priority, State) ->
    process_flag(priority, Priority),
    State#state{priority = Priority}.

ended(again, closed_by_peer) -> {lost, <<"the peer closed the connection">>};
ended(again, Reason) -> {lost, iolist_to_binary(inet:format_error(Reason))};
ended(End, _) -> End.

%% On a crowded node the first turn of a body comes ahead of others, as the reader's does.
turn(_, #state{priority = normal} = State) ->
    {in_order, State};
turn(Messages, #state{turns = {Left, At}} = State) ->
    Now = erlang:monotonic_time(millisecond),
    case min(?TURNS_AT_ONCE, Left + (Now - At) * ?TURNS_PER_MS) - length(Messages) of
        Rest when Rest >= 0 -> {ahead, State#state{turns = {Rest, Now}}};
        _ -> {in_order, State}
    end.

deliver([[To | Message] | Rest], How) ->
    To ! Message,
    deliver(Rest, How);
deliver([{call, Call, Request} | Rest], {Shard, Turn} = How) ->
    hawser_body:start_call(Turn, term, Request, Shard, Call),
    deliver(Rest, How);
deliver([{cast, Request} | Rest], {Shard, Turn} = How) ->
    _ = hawser_body:start_cast(Turn, term, Request) orelse hawser_nif:cast_refused(Shard),
    deliver(Rest, How);
deliver([{call_plain, Call, Plain} | Rest], {Shard, Turn} = How) ->
    hawser_body:start_call(Turn, plain, Plain, Shard, Call),
    deliver(Rest, How);
deliver([{cast_plain, Plain} | Rest], {Shard, Turn} = How) ->
    _ = hawser_body:start_cast(Turn, plain, Plain) orelse hawser_nif:cast_refused(Shard),
    deliver(Rest, How);
deliver([{answer_plain, Alias, Plain} | Rest], How) ->
    deliver_plain(Alias, fun(Outcome) -> {Alias, Outcome} end, Plain, Rest, How);
deliver([{To, Plain} | Rest], How) ->
    deliver_plain(To, fun(Message) -> Message end, Plain, Rest, How);
deliver([], _How) ->
    ok.

deliver_plain(To, Wrap, Plain, Rest, How) ->
    try binary_to_term(Plain, [used]) of
        {Term, Used} when Used =:= byte_size(Plain) ->
            To ! Wrap(Term),
            deliver(Rest, How);
        {_, _} ->
            {malformed, <<"bytes behind a plain term">>}
    catch
        error:badarg -> {malformed, <<"a plain term that the VM does not take">>}
    end.

%% The owner ends this process when it has heard all of the session's readers.
-spec finish(term(), #state{}) -> no_return().
finish(End, #state{index = Index, owner = Owner}) ->
    Owner ! {?MODULE, Index, End},
    receive after infinity -> exit(normal) end.
