%% @doc Messages to processes of other nodes, and calls, past Erlang distribution's one queue and one socket.
%%
%% The only door for users. Between two nodes that both run hawser there is a session of several sockets; what is
%% sent here goes through it, encoded in the caller and batched in Rust. To a node without a session it goes over
%% distribution (or fails, see `fallback'). Nothing here keeps state.
-module(hawser).

-export([send/2, send/3]).
-export([cast/2, cast/4, call/4, call/5]).
-export([cast_one/4, cast_all/4]).
-export([call_one/4, call_one/5, call_any/4, call_any/5, call_all/4, call_all/5, call_all_wait/4, call_all_wait/5]).
-export([nodes/0, await/2, disconnect/1, info/0, info/1]).

-export_type([destination/0, option/0, answer/0, failure/0, group_options/0, tagged/0]).

-type destination() ::
    pid()
    | reference()
    | atom()
    | {RegisteredName :: atom(), node()}.
%% A process, a process alias, a name registered on this node, a name registered on any node.

-type option() :: nosuspend | noconnect.

-type answer() :: hawser_answer:answer().
%% `{error, E}' from a function that returned `{error, E}'; all else that it returned comes in `{ok, _}'.

-type failure() :: hawser_answer:failure().
%% The function crashed, with the reason that its process would have ended with; or it is not known how it ended. After
%% `noconnection' and `timeout' it may have run, run still, or never run; after `system_limit' it has not run, or what
%% it returned is longer than `max_message_bytes'.

-type group_options() :: boolean() | #{rpc_errors => boolean(), timeout => timeout()}.
%% `rpc_errors', or the boolean alone: does `{badrpc, _}' count as an error, or is the node left out as if it had not
%% been in the list? `timeout': milliseconds for the whole call, at most 4294967295, or `infinity', the default.

-type tagged() :: {node(), ValueOrReason :: term()}.

%% @doc Sends `Message' and answers it, like `!'.
%%
%% Messages of one sender to one receiver arrive in the order they were sent, whatever form of destination each of
%% them used. A name that is not registered at the other node, a dead process or an alias that is not active swallows
%% the message. When the session's queue is full the caller waits for room, as `!' suspends the sender on a busy
%% distribution channel.
%%
%% Raises `badarg' for what is no destination (a local name that is not registered included) and `system_limit' for a
%% message that is longer than `max_message_bytes' when encoded. With `fallback' set to `none' a message to a node without
%% session that gets none within `connect_timeout_ms' is dropped and counted: `no_session' in {@link info/0}.
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
                    _ = [hawser_totals:no_session() || elsewhere(Other, Node, Name, To, Message, []) =:= noconnect],
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

%% @doc Runs `Fun' in a process of its own at `Node': {@link cast/4} of `erlang:apply(Fun, [])'.
%%
%% A fun that is no `fun Module:Function/0' runs where its module is loaded in the same version.
-spec cast(node(), Fun :: fun(() -> term())) -> ok.
cast(Node, Fun) when is_atom(Node), is_function(Fun, 0) ->
    hawser_request:cast(Node, {erlang, apply, [Fun, []]});
cast(Node, Fun) ->
    error(badarg, [Node, Fun]).

%% @doc Runs the function in a process of its own at `Node'; nobody learns how it ends, or that it could not begin.
%%
%% The group leader is the caller's. When the session's queue is full the caller waits for room, as in {@link send/2}.
%% Raises `badarg' for what is no node's name, module, function or list of arguments, and `system_limit' for a request
%% that is longer than `max_message_bytes' when encoded.
-spec cast(node(), module(), Function :: atom(), Args :: [term()]) -> ok.
cast(Node, Module, Function, Args) when is_atom(Node), is_atom(Module), is_atom(Function), length(Args) >= 0 ->
    hawser_request:cast(Node, {Module, Function, Args});
cast(Node, Module, Function, Args) ->
    error(badarg, [Node, Module, Function, Args]).

%% @doc {@link call/5} that waits as long as it takes.
-spec call(node(), module(), Function :: atom(), Args :: [term()]) -> answer().
call(Node, Module, Function, Args) when is_atom(Node), is_atom(Module), is_atom(Function), length(Args) >= 0 ->
    hawser_answer:of_outcome(hawser_request:call(Node, {Module, Function, Args}, infinity));
call(Node, Module, Function, Args) ->
    error(badarg, [Node, Module, Function, Args]).

%% @doc Runs the function in a process of its own at `Node' and waits for the answer, `TimeoutMs' at most.
%%
%% `TimeoutMs' in milliseconds, at most 4294967295, or `infinity'; the wait for room in the session's queue counts.
%% What the function returns comes as `{ok, Value}', `{ok, X}' as `{ok, {ok, X}}'; only `{error, E}' comes as it is.
%% `{error, {exit, Reason}}' when it crashed: `{E, Stack}' for an error, `{nocatch, V}' for a throw, the reason for an
%% exit or for the signal that ended its process.
%%
%% `{error, {badrpc, timeout}}' and `{error, {badrpc, noconnection}}' mean <em>unknown</em>: the function may have run,
%% or run still. A request that is still in the queue here when its time is up is not executed. The caller's death does
%% not end the function; its group leader is the caller's; its messages to the caller come before its answer. After the
%% call no message about it ever arrives.
%%
%% On this node, with `infinity', it runs in the calling process. Raises `badarg' for what is no node's name, module,
%% function, list of arguments or timeout, before anything is sent.
-spec call(node(), module(), Function :: atom(), Args :: [term()], TimeoutMs :: timeout()) -> answer().
call(Node, Module, Function, Args, TimeoutMs) when
    is_atom(Node), is_atom(Module), is_atom(Function), length(Args) >= 0,
    (TimeoutMs =:= infinity orelse (is_integer(TimeoutMs) andalso TimeoutMs >= 0 andalso TimeoutMs =< 4294967295))
->
    hawser_answer:of_outcome(hawser_request:call(Node, {Module, Function, Args}, hawser_request:deadline(TimeoutMs)));
call(Node, Module, Function, Args, TimeoutMs) ->
    error(badarg, [Node, Module, Function, Args, TimeoutMs]).

%% ---- groups of nodes ----

%% @doc {@link cast/4} to one of the nodes: this node if it is in the list, else one at random.
%%
%% `ok' for an empty list. Raises as {@link cast/4}, and `badarg' for what is no list of nodes.
-spec cast_one([node()], module(), Function :: atom(), Args :: [term()]) -> ok.
cast_one(Nodes, Module, Function, Args) ->
    case hawser_group:plan(Nodes, Module, Function, Args, false) of
        {ok, Plan} -> hawser_group:cast_one(Plan);
        badarg -> error(badarg, [Nodes, Module, Function, Args])
    end.

%% @doc {@link cast/4} to every node of the list, once to each. The request is encoded once.
%%
%% A node that makes the caller wait for room comes after those that do not. Raises as {@link cast/4}, and `badarg' for
%% what is no list of nodes; after `system_limit' the request is on its way to those nodes that take messages so long.
-spec cast_all([node()], module(), Function :: atom(), Args :: [term()]) -> ok.
cast_all(Nodes, Module, Function, Args) ->
    case hawser_group:plan(Nodes, Module, Function, Args, false) of
        {ok, Plan} -> hawser_group:cast_all(Plan);
        badarg -> error(badarg, [Nodes, Module, Function, Args])
    end.

%% @doc {@link call_one/5} without a timeout that leaves nodes out which cannot be reached.
-spec call_one([node()], module(), Function :: atom(), Args :: [term()]) ->
    {ok, tagged()} | {error, none_is_available | [tagged()]}.
call_one(Nodes, Module, Function, Args) ->
    call_one(Nodes, Module, Function, Args, false).

%% @doc Calls one node after the other until one answers well: this node first if it is there, the others at random.
%%
%% An answer is good if it is `{ok, Value}' in the sense of {@link call/5}. After any other, the function's own
%% `{error, E}', a crash, or `{badrpc, _}' (a function's own `{error, {badrpc, _}}' is taken for one), the next node is
%% asked. The answer is `{ok, {Node, Value}}'; or `{error, [{Node, Reason}]}' with the reasons in the order in which
%% the nodes were asked; or `{error, none_is_available}' when the list is empty or every node is left out for its
%% `{badrpc, _}'. With `rpc_errors' none is left out.
%%
%% After `{badrpc, noconnection}' the function <em>may have run</em> at that node, or run there still, and the next node
%% is asked all the same: it can run at several nodes. The same holds for `{badrpc, timeout}', though with the time up
%% no further node is asked; those count as timeouts. Raises `badarg' for what is no list of nodes, module, function,
%% list of arguments or {@type group_options()}, before anything is sent.
-spec call_one([node()], module(), Function :: atom(), Args :: [term()], group_options()) ->
    {ok, tagged()} | {error, none_is_available | [tagged()]}.
call_one(Nodes, Module, Function, Args, Opts) ->
    case hawser_group:plan(Nodes, Module, Function, Args, Opts) of
        {ok, Plan} -> hawser_group:call_one(Plan);
        badarg -> error(badarg, [Nodes, Module, Function, Args, Opts])
    end.

%% @doc {@link call_any/5} without a timeout that leaves nodes out which cannot be reached.
-spec call_any([node()], module(), Function :: atom(), Args :: [term()]) ->
    {ok, tagged()} | {error, none_is_available | [tagged()]}.
call_any(Nodes, Module, Function, Args) ->
    call_any(Nodes, Module, Function, Args, false).

%% @doc Calls all nodes at once; the first good answer wins.
%%
%% The function runs at every node that can be reached, also after the answer. What is good, the answers and the errors
%% are those of {@link call_one/5}, the reasons in the order of the list.
-spec call_any([node()], module(), Function :: atom(), Args :: [term()], group_options()) ->
    {ok, tagged()} | {error, none_is_available | [tagged()]}.
call_any(Nodes, Module, Function, Args, Opts) ->
    case hawser_group:plan(Nodes, Module, Function, Args, Opts) of
        {ok, Plan} -> hawser_group:call_any(Plan);
        badarg -> error(badarg, [Nodes, Module, Function, Args, Opts])
    end.

%% @doc {@link call_all/5} without a timeout that leaves nodes out which cannot be reached.
-spec call_all([node()], module(), Function :: atom(), Args :: [term()]) ->
    {ok, [tagged()]} | {error, none_is_available | tagged()}.
call_all(Nodes, Module, Function, Args) ->
    call_all(Nodes, Module, Function, Args, false).

%% @doc Calls all nodes at once, and wants a good answer from each.
%%
%% `{ok, [{Node, Value}]}', in the order of the list, if every node that is not left out answered well;
%% `{error, {Node, Reason}}' as soon as one did not: the others run on and are not waited for. A node that has not
%% answered when the time is up has `{badrpc, timeout}': it is left out too, unless `rpc_errors' is set.
%% `{error, none_is_available}' and what is raised as in {@link call_one/5}.
-spec call_all([node()], module(), Function :: atom(), Args :: [term()], group_options()) ->
    {ok, [tagged()]} | {error, none_is_available | tagged()}.
call_all(Nodes, Module, Function, Args, Opts) ->
    case hawser_group:plan(Nodes, Module, Function, Args, Opts) of
        {ok, Plan} -> hawser_group:call_all(Plan);
        badarg -> error(badarg, [Nodes, Module, Function, Args, Opts])
    end.

%% @doc {@link call_all_wait/5} without a timeout; every node of the list is in one of the lists of the answer.
-spec call_all_wait([node()], module(), Function :: atom(), Args :: [term()]) ->
    {Replies :: [tagged()], Rejects :: [tagged()]}.
call_all_wait(Nodes, Module, Function, Args) ->
    call_all_wait(Nodes, Module, Function, Args, true).

%% @doc Calls all nodes at once and waits for all: who answered well with what, and who did not, and why.
%%
%% Both lists in the order of the nodes. There is no verdict that `{badrpc, _}' could be left out of: such nodes stand
%% among the rejected, unless `rpc_errors' is given as `false'. `{[], []}' for an empty list. Raises as
%% {@link call_one/5}.
-spec call_all_wait([node()], module(), Function :: atom(), Args :: [term()], group_options()) ->
    {Replies :: [tagged()], Rejects :: [tagged()]}.
call_all_wait(Nodes, Module, Function, Args, Opts) ->
    case hawser_group:plan(Nodes, Module, Function, Args, Opts) of
        {ok, Plan} -> hawser_group:call_all_wait(Plan);
        badarg -> error(badarg, [Nodes, Module, Function, Args, Opts])
    end.

%% ---- sessions ----

%% @doc The nodes with a live session.
-spec nodes() -> [node()].
nodes() ->
    hawser_directory:nodes().

%% @doc Waits until a session with `Node' is up, and has it made (and distribution connected) if need be.
%%
%% `TimeoutMs' in milliseconds, at most 4294967295, or `infinity': no limit, though an error may still be the answer.
%% `ok' at once for this node itself. `timeout': no session yet, attempts go on. `notsup': the node runs no hawser.
%% `noconnection': the node cannot be reached, or hawser does not run here. Raises `badarg' for anything else.
-spec await(node(), TimeoutMs :: timeout()) -> ok | {error, timeout | notsup | noconnection}.
await(Node, TimeoutMs) ->
    hawser_directory:await(Node, TimeoutMs).

%% @doc Ends the session with `Node', if there is one. What is queued is sent before, within `drain_timeout_ms'.
%%
%% No new session is made until {@link await/2} asks for one, the node comes up anew, or the other node asks. Raises
%% `badarg' for what is no atom.
-spec disconnect(node()) -> ok.
disconnect(Node) ->
    hawser_directory:disconnect(Node).

%% @doc This node: its listener, the states of its peers, and what went over all its sessions. Asks no process.
%%
%% <dl>
%% <dt>`node', `alive'</dt><dd>the name, and whether the node has one</dd>
%% <dt>`incarnation'</dt><dd>16 random bytes, new at each start of hawser; `undefined' when it does not run</dd>
%% <dt>`listening'</dt><dd>`{Ip, Port}'; `undefined' when hawser does not run</dd>
%% <dt>`peers'</dt><dd>`#{Node => State}', see {@link info/1}</dd>
%% <dt>`totals'</dt><dd>over all sessions since hawser started, the ended ones included: `sent_messages',
%% `received_messages', `sent_bytes', `received_bytes' (on the sockets), `sessions_ended', and `dropped', a map by reason:
%% those of {@link info/1}, and `no_session', messages and casts that were dropped because `fallback' is `none'</dd>
%% </dl>
-spec info() -> #{
    node := node(), alive := boolean(), incarnation := binary() | undefined,
    listening := {Ip :: binary(), inet:port_number()} | undefined,
    peers := #{node() => State :: atom()}, totals := hawser_totals:totals()
}.
info() ->
    hawser_directory:info().

%% @doc What is known of `Node', and counters and gauges of the session with it. Asks no process and no other node.
%%
%% <dl>
%% <dt>`node'</dt><dd>its name</dd>
%% <dt>`state'</dt><dd>`up', `draining' and `closing' with a session; `connecting', `announcing', `inviting', `dialing' and
%% `invited' on the way to one; `absent', `backoff' and `held' without; `none' when nothing is known of the node</dd>
%% <dt>`attempts', `last', `connected'</dt><dd>not in state `none': failures in a row, why the last attempt failed or the
%% last session ended, and how distribution is connected (`visible', `hidden', `none')</dd>
%% <dt>`session'</dt><dd>with a session: `dropped', a map: messages to a process or alias of another incarnation
%% (`stale_pid', `stale_alias') or to a name that is not registered here (`unknown_name'), answers nobody waited for
%% (`late_answer'), calls not executed, their time being over (`expired_call'), and casts for which there was no process
%% left (`refused_cast'), and bytes that the end of the
%% session cut off (`queued_at_close_bytes', `unacked_at_close_bytes'); `dictionary_atoms' and `atoms_sent_as_text', of
%% the whole node; `shards', a list of maps: `sent_messages', `received_messages', `sent_bytes', `received_bytes',
%% `sent_batches', `received_batches', `writes' and `reads' (system calls), `busy' (pushes that found the queue full),
%% `kicks' (of the flusher), and the gauges `queued_bytes', `unacked_bytes' and `waiting_calls' (without an answer yet)</dd>
%% </dl>
%%
%% Raises `badarg' for what is no atom. What a session counted stays in the totals of {@link info/0} when it ends.
-spec info(node()) -> #{node := node(), state := atom(), session => map(), atom() => term()}.
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
elsewhere(Pushed, Node, Name, To, Message, Opts) ->
    Limit = case lists:member(nosuspend, Opts) of true -> nosuspend; false -> infinity end,
    case hawser_push:settle(Pushed, {node, Node, Name}, term, Message, Limit) of
        ok -> ok;
        busy -> nosuspend;
        system_limit -> error(system_limit, [To, Message, Opts]);
        noroute -> without_session(hawser_config:get(fallback), Node, Name, To, Message, Opts)
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
