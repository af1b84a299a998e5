%% @private
%% @doc One request to many nodes at once, and their outcomes as they come, until one deadline.
%%
%% Called by `hawser_group', in the process that calls. The caller itself waits for the answers of nodes with a session
%% and of its own node. A node that would make it wait before the others are asked (no session, no room in the shard)
%% gets a process that does the waiting; a guard ends those processes when the caller dies or has heard enough. Never
%% judges an outcome.
-module(hawser_gather).

-export([ask/3, next/1, stop/1]).
-export([guard/1, work/5]).

-export_type([gather/0]).

-record(gather, {
    deadline :: hawser_request:deadline(),
    %% By what the messages carry in front.
    waiting = #{} :: #{reference() => {node(), hawser_request:pending() | worker()}},
    %% Known, and not yet given out.
    ready = [] :: [{node(), hawser_request:outcome()}],
    guard = none :: pid() | none
}).

-opaque gather() :: #gather{}.
%% The process that waits for a node, and the alias that it answers to.
-type worker() :: {worker, Alias :: reference(), Monitor :: reference()}.

%% @doc Asks every node of the list; each once, so no node may stand in it twice.
-spec ask([node()], hawser_request:mfargs(), hawser_request:deadline()) -> gather().
ask(Nodes, Mfa, Deadline) ->
    {Own, Others} = lists:partition(fun(Node) -> Node =:= node() end, Nodes),
    Request = hawser_request:prepare(Others, Mfa),
    {Asked, Later} = lists:foldl(
        fun(Node, Sofar) -> ask_now(Node, Request, Sofar) end, {#gather{deadline = Deadline}, []}, Others),
    All = lists:foldl(fun(Node, Sofar) -> ask_own(Node, Mfa, Sofar) end, Asked, Own),
    lists:foldl(fun(Node, Sofar) -> ask_later(Node, Request, Sofar) end, All, lists:reverse(Later)).

ask_now(Node, Request, {Gather, Later}) ->
    case hawser_request:send_now(Node, Request, Gather#gather.deadline) of
        later -> {Gather, [Node | Later]};
        system_limit -> {known(Node, {system, system_limit}, Gather), Later};
        Pending -> {wait(Node, hawser_request:tag(Pending), Pending, Gather), Later}
    end.

ask_own(Node, Mfa, Gather) ->
    Pending = hawser_request:send(Node, Mfa, Gather#gather.deadline),
    wait(Node, hawser_request:tag(Pending), Pending, Gather).

ask_later(Node, Request, Gather) ->
    try guarded(Gather) of
        Guarded -> hand_over(Node, Request, Guarded)
    catch
        error:system_limit -> known(Node, {system, system_limit}, Gather)
    end.

guarded(#gather{guard = none} = Gather) ->
    Gather#gather{guard = spawn(?MODULE, guard, [self()])};
guarded(Gather) ->
    Gather.

hand_over(Node, Request, #gather{guard = Guard, deadline = Deadline} = Gather) ->
    Alias = alias([reply]),
    Options = [{monitor, [{tag, Alias}]}],
    try spawn_opt(?MODULE, work, [Guard, Alias, Node, Request, Deadline], Options) of
        {_Pid, Monitor} -> wait(Node, Alias, {worker, Alias, Monitor}, Gather)
    catch
        error:system_limit ->
            %% The process table is full.
            _ = unalias(Alias),
            known(Node, {system, system_limit}, Gather)
    end.

wait(Node, Tag, Pending, #gather{waiting = Waiting} = Gather) ->
    Gather#gather{waiting = Waiting#{Tag => {Node, Pending}}}.

known(Node, Outcome, #gather{ready = Ready} = Gather) ->
    Gather#gather{ready = [{Node, Outcome} | Ready]}.

%% @doc The next outcome; past the deadline those that are missing are timeouts. `done' when every node's is known.
-spec next(gather()) -> {node(), hawser_request:outcome(), gather()} | done.
next(#gather{ready = [{Node, Outcome} | Ready]} = Gather) ->
    {Node, Outcome, Gather#gather{ready = Ready}};
next(#gather{waiting = Waiting}) when map_size(Waiting) =:= 0 ->
    done;
next(#gather{waiting = Waiting, deadline = Deadline} = Gather) ->
    case hawser_request:receive_any(Waiting, Deadline) of
        {Tag, Outcome} ->
            {{Node, Pending}, Left} = maps:take(Tag, Waiting),
            {Node, come(Pending, Outcome), Gather#gather{waiting = Left}};
        timeout ->
            Late = [{Node, given_up(Pending)} || {Node, Pending} <- maps:values(Waiting)],
            next(Gather#gather{waiting = #{}, ready = Late})
    end.

%% A worker returns the outcome that it was told. One that ended before was killed: nothing is known any more.
come({worker, _, Monitor}, {return, Outcome}) ->
    true = demonitor(Monitor, [flush]),
    Outcome;
come({worker, Alias, _}, _) ->
    _ = unalias(Alias),
    {system, noconnection};
come(_, Outcome) ->
    Outcome.

given_up(Pending) ->
    case abandon(Pending) of
        none -> {system, timeout};
        Outcome -> Outcome
    end.

%% @doc Gives up what is missing: no message about it comes any more, and every process that waited for it ends.
-spec stop(gather()) -> ok.
stop(#gather{waiting = Waiting, guard = Guard}) ->
    _ = [exit(Guard, kill) || Guard =/= none],
    maps:foreach(fun(_, {_, Pending}) -> abandon(Pending) end, Waiting).

abandon({worker, Alias, Monitor}) ->
    true = demonitor(Monitor, [flush]),
    case unalias(Alias) of
        true -> none;
        false -> receive {Alias, {return, Outcome}} -> Outcome after 0 -> none end
    end;
abandon(Pending) ->
    hawser_request:abandon(Pending).

%% ---- processes ----

%% Workers are linked to it and end with it, wherever they wait.
-spec guard(Caller :: pid()) -> no_return().
guard(Caller) ->
    _ = process_flag(trap_exit, true),
    Monitor = monitor(process, Caller),
    receive {'DOWN', Monitor, process, Caller, _} -> exit(shutdown) end.

-spec work(pid(), Alias :: reference(), node(), Request, hawser_request:deadline()) -> term() when
    Request :: hawser_request:mfargs() | hawser_request:prepared().
work(Guard, Alias, Node, Request, Deadline) ->
    try link(Guard) catch error:noproc -> exit(noproc) end,
    Alias ! {Alias, {return, hawser_request:call(Node, Request, Deadline)}}.
