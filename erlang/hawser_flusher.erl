%% @private
%% @doc Writes one shard's queue into its socket, for the life of the session.
%%
%% Woken by one word from the push that finds the queue empty and does not write by itself, and by the VM when the socket
%% takes bytes again. Keeps the callers that wait for room, in the order they came, and wakes as many as there is room
%% for; while somebody waits, a push that writes by itself wakes it too. It never reads the socket, never decides about
%% the session, and never waits for anybody: what it finds it tells the session's owner.
-module(hawser_flusher).

-export([start_link/2]).
-export([init/3, loop/1]).

%% Bytes of room for which one waiting caller is woken, and how many at once at the most.
-define(ROOM_PER_CALLER, 32768).
-define(CALLERS_AT_ONCE, 64).
-define(RECHECK_MS, 5).

-record(state, {
    shard :: hawser_nif:shard(),
    index :: non_neg_integer(),
    owner :: pid(),
    %% Told the owner that the shard is finished or lost.
    told = false :: boolean(),
    %% A hawser_recheck is on its way.
    recheck = false :: boolean(),
    priority = normal :: normal | high,
    waiting = queue:new() :: queue:queue(reference())
}).

-spec start_link(hawser_nif:shard(), Index :: non_neg_integer()) -> {ok, pid()}.
start_link(Shard, Index) ->
    Pid = spawn_opt(?MODULE, init, [Shard, Index, self()], [
        link, {priority, normal}, {message_queue_data, off_heap}, {fullsweep_after, 10}
    ]),
    {ok, Pid}.

-spec init(hawser_nif:shard(), non_neg_integer(), Owner :: pid()) -> no_return().
init(Shard, Index, Owner) ->
    loop(#state{shard = Shard, index = Index, owner = Owner}).

-spec loop(#state{}) -> no_return().
loop(State) ->
    receive
        hawser_flush ->
            flush(State);
        {wait, Alias, Place} when is_reference(Alias) ->
            Waiting = enqueue(Alias, Place, State#state.waiting),
            loop(wake_on(State#state{waiting = Waiting}));
        hawser_recheck ->
            %% The last group brought nothing in all that time: a whole large one has its turn, whatever the room.
            flush(wake(eager(State), State#state{recheck = false}));
        hawser_idle ->
            erlang:hibernate(?MODULE, loop, [State])
    end.

%% A caller that was woken and found no room keeps its place in front.
enqueue(Alias, last, Waiting) -> queue:in(Alias, Waiting);
enqueue(Alias, first, Waiting) -> queue:in_r(Alias, Waiting).

flush(#state{shard = Shard} = State0) ->
    case hawser_nif:flush(Shard) of
        idle ->
            loop(pace(wake_on(State0)));
        more ->
            State = hurry(wake(State0)),
            erlang:yield(),
            flush(State);
        wait ->
            loop(wake(State0));
        finished ->
            loop(tell(finished, State0));
        {lost, _} = Lost ->
            loop(tell(Lost, State0))
    end.

%% The priority follows the backlog, and the node. Normal makes the batches large: whoever is ready to run adds to them
%% first. But on a node whose schedulers are all taken, a flusher that waits its turn while callers wait for it would
%% make each of them wait for two. What it does at high priority the pushes of others bound.
pace(#state{waiting = Waiting} = State) ->
    ok = hawser_pulse:beat(),
    case queue:is_empty(Waiting) andalso not hawser_pulse:crowded() of
        true -> prioritise(normal, State);
        false -> prioritise(high, State)
    end.

hurry(State) ->
    prioritise(high, State).

prioritise(Priority, #state{priority = Priority} = State) ->
    State;
prioritise(Priority, State) ->
    process_flag(priority, Priority),
    State#state{priority = Priority}.

tell(_What, #state{told = true} = State) ->
    State;
tell(What, #state{owner = Owner, index = Index} = State) ->
    Owner ! {?MODULE, Index, What},
    State#state{told = true}.

%% Wakes a group now and, if that leaves somebody waiting, looks again a little later: as a rule the pushes of the woken
%% ones bring the flusher back before, but they may all have died.
wake_on(State) ->
    Callers = callers(State),
    #state{waiting = Waiting, recheck = Recheck} = Woken = wake(Callers, State),
    case Callers > 0 andalso not Recheck andalso not queue:is_empty(Waiting) of
        true ->
            _ = erlang:send_after(?RECHECK_MS, self(), hawser_recheck),
            Woken#state{recheck = true};
        false ->
            Woken
    end.

wake(State) ->
    wake(callers(State), State).

wake(Callers, #state{waiting = Waiting} = State) ->
    State#state{waiting = woken(Callers, Waiting)}.

eager(#state{shard = Shard}) ->
    case hawser_nif:shard_room(Shard) of
        0 -> 0;
        _ -> ?CALLERS_AT_ONCE
    end.

%% How many of those who wait there is room for.
callers(#state{shard = Shard, waiting = Waiting}) ->
    case queue:is_empty(Waiting) of
        true -> 0;
        false -> min(hawser_nif:shard_room(Shard) div ?ROOM_PER_CALLER, ?CALLERS_AT_ONCE)
    end.

woken(0, Waiting) ->
    Waiting;
woken(Callers, Waiting0) ->
    case queue:out(Waiting0) of
        {{value, Alias}, Waiting} ->
            Alias ! {Alias, room},
            woken(Callers - 1, Waiting);
        {empty, Waiting} ->
            Waiting
    end.
