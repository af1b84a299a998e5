%% Owner of the native runtime and of the listening port: starts and stops
%% them, empties the runtime's event queue and hands each event to the process
%% that expects it. hawser_app starts it, peers call expect/1 and forget/1.
%% Never decides anything about a peer, never waits for one.
-module(hawser_control).
-behaviour(gen_server).

-export([start_link/0, expect/1, forget/1, listening/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([ticket/0, event/0]).

%% Names an invitation (acceptor) or a dial (dialer).
-type ticket() :: <<_:128>>.

%% What the expecting process gets, once per ticket.
-type event() ::
    {?MODULE, ticket(), {established, dialer | acceptor, Sockets :: [reference()]}}
    | {?MODULE, ticket(), {failed, Reason :: binary()}}.

-define(ADDRESS, {hawser, listening}).

-record(state, {
    expected = #{} :: #{ticket() => {pid(), Monitor :: reference()}}
}).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% The caller gets the ticket's event. Call it before the other side can know the ticket.
-spec expect(ticket()) -> ok.
expect(Ticket) ->
    gen_server:call(?MODULE, {expect, Ticket}, infinity).

%% The ticket is no longer wanted: its sockets are closed, no event comes after this.
-spec forget(ticket()) -> ok.
forget(Ticket) ->
    ok = gen_server:call(?MODULE, {forget, Ticket}, infinity),
    receive {?MODULE, Ticket, _} -> ok after 0 -> ok end.

%% Where the node listens.
-spec listening() -> {Ip :: binary(), inet:port_number()}.
listening() ->
    persistent_term:get(?ADDRESS).

%% ---- gen_server ----

-spec init([]) -> {ok, #state{}} | {stop, {shutdown, {hawser, string()}}}.
init([]) ->
    process_flag(trap_exit, true),
    ok = hawser_nif:dictionary_limit(hawser_config:get(max_dictionary_atoms)),
    Ip = hawser_address:listen_ip(),
    Port = hawser_config:get(port),
    case start_runtime() of
        ok ->
            case hawser_nif:listen(Ip, Port) of
                {ok, Listened} ->
                    persistent_term:put(?ADDRESS, {Ip, Listened}),
                    {ok, #state{}};
                {error, Reason} ->
                    ok = hawser_nif:runtime_stop(),
                    refused(cannot_listen(Ip, Port, Reason))
            end;
        {error, Reason} ->
            refused(sentence("the native runtime does not start: ~ts", [Reason]))
    end.

%% A refusal, not a crash: hawser_app makes it the application's.
refused(Sentence) ->
    {stop, {shutdown, {hawser, Sentence}}}.

%% A predecessor that was killed has left its runtime behind.
start_runtime() ->
    MaxHalfOpen = hawser_config:get(max_half_open),
    case hawser_nif:runtime_start(self(), MaxHalfOpen) of
        {error, already_started} ->
            ok = hawser_nif:runtime_stop(),
            hawser_nif:runtime_start(self(), MaxHalfOpen);
        Other ->
            Other
    end.

cannot_listen(Ip, Port, Reason) ->
    sentence("cannot listen on ~ts, port ~b: ~ts. Set the configuration key `ip` to an address of this"
             " machine and `port` to a free port (0: any free port)", [Ip, Port, Reason]).

sentence(Format, Args) ->
    lists:flatten(io_lib:format(Format, Args)).

-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, ok | {error, badarg}, #state{}}.
handle_call({expect, Ticket}, {Pid, _}, #state{expected = Expected} = State) ->
    Entry = {Pid, monitor(process, Pid)},
    {reply, ok, State#state{expected = Expected#{Ticket => Entry}}};
handle_call({forget, Ticket}, _, State) ->
    ok = hawser_nif:forget(Ticket),
    {_, Rest} = take(Ticket, State),
    {reply, ok, Rest};
handle_call(_, _, State) ->
    {reply, {error, badarg}, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(hawser_events, State) ->
    {noreply, lists:foldl(fun hand_out/2, State, hawser_nif:events())};
handle_info({'DOWN', Monitor, process, _, _}, #state{expected = Expected} = State) ->
    Orphans = [Ticket || {Ticket, {_, M}} <- maps:to_list(Expected), M =:= Monitor],
    lists:foreach(fun hawser_nif:forget/1, Orphans),
    {noreply, State#state{expected = maps:without(Orphans, Expected)}};
handle_info(_, State) ->
    {noreply, State}.

hand_out({established, Ticket, Role, Sockets}, State) ->
    deliver(Ticket, {established, Role, Sockets}, State);
hand_out({failed, Ticket, Reason}, State) ->
    deliver(Ticket, {failed, Reason}, State);
hand_out({log, Level, Text}, State) ->
    logger:log(Level, "hawser: ~ts", [Text], #{domain => [hawser]}),
    State.

deliver(Ticket, What, State) ->
    case take(Ticket, State) of
        {{Pid, _}, Rest} ->
            Pid ! {?MODULE, Ticket, What},
            Rest;
        {none, Rest} ->
            ok = hawser_nif:forget(Ticket),
            Rest
    end.

take(Ticket, #state{expected = Expected} = State) ->
    case maps:take(Ticket, Expected) of
        {{_, Monitor} = Entry, Rest} ->
            demonitor(Monitor, [flush]),
            {Entry, State#state{expected = Rest}};
        error ->
            {none, State}
    end.

-spec terminate(term(), #state{}) -> ok.
terminate(_, _) ->
    _ = persistent_term:erase(?ADDRESS),
    hawser_nif:runtime_stop().
