%% @doc Messages to processes of other nodes, past Erlang distribution's one queue and one socket.
%%
%% The only door for users. Between two nodes that both run hawser there is a session of several sockets; what is
%% sent here goes through it, encoded in the caller and batched in Rust. To a node without a session it goes over
%% distribution (or fails, see `fallback'). Nothing here starts processes or keeps state.
-module(hawser).

-export([send/2, send/3]).
-export([nodes/0, await/2, disconnect/1, info/0, info/1]).

-export_type([destination/0, option/0]).

-type destination() ::
    pid()
    | reference()
    | atom()
    | {RegisteredName :: atom(), node()}.
%% A process, a process alias, a name registered on this node, a name registered on any node.

-type option() :: nosuspend | noconnect.

%% @doc Sends `Message' and answers it, like `!'.
%%
%% Messages of one sender to one receiver arrive in the order they were sent, whatever form of destination each of
%% them used. A name that is not registered at the other node, a dead process or an alias that is not active swallows
%% the message. When the session's queue is full the caller waits for room, as `!' suspends the sender on a busy
%% distribution channel.
%%
%% Raises `badarg' for what is no destination (a local name that is not registered included) and `system_limit' for a
%% message that is longer than `max_message_bytes' when encoded.
-spec send(destination(), Message) -> Message when Message :: term().
send(To, Message) ->
    case route(To) of
        local ->
            hawser_dist:send(To, Message);
        {Node, Name} ->
            case hawser_nif:push(Node, Name, Message) of
                ok ->
                    Message;
                Other ->
                    _ = elsewhere(Other, Node, Name, To, Message, []),
                    Message
            end
    end.

%% @doc Sends `Message', unless that would make the caller wait (`nosuspend') or connect (`noconnect').
%%
%% Answers and errors are those of `erlang:send/3': `ok'; `nosuspend' when the session's queue is full (or
%% distribution's, without a session) and the option was given; `noconnect' when there is no connection to the node and
%% the option was given, or, with `fallback' set to `none', when no session came up within `connect_timeout_ms'. Raises
%% as {@link send/2}, and `badarg' for an unknown option; `priority', new in OTP 28, is one that hawser does not know.
-spec send(destination(), Message :: term(), [option()]) -> ok | nosuspend | noconnect.
send(To, Message, Opts) ->
    case valid(Opts) of
        true -> ok;
        false -> error(badarg, [To, Message, Opts])
    end,
    case route(To) of
        local ->
            hawser_dist:send(To, Message, Opts);
        {Node, Name} ->
            case hawser_nif:push(Node, Name, Message) of
                ok -> ok;
                Other -> elsewhere(Other, Node, Name, To, Message, Opts)
            end
    end.

%% @doc The nodes with a live session.
-spec nodes() -> [node()].
nodes() ->
    hawser_directory:nodes().

%% @doc Waits until a session with `Node' is up, and has it made (and distribution connected) if need be.
%%
%% `TimeoutMs' in milliseconds. `notsup': the node runs no hawser. `noconnection': the node cannot be reached.
-spec await(node(), TimeoutMs :: timeout()) -> ok | {error, timeout | notsup | noconnection}.
await(Node, TimeoutMs) ->
    hawser_directory:await(Node, TimeoutMs).

%% @doc Ends the session with `Node', if there is one. What is queued is sent before, within `drain_timeout_ms'.
%%
%% No new session is made until {@link await/2} asks for one, the node comes up anew, or the other node asks.
-spec disconnect(node()) -> ok.
disconnect(Node) ->
    hawser_directory:disconnect(Node).

%% @doc Counters and gauges of this node: its listener, its sessions, what was dropped and why.
-spec info() -> #{atom() => term()}.
info() ->
    hawser_directory:info().

%% @doc Counters and gauges of the session with `Node'. Never asks the other node.
-spec info(node()) -> #{atom() => term()}.
info(Node) ->
    hawser_directory:info(Node).

%% Where a message goes: the node and what the destination is called there, or `local'. What is no destination goes
%% to `erlang:send', which says so in the caller's terms.
-compile({inline, [route/1]}).
route(To) when is_pid(To) ->
    case node(To) of
        Node when Node =:= node() -> local;
        Node -> {Node, To}
    end;
route({Name, Node}) when is_atom(Name), is_atom(Node), Node =/= node() ->
    {Node, Name};
route(To) when is_reference(To), node(To) =/= node() ->
    {node(To), To};
route(_) ->
    local.

valid([Opt | Opts]) when Opt =:= nosuspend; Opt =:= noconnect -> valid(Opts);
valid([]) -> true;
valid(_) -> false.

%% Everything but the plain case: the message is still here, and what happens to it is decided here.
elsewhere(ok, _Node, _Name, _To, _Message, _Opts) ->
    ok;
elsewhere(plain, Node, Name, To, Message, Opts) ->
    plain(Node, Name, To, Message, term_to_binary(Message), Opts);
elsewhere({busy, Flusher}, Node, Name, To, Message, Opts) ->
    case lists:member(nosuspend, Opts) of
        true ->
            nosuspend;
        false ->
            Again = fun() -> hawser_nif:push(Node, Name, Message) end,
            elsewhere(wait_for_room(Flusher, last, Again), Node, Name, To, Message, Opts)
    end;
elsewhere(system_limit, _Node, _Name, To, Message, Opts) ->
    error(system_limit, [To, Message, Opts]);
elsewhere(noroute, Node, Name, To, Message, Opts) ->
    without_session(hawser_config:get(fallback), Node, Name, To, Message, Opts).

plain(Node, Name, To, Message, Plain, Opts) ->
    case hawser_nif:push_plain(Node, Name, Plain) of
        {busy, Flusher} ->
            case lists:member(nosuspend, Opts) of
                true ->
                    nosuspend;
                false ->
                    Again = fun() -> hawser_nif:push_plain(Node, Name, Plain) end,
                    elsewhere(wait_for_room(Flusher, last, Again), Node, Name, To, Message, Opts)
            end;
        Other ->
            elsewhere(Other, Node, Name, To, Message, Opts)
    end.

%% Waits in an ordinary receive, so that the caller can be killed; the alias dies with the wait, so that no wake-up
%% stays behind. The flusher's end is the session's end: the push then finds no route.
wait_for_room(Flusher, Place, Again) ->
    Alias = monitor(process, Flusher, [{alias, demonitor}]),
    Flusher ! {wait, Alias, Place},
    receive
        {Alias, room} ->
            demonitor(Alias, [flush]),
            case Again() of
                {busy, Flusher} -> wait_for_room(Flusher, first, Again);
                Other -> Other
            end;
        {'DOWN', Alias, process, Flusher, _} ->
            Again()
    end.

without_session(dist, _Node, _Name, To, Message, Opts) ->
    hawser_dist:send(To, Message, Opts);
without_session(none, Node, Name, To, Message, Opts) ->
    case lists:member(noconnect, Opts) of
        true ->
            noconnect;
        false ->
            case hawser_directory:await(Node, hawser_config:get(connect_timeout_ms)) of
                ok ->
                    case hawser_nif:push(Node, Name, Message) of
                        noroute -> noconnect;
                        Other -> elsewhere(Other, Node, Name, To, Message, Opts)
                    end;
                {error, _} ->
                    noconnect
            end
    end.
