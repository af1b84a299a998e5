%% Knows the nodes: one per node, registered. Hears of nodes from the kernel,
%% keeps one hawser_peer per node, and takes what other nodes' hawsers ask.
%% hawser calls nodes/0, await/2, disconnect/1, info/0,1; peers call note/4.
%% Never calls another node and never waits for a peer process.
%%
%% The table has a row per peer process, written by that process (note/4) and
%% deleted here when the process is gone; readers take no lock and ask nobody.
-module(hawser_directory).
-behaviour(gen_server).
-compile({no_auto_import, [nodes/0]}).

-export([start_link/0, drain/1, note/4]).
-export([nodes/0, await/2, disconnect/1, info/0, info/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TABLE, ?MODULE).
%% A peer process that crashed is replaced, but not at once.
-define(CRASH_PAUSE_MS, 1000).
%% One await call of many, for a caller that waits for ever.
-define(AWAIT_SLICE_MS, 30000).
%% Longer ones are none for the VM's timers.
-define(MOST_MS, 16#FFFFFFFF).

-record(state, {
    %% undefined: this node is not alive.
    local :: hawser_invitation:party() | undefined,
    connected = #{} :: #{node() => visible | hidden},
    %% leaving: told to end; its node gets a new process when it has.
    peers = #{} :: #{node() => {pid(), running | leaving}},
    %% Set once the application stops: who waits for the peers to end.
    draining = no :: no | {gen_server:from(), Timer :: reference()} | done
}).

%% ---- for hawser_sup, hawser_app and hawser_peer ----

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Ends all sessions, each after what is queued has gone, and accepts no new ones.
-spec drain(LimitMs :: non_neg_integer()) -> ok.
drain(LimitMs) ->
    gen_server:call(?MODULE, {drain, LimitMs}, infinity).

%% Called by Node's peer process: what info/1 and nodes/0 say of it.
-spec note(node(), State :: atom(), hawser_nif:session() | none, map()) -> ok.
note(Node, State, Session, Details) ->
    true = ets:insert(?TABLE, {Node, State, Session, Details}),
    ok.

%% ---- for hawser ----

%% The nodes with a live session.
-spec nodes() -> [node()].
nodes() ->
    case ets:whereis(?TABLE) of
        undefined -> [];
        Table -> ets:select(Table, [{{'$1', up, '_', '_'}, [], ['$1']}])
    end.

%% Waits until a session with Node is up; connects to Node if need be, unless
%% the kernel's dist_auto_connect is `never`. notsup: Node runs no hawser.
-spec await(node(), timeout()) -> ok | {error, timeout | notsup | noconnection}.
await(Node, infinity) when is_atom(Node) ->
    case await(Node, ?AWAIT_SLICE_MS) of
        {error, timeout} -> await(Node, infinity);
        Other -> Other
    end;
await(Node, TimeoutMs) when is_atom(Node), is_integer(TimeoutMs), TimeoutMs >= 0, TimeoutMs =< ?MOST_MS ->
    case Node =:= node() orelse state_of(Node) =:= up of
        true -> ok;
        false -> ask({await, Node, TimeoutMs}, TimeoutMs, timeout)
    end;
await(Node, TimeoutMs) ->
    error(badarg, [Node, TimeoutMs]).

%% Ends the session with Node once what is queued has gone, within
%% drain_timeout_ms; it comes back by await/2, by a nodeup, or by the peer's wish.
-spec disconnect(node()) -> ok.
disconnect(Node) when is_atom(Node) ->
    case ask({disconnect, Node}, infinity, ok) of
        ok -> ok;
        {error, noconnection} -> ok
    end;
disconnect(Node) ->
    error(badarg, [Node]).

ask(Question, TimeoutMs, Late) ->
    try
        gen_server:call(?MODULE, Question, TimeoutMs)
    catch
        exit:{timeout, _} -> {error, Late};
        exit:{_, {gen_server, call, _}} -> {error, noconnection}
    end.

state_of(Node) ->
    try
        ets:lookup_element(?TABLE, Node, 2)
    catch
        error:badarg -> none
    end.

%% This node, the state of every peer, and what went over all its sessions.
%% Asks no process.
-spec info() -> #{node := node(), alive := boolean(), incarnation := binary() | undefined,
                  listening := {binary(), inet:port_number()} | undefined,
                  peers := #{node() => atom()}, totals := hawser_totals:totals()}.
info() ->
    Running = ets:whereis(?TABLE) =/= undefined,
    #{
        node => node(),
        alive => is_alive(),
        listening => case Running of true -> hawser_control:listening(); false -> undefined end,
        incarnation => case Running of true -> hawser_nif:incarnation(); false -> undefined end,
        peers => case Running of
            true -> maps:from_list(ets:select(?TABLE, [{{'$1', '$2', '_', '_'}, [], [{{'$1', '$2'}}]}]));
            false -> #{}
        end,
        totals => hawser_totals:read()
    }.

%% What is known of Node: `state`, what led to it, and the session's counters.
-spec info(node()) -> #{node := node(), state := atom(), session => map(), atom() => term()}.
info(Node) when is_atom(Node) ->
    Rows = case ets:whereis(?TABLE) of undefined -> []; Table -> ets:lookup(Table, Node) end,
    case Rows of
        [{_, State, none, Details}] -> Details#{node => Node, state => State};
        [{_, State, Session, Details}] ->
            Details#{node => Node, state => State, session => hawser_nif:session_info(Session)};
        [] -> #{node => Node, state => none}
    end;
info(Node) ->
    error(badarg, [Node]).

%% ---- gen_server ----

-spec init([]) -> {ok, #state{}}.
init([]) ->
    process_flag(priority, high),
    ?TABLE = ets:new(?TABLE, [named_table, public, {read_concurrency, true}]),
    ok = hawser_totals:new(),
    ok = net_kernel:monitor_nodes(true, [{node_type, all}]),
    case is_alive() of
        true -> {ok, come_up(#state{})};
        false -> {ok, #state{}}
    end.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {noreply, #state{}} | {reply, ok | {error, atom()}, #state{}}.
handle_call({Request, _, _} = Asked, {Pid, _} = From, State)
  when Request =:= invite orelse Request =:= your_turn, is_pid(Pid) ->
    {noreply, asked(Asked, From, node(Pid), State)};
handle_call({await, Node, TimeoutMs}, From, State) ->
    wanted(Node, {await, From, TimeoutMs}, State);
handle_call({disconnect, Node}, From, #state{peers = Peers} = State) ->
    case Peers of
        #{Node := {Pid, running}} ->
            hawser_peer:tell(Pid, {disconnect, From}),
            {noreply, State};
        _ ->
            {reply, ok, State}
    end;
handle_call({drain, LimitMs}, From, #state{draining = no, peers = Peers} = State) ->
    _ = [hawser_peer:tell(Pid, {stop, application_stopped, LimitMs}) || {Pid, _} <- maps:values(Peers)],
    Timer = erlang:start_timer(LimitMs + 1000, self(), drained),
    {noreply, drained(State#state{draining = {From, Timer}, peers = leaving(Peers)})};
handle_call(_, _, State) ->
    {reply, {error, badarg}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({nodeup, Node, _}, State) when Node =:= node() ->
    {noreply, come_up(State)};
handle_info({nodeup, Node, Info}, State) ->
    {noreply, node_up(Node, proplists:get_value(node_type, Info), State)};
handle_info({nodedown, Node, _}, #state{local = {Name, _, _}} = State) ->
    case atom_to_binary(Node) of
        Name -> {noreply, come_down(State)};
        _ -> {noreply, node_down(Node, State)}
    end;
handle_info({'DOWN', _, process, Pid, Why}, State) ->
    {noreply, peer_gone(Pid, Why, State)};
handle_info({timeout, Timer, drained}, #state{draining = {From, Timer}} = State) ->
    gen_server:reply(From, ok),
    {noreply, State#state{draining = done}};
handle_info({timeout, _, {replace, Node}}, State) ->
    {noreply, replaced(Node, State)};
handle_info(_, State) ->
    {noreply, State}.

%% ---- this node gets and loses its name ----

come_up(#state{} = State) ->
    Local = {atom_to_binary(node()), erlang:system_info(creation), hawser_nif:incarnation()},
    Connected = [{Node, visible} || Node <- erlang:nodes(visible)] ++ [{Node, hidden} || Node <- erlang:nodes(hidden)],
    lists:foldl(fun({Node, Type}, S) -> node_up(Node, Type, S) end, State#state{local = Local}, Connected).

come_down(#state{peers = Peers} = State) ->
    _ = [hawser_peer:tell(Pid, {cut, local_node_down}) || {Pid, _} <- maps:values(Peers)],
    State#state{local = undefined, connected = #{}, peers = leaving(Peers)}.

leaving(Peers) ->
    maps:map(fun(_, {Pid, _}) -> {Pid, leaving} end, Peers).

%% ---- other nodes come and go ----

node_up(Node, Type, #state{connected = Connected, peers = Peers} = State) ->
    Up = State#state{connected = Connected#{Node => Type}},
    case Peers of
        #{Node := {Pid, running}} -> hawser_peer:tell(Pid, {nodeup, Type}), Up;
        #{Node := {_, leaving}} -> Up;
        _ -> first_word(Node, Type, Up)
    end.

first_word(Node, Type, State) ->
    case speaks_first(Type) of
        true -> start_peer(Node, Type, State);
        false -> State
    end.

%% A hidden node may be a C node, which a message that it does not expect can
%% break (erl_call fails). A BEAM node that is hidden itself announces itself.
speaks_first(visible) -> true;
speaks_first(hidden) -> init:get_argument(hidden) =/= error.

node_down(Node, #state{connected = Connected, peers = Peers} = State) ->
    case Peers of
        #{Node := {Pid, _}} -> hawser_peer:tell(Pid, nodedown);
        _ -> ok
    end,
    State#state{connected = maps:remove(Node, Connected)}.

start_peer(Node, Type, State) ->
    case ensure_peer(Node, State) of
        {ok, Pid, Started} -> hawser_peer:tell(Pid, {nodeup, Type}), Started;
        {error, _} -> State
    end.

ensure_peer(_, #state{local = undefined}) ->
    {error, noconnection};
ensure_peer(_, #state{draining = Draining}) when Draining =/= no ->
    {error, noconnection};
ensure_peer(Node, #state{local = Local, connected = Connected, peers = Peers} = State) ->
    case Peers of
        #{Node := {Pid, running}} ->
            {ok, Pid, State};
        #{Node := {_, leaving}} ->
            {error, leaving};
        _ ->
            Type = maps:get(Node, Connected, none),
            {ok, Pid} = hawser_peer_sup:start_peer(Node, Local, Type),
            _ = monitor(process, Pid),
            {ok, Pid, State#state{peers = Peers#{Node => {Pid, running}}}}
    end.

%% The row goes before a new process for the node can write its own.
peer_gone(Pid, Why, #state{peers = Peers} = State) ->
    case [Node || {Node, {P, _}} <- maps:to_list(Peers), P =:= Pid] of
        [Node] ->
            close_left_over(Node),
            ok = hawser_totals:forget(Node),
            true = ets:delete(?TABLE, Node),
            Gone = State#state{peers = maps:remove(Node, Peers)},
            case Why of
                normal -> drained(replaced(Node, Gone));
                _ -> erlang:start_timer(?CRASH_PAUSE_MS, self(), {replace, Node}), drained(Gone)
            end;
        [] ->
            State
    end.

%% Of a peer process that was killed; closing twice does no harm.
close_left_over(Node) ->
    case ets:lookup(?TABLE, Node) of
        [{_, _, Session, _}] when Session =/= none -> hawser_session:cut(Session);
        _ -> ok
    end.

replaced(Node, #state{connected = Connected} = State) ->
    case Connected of
        #{Node := Type} -> first_word(Node, Type, State);
        _ -> State
    end.

drained(#state{draining = {From, Timer}, peers = Peers} = State) when map_size(Peers) =:= 0 ->
    _ = erlang:cancel_timer(Timer),
    gen_server:reply(From, ok),
    State#state{draining = done};
drained(State) ->
    State.

%% ---- what is asked ----

%% By a process of another node; a wish is answered by the peer process.
asked(_, From, Node, State) when Node =:= node() ->
    gen_server:reply(From, {error, bad_invitation}),
    State;
asked(Request, From, Node, State) ->
    case hawser_invitation:checked(Request, Node) of
        {ok, Asked} ->
            asked_well(Asked, From, ensure_peer(Node, State), State);
        {error, Reason} ->
            hawser_invitation:reply(From, {error, Reason}),
            State
    end.

asked_well(#{} = Wish, From, {ok, Pid, Known}, _) ->
    hawser_peer:tell(Pid, {invite, From, Wish}),
    Known;
asked_well(Party, From, {ok, Pid, Known}, _) ->
    hawser_invitation:reply(From, ok),
    hawser_peer:tell(Pid, {your_turn, Party}),
    Known;
asked_well(_, From, {error, Reason}, State) ->
    hawser_invitation:reply(From, {error, Reason}),
    State.

%% By a process of this node.
wanted(Node, Message, State) ->
    case ensure_peer(Node, State) of
        {ok, Pid, Known} -> hawser_peer:tell(Pid, Message), {noreply, Known};
        {error, _} -> {reply, {error, noconnection}, State}
    end.
