%% Owner of everything with one remote node: asks it for a session or answers
%% its wish, opens the session, beats its heart, and ends it. Started by
%% hawser_directory through hawser_peer_sup; ends itself when the node is gone
%% and no session is left. Never connects distribution, except for an await.
%%
%%   absent      no session; waiting for the node to move
%%   connecting  an await asked for it: distribution is being connected
%%   announcing  asking the node to invite us
%%   inviting    asking the node for its address and a secret
%%   dialing     our sockets are being made and authenticated
%%   invited     the node has address and secret; waiting for its sockets
%%   up          the session is live
%%   draining    orderly end: what is queued goes out, each side says it is done
%%   closing     broken: what has arrived is still delivered, for a moment
%%   backoff     a pause before the next attempt
%%   held        ended on purpose: an await, a nodeup or the node's wish ends it
-module(hawser_peer).
-behaviour(gen_statem).

-export([start_link/3, tell/2]).
-export([init/1, callback_mode/0, terminate/3]).
-export([absent/3, connecting/3, announcing/3, inviting/3, dialing/3, invited/3]).
-export([up/3, draining/3, closing/3, backoff/3, held/3]).

-export_type([message/0]).

%% From hawser_directory.
-type message() ::
    {invite, hawser_invitation:from(), hawser_invitation:wish()}
    | {your_turn, hawser_invitation:party()}
    | {await, gen_server:from(), TimeoutMs :: non_neg_integer()}
    | {disconnect, gen_server:from()}
    | {nodeup, visible | hidden}
    | nodedown
    | {stop, Reason :: atom(), LimitMs :: non_neg_integer()}
    | {cut, Reason :: atom()}.

-record(peer, {
    node :: node(),
    local :: hawser_invitation:party(),
    connected :: none | visible | hidden,
    %% The last party that the node was known to be.
    remote = none :: none | hawser_invitation:party(),
    attempt = none :: none | hawser_attempt:attempt(),
    connector = none :: none | pid(),
    live = none :: none | hawser_session:live(),
    redial :: hawser_redial:redial(),
    %% When the last attempt began.
    pursued = never :: never | integer(),
    waiting = [] :: [gen_server:from()],
    %% Of the session that ends: who asked, why, and what comes after it.
    leaving = [] :: [gen_server:from()],
    reason = none :: term(),
    next = retry :: absent | retry | held | stop,
    %% Why the last attempt failed or the last session ended.
    last = none :: term()
}).

-define(CLOSING_MS, 1000).
-define(GRACE_MS, 1000).
-define(AGAIN_MS, 200).

-define(IS_ATTEMPT(State),
    State =:= announcing; State =:= inviting; State =:= dialing; State =:= invited).

-spec start_link(node(), hawser_invitation:party(), none | visible | hidden) -> 
    {ok, pid()} | {error, term()} | ignore.
start_link(Node, Local, Connected) ->
    gen_statem:start_link(?MODULE, {Node, Local, Connected}, []).

-spec tell(pid(), message()) -> ok.
tell(Pid, Message) ->
    gen_statem:cast(Pid, Message).

-spec callback_mode() -> state_functions.
callback_mode() ->
    state_functions.

-spec init({node(), hawser_invitation:party(), none | visible | hidden}) -> {ok, absent, #peer{}}.
init({Node, {Name, _, _} = Local, Connected}) ->
    process_flag(trap_exit, true),
    process_flag(priority, high),
    Redial = hawser_redial:new(Name, Node),
    {next_state, absent, Data} =
        enter(absent, #peer{node = Node, local = Local, connected = Connected, redial = Redial}),
    {ok, absent, Data}.

%% ---- without a session ----

absent(state_timeout, patience, Data) -> pursue(Data);
absent(Type, Event, Data) -> unbound(Type, Event, absent, Data).

backoff(state_timeout, again, Data) -> pursue(Data);
backoff(Type, Event, Data) -> unbound(Type, Event, backoff, Data).

held(Type, Event, Data) -> unbound(Type, Event, held, Data).

announcing(Type, Event, Data) -> unbound(Type, Event, announcing, Data).

%% The request may have met a hawser that has ended since; one that announces
%% itself meanwhile is looked at when the answer, or none, is there.
inviting(cast, {your_turn, _}, _) -> {keep_state_and_data, postpone};
inviting(Type, Event, Data) -> unbound(Type, Event, inviting, Data).

dialing(Type, Event, Data) -> unbound(Type, Event, dialing, Data).

invited(Type, Event, Data) -> unbound(Type, Event, invited, Data).

%% The nodeup follows when the connector succeeds.
connecting(info, {connected, Pid, true}, #peer{connector = Pid} = Data) ->
    {keep_state, Data#peer{connector = none}};
connecting(info, {connected, Pid, _}, #peer{connector = Pid} = Data) ->
    gone(Data#peer{connector = none});
connecting(info, {'EXIT', Pid, _}, #peer{connector = Pid} = Data) ->
    gone(Data#peer{connector = none});
connecting({timeout, {await, From}}, late, Data) ->
    case late(From, Data) of
        #peer{waiting = []} = Nobody -> gone(Nobody);
        Some -> {keep_state, Some}
    end;
connecting(Type, Event, Data) ->
    unbound(Type, Event, connecting, Data).

%% What means the same in every state without a session.
unbound(info, Message, State, #peer{attempt = Attempt} = Data) when ?IS_ATTEMPT(State) ->
    judged(hawser_attempt:heard(Message, Attempt), Data);
unbound(state_timeout, late, State, #peer{attempt = Attempt} = Data) when ?IS_ATTEMPT(State) ->
    case hawser_attempt:late(Attempt) of
        unanswered -> {keep_state, answer_waiting({error, timeout}, Data)};
        Verdict -> judged(Verdict, given_up(Data))
    end;
unbound(cast, {invite, From, Wish}, State, #peer{redial = Redial} = Data) ->
    case (State =:= inviting orelse State =:= dialing) andalso hawser_redial:is_first(Redial) of
        true -> hawser_invitation:reply(From, {error, dialing}), keep_state_and_data;
        false -> accept(From, Wish, given_up(Data))
    end;
unbound(cast, {your_turn, Party}, State, #peer{remote = Party}) when State =:= dialing; State =:= backoff ->
    keep_state_and_data;
unbound(cast, {your_turn, Party}, _, #peer{remote = Remote, redial = Redial} = Data) ->
    Asked = hawser_redial:asked(case Party of Remote -> Redial; _ -> hawser_redial:met_anew(Redial) end),
    pause((given_up(Data))#peer{remote = Party, redial = Asked});
unbound(cast, {nodeup, Type}, State, Data) ->
    Up = Data#peer{connected = Type},
    case State =:= absent orelse State =:= connecting orelse State =:= held of
        true -> pursue(given_up(Up));
        false -> {keep_state, Up}
    end;
unbound(cast, {await, From, Ms}, State, #peer{waiting = Waiting} = Data) ->
    Waits = Data#peer{waiting = [From | Waiting]},
    with_timer({{timeout, {await, From}}, Ms, late},
        case State of
            absent when Waits#peer.connected =:= none -> connect(Waits);
            absent -> pursue_again(Waits);
            _ when State =:= held; State =:= backoff -> pursue(Waits);
            _ -> {next_state, State, Waits}
        end);
unbound({timeout, {await, From}}, late, _, Data) ->
    {keep_state, late(From, Data)};
unbound(cast, {disconnect, From}, _, Data) ->
    gen_server:reply(From, ok),
    enter(held, answer_waiting({error, noconnection}, given_up(Data)));
unbound(cast, Gone, _, Data)
  when Gone =:= nodedown; element(1, Gone) =:= stop; element(1, Gone) =:= cut ->
    gone(Data);
unbound(_, _, _, _) ->
    keep_state_and_data.

with_timer(Timer, {next_state, State, Data}) -> {next_state, State, Data, [Timer]};
with_timer(Timer, {next_state, State, Data, Actions}) -> {next_state, State, Data, [Timer | Actions]};
with_timer(_, {stop, _, _} = Stop) -> Stop.

%% ---- towards a session ----

pursue(#peer{redial = Redial} = Data) ->
    Begun = Data#peer{pursued = erlang:monotonic_time(millisecond)},
    case hawser_redial:is_ours(Redial) of
        true -> begun(inviting, hawser_attempt:invite(place(Begun)), Begun);
        false -> begun(announcing, hawser_attempt:announce(place(Begun)), Begun)
    end.

%% However many wait, one after the other, the node is asked, or told that it is
%% its turn, so often and no more.
pursue_again(#peer{pursued = never} = Data) ->
    pursue(Data);
pursue_again(#peer{pursued = Last} = Data) ->
    case Last + ?AGAIN_MS - erlang:monotonic_time(millisecond) of
        Soon when Soon > 0 -> {next_state, absent, Data, [{state_timeout, Soon, patience}]};
        _ -> pursue(Data)
    end.

begun(State, {ok, Attempt}, Data) ->
    enter(State, Data#peer{attempt = Attempt}, connect_timeout_ms(), late);
begun(_, {error, noconnection}, Data) ->
    judged({refused, noconnection}, Data).

accept(From, Wish, #peer{} = Data) ->
    ValidMs = 2 * connect_timeout_ms(),
    case hawser_attempt:accept({From, Wish}, place(Data), ValidMs) of
        {ok, Attempt} -> enter(invited, with_attempt(Attempt, Data), ValidMs + ?GRACE_MS, late);
        {error, Reason} -> enter(absent, Data#peer{last = Reason})
    end.

judged(other, _) ->
    keep_state_and_data;
judged({dialing, Attempt}, Data) ->
    enter(dialing, with_attempt(Attempt, Data), connect_timeout_ms() + ?GRACE_MS, late);
judged({established, Remote, Terms, Sockets}, Data) ->
    open(Remote, Terms, Sockets, Data#peer{attempt = none});
judged({failed, Reason}, Data) ->
    failed(Reason, Data#peer{attempt = none});
judged(announced, Data) ->
    enter(absent, Data#peer{attempt = none}, patience_ms(), patience);
judged({refused, Refusal}, #peer{redial = Redial} = Data) ->
    Refused = Data#peer{attempt = none, redial = hawser_redial:refused(Redial), last = Refusal},
    case Refusal of
        dialing -> enter(absent, Refused, patience_ms(), patience);
        _ -> enter(absent, answer_waiting({error, Refusal}, Refused))
    end.

open(Remote, #{shards := Shards} = Terms, Sockets, #peer{node = Node, local = Local, redial = Redial} = Data) ->
    case hawser_session:open(Node, {Local, Remote}, Terms, Sockets) of
        {ok, Live} ->
            hawser_report:session_up(Node, Shards),
            Up = answer_waiting(ok, Data#peer{live = Live, redial = hawser_redial:up(Redial)}),
            with_timer(heartbeat(Up), enter(up, Up));
        {error, Reason} ->
            failed(Reason, Data)
    end.

%% The side that dials pauses and tries again, and now and then lets the other
%% side try; the other side tells when it could not.
failed(Reason, #peer{node = Node, redial = Redial} = Data) ->
    {Next, Counted} = hawser_redial:failed(Redial),
    hawser_report:attempt_failed(Node, hawser_redial:attempts(Counted), Reason),
    Failed = Data#peer{redial = Counted, last = Reason},
    case Next of
        again -> pause(Failed);
        other_side -> begun(announcing, hawser_attempt:announce(place(Failed)), Failed)
    end.

pause(#peer{redial = Redial} = Data) ->
    case hawser_redial:pause_ms(Redial) of
        0 -> pursue(Data);
        Ms -> enter(backoff, Data, Ms, again)
    end.

%% A process of its own connects distribution, no longer than somebody waits.
connect(#peer{node = Node} = Data) ->
    case application:get_env(kernel, dist_auto_connect) of
        {ok, never} ->
            gone(Data);
        _ ->
            Owner = self(),
            Connector = spawn_link(fun() -> Owner ! {connected, self(), net_kernel:connect_node(Node)} end),
            enter(connecting, Data#peer{connector = Connector})
    end.

given_up(#peer{attempt = Attempt, connector = Connector} = Data) ->
    _ = [hawser_attempt:abandon(Attempt) || Attempt =/= none],
    _ = [exit(Connector, kill) || Connector =/= none],
    Data#peer{attempt = none, connector = none}.

gone(Data) ->
    {stop, normal, answer_waiting({error, noconnection}, given_up(Data))}.

%% ---- with a session ----

up({timeout, heartbeat}, tick, #peer{live = Live} = Data) ->
    case hawser_session:tick(Live) of
        ok -> {keep_state_and_data, [heartbeat(Data)]};
        {dead, Why} -> ended(Data#peer{reason = Why, next = retry})
    end;
up(cast, {invite, _, _}, Data) ->
    postponing(break(peer_redialed, absent, Data));
up(cast, {your_turn, Party}, #peer{remote = Party}) ->
    keep_state_and_data;
up(cast, {your_turn, Party}, Data) ->
    break(peer_restarted, retry, Data#peer{remote = Party});
up(cast, {await, From, _}, _) ->
    gen_server:reply(From, ok),
    keep_state_and_data;
up(cast, {disconnect, From}, Data) ->
    drain(disconnected, held, hawser_config:get(drain_timeout_ms), Data#peer{leaving = [From]});
up(cast, {stop, Reason, LimitMs}, Data) ->
    drain(Reason, stop, LimitMs, Data);
up(Type, Event, Data) ->
    bound(Type, Event, up, Data).

draining({timeout, heartbeat}, tick, #peer{live = Live} = Data) ->
    _ = hawser_session:tick(Live),
    {keep_state_and_data, [heartbeat(Data)]};
draining(state_timeout, late, #peer{reason = Reason} = Data) ->
    ended(Data#peer{reason = {Reason, not_drained}});
draining(cast, {invite, _, _}, #peer{reason = Reason} = Data) ->
    postponing(break(Reason, absent, Data));
draining(cast, {stop, Reason, LimitMs}, Data) ->
    {keep_state, Data#peer{reason = Reason, next = stop}, [{state_timeout, LimitMs, late}]};
draining(Type, Event, Data) ->
    bound(Type, Event, draining, Data).

closing(state_timeout, late, Data) ->
    ended(Data);
closing(cast, {invite, _, _}, #peer{next = Next} = Data) ->
    {keep_state, Data#peer{next = case Next of stop -> stop; _ -> absent end}, [postpone]};
closing(cast, {stop, _, _}, Data) ->
    {keep_state, Data#peer{next = stop}};
closing(Type, Event, Data) ->
    bound(Type, Event, closing, Data).

%% What means the same in every state with a session.
bound(info, Message, State, #peer{live = Live} = Data) ->
    case hawser_session:heard(Message, Live) of
        other -> keep_state_and_data;
        {Event, Changed} -> session(Event, State, Data#peer{live = Changed})
    end;
bound(cast, {nodeup, Type}, _, Data) ->
    {keep_state, Data#peer{connected = Type}};
bound(cast, nodedown, _, Data) ->
    {keep_state, Data#peer{connected = none}};
bound(cast, {cut, Reason}, _, Data) ->
    ended(Data#peer{reason = Reason, next = stop});
bound(cast, {disconnect, From}, _, #peer{leaving = Leaving, next = Next} = Data) ->
    {keep_state, Data#peer{leaving = [From | Leaving], next = case Next of stop -> stop; _ -> held end}};
bound(cast, _, _, _) ->
    {keep_state_and_data, [postpone]};
bound(_, _, _, _) ->
    keep_state_and_data.

session({died, Who}, _, Data) ->
    ended(Data#peer{reason = {died, Who}, next = after_break(Data)});
session({malformed, What}, _, Data) ->
    ended(Data#peer{reason = {malformed, What}, next = after_break(Data)});
session({lost, What}, up, Data) ->
    break({lost, What}, retry, Data);
session({lost, _}, draining, #peer{reason = Reason, next = Next} = Data) ->
    break(Reason, Next, Data);
session({closed, Index}, up, #peer{live = Live} = Data) ->
    ok = hawser_session:withdraw(Live),
    ok = hawser_session:finish(Index, Live),
    Draining = Data#peer{reason = peer_closed, next = held},
    enter(draining, Draining, hawser_config:get(drain_timeout_ms), late);
session({closed, Index}, draining, #peer{live = Live} = Data) ->
    ok = hawser_session:finish(Index, Live),
    session(finished, draining, Data);
session(_, draining, #peer{live = Live} = Data) ->
    case hawser_session:all_done(Live) of true -> ended(Data); false -> {keep_state, Data} end;
session(_, closing, #peer{live = Live} = Data) ->
    case hawser_session:all_read(Live) of true -> ended(Data); false -> {keep_state, Data} end;
session(_, up, Data) ->
    {keep_state, Data}.

%% An end that was wanted stays wanted when it does not go smoothly.
after_break(#peer{reason = none}) -> retry;
after_break(#peer{next = Next}) -> Next.

drain(Reason, Next, LimitMs, #peer{live = Live} = Data) ->
    ok = hawser_session:withdraw(Live),
    ok = hawser_session:finish(Live),
    enter(draining, Data#peer{reason = Reason, next = Next}, LimitMs, late).

break(Reason, Next, #peer{live = Live} = Data) ->
    ok = hawser_session:withdraw(Live),
    Broken = Data#peer{reason = Reason, next = Next},
    case hawser_session:all_read(Live) of
        true -> ended(Broken);
        false -> enter(closing, Broken, ?CLOSING_MS, late)
    end.

postponing({next_state, State, Data, Actions}) -> {next_state, State, Data, [postpone | Actions]};
postponing({next_state, State, Data}) -> {next_state, State, Data, [postpone]};
postponing({stop, _, _} = Stop) -> Stop.

ended(#peer{node = Node, live = Live, reason = Reason, leaving = Leaving, redial = Redial, next = Next} = Data) ->
    Counts = hawser_session:close(Live),
    hawser_report:session_ended(Node, Reason, Counts),
    lists:foreach(fun(From) -> gen_server:reply(From, ok) end, Leaving),
    Counted = hawser_redial:ended(hawser_session:age_ms(Live), Redial),
    after_session(Next, Data#peer{live = none, leaving = [], reason = none, last = Reason, redial = Counted}).

after_session(stop, Data) -> gone(Data);
after_session(_, #peer{connected = none} = Data) -> gone(Data);
after_session(held, #peer{redial = Redial} = Data) -> enter(held, Data#peer{redial = hawser_redial:rested(Redial)});
after_session(absent, Data) -> enter(absent, Data);
after_session(retry, #peer{redial = Redial} = Data) ->
    case hawser_redial:is_first(Redial) of
        true -> pause(Data);
        false -> enter(absent, Data, patience_ms(), patience)
    end.

-spec terminate(term(), atom(), #peer{}) -> ok.
terminate(_, _, #peer{node = Node, live = Live, reason = Reason}) when Live =/= none ->
    hawser_report:session_ended(Node, case Reason of none -> stopped; _ -> Reason end, hawser_session:close(Live));
terminate(_, _, Data) ->
    _ = given_up(Data),
    ok.

%% ---- small things ----

enter(State, #peer{node = Node, live = Live} = Data) ->
    Session = case Live of none -> none; _ -> hawser_session:handle(Live) end,
    ok = hawser_directory:note(Node, State, Session, details(Data)),
    {next_state, State, Data}.

enter(State, Data, LimitMs, Content) ->
    {next_state, State, Entered} = enter(State, Data),
    {next_state, State, Entered, [{state_timeout, LimitMs, Content}]}.

details(#peer{redial = Redial, last = Last, connected = Connected}) ->
    #{attempts => hawser_redial:attempts(Redial), last => Last, connected => Connected}.

place(#peer{node = Node, connected = Connected, local = Local}) ->
    {Node, Connected, Local}.

with_attempt(Attempt, Data) ->
    Data#peer{attempt = Attempt, remote = hawser_attempt:remote(Attempt)}.

answer_waiting(Answer, #peer{waiting = Waiting} = Data) ->
    lists:foreach(fun(From) -> gen_server:reply(From, Answer) end, Waiting),
    Data#peer{waiting = []}.

late(From, #peer{waiting = Waiting} = Data) ->
    _ = [gen_server:reply(From, {error, timeout}) || lists:member(From, Waiting)],
    Data#peer{waiting = lists:delete(From, Waiting)}.

heartbeat(#peer{live = Live}) ->
    #{heartbeat_interval_ms := Interval} = hawser_session:terms(Live),
    {{timeout, heartbeat}, Interval, tick}.

%% How long the other side may take to dial before it is asked (again).
patience_ms() ->
    4 * connect_timeout_ms().

connect_timeout_ms() ->
    hawser_config:get(connect_timeout_ms).
