%% What the called node runs in the suite of hawser_erpc: functions that end in every way there is, and the gate, where
%% bodies wait until the test says how they go on. Test code only.
-module(hawser_erpc_bodies).

-export([value/1, throws/1, exits/1, errors/1, tail/1, deep/2, clause/1, info_error/1, raises/3]).
-export([exits_with_bytes/1, bytes/1, signal/1, linked_dies/1, nested/2, facts/1, child/2, hang/0]).
-export([waits/2, tells/2]).
-export([gate/0, open/2, end_bodies/3, bodies/2, close/1]).

-export_type([gate/0]).

-opaque gate() :: pid().

value(Value) -> Value.

throws(Value) -> throw(Value).

exits(Reason) -> exit(Reason).

errors(Reason) -> error(Reason).

tail(Reason) -> errors(Reason).

deep(0, Reason) -> error(Reason);
deep(N, Reason) -> 1 + deep(N - 1, Reason).

clause(only_this) -> ok.

%% An error of a BIF, which has extra information in its stack.
info_error(NoAtom) ->
    [atom_to_binary(NoAtom) | tail].

raises(Class, Reason, Stack) ->
    erlang:raise(Class, Reason, Stack).

bytes(N) -> binary:copy(<<7>>, N).

exits_with_bytes(N) -> exit(bytes(N)).

%% Ends the own process by a signal.
signal(Reason) ->
    exit(self(), Reason),
    receive after infinity -> ok end.

linked_dies(Reason) ->
    _ = spawn_link(fun() -> exit(Reason) end),
    receive after infinity -> ok end.

%% A call within the body, which fails on another stack of the same kind.
nested(Module, Reason) ->
    Module:call(node(), ?MODULE, errors, [Reason]).

%% What a body finds when it starts; `Leader' is the group leader of who called.
facts(Leader) ->
    Items = [dictionary, links, messages, monitors, priority, registered_name, trap_exit],
    {group_leader() =:= Leader, process_info(self(), Items)}.

%% Leaves two linked processes behind and ends: one that traps exits and tells `To' what came to it, one that does not.
child(To, Ending) ->
    Starter = self(),
    Trapping = spawn_link(fun() ->
        process_flag(trap_exit, true),
        Starter ! {self(), ready},
        receive {'EXIT', Starter, Reason} -> To ! {trapped, Reason} end
    end),
    receive {Trapping, ready} -> ok end,
    To ! {children, Trapping, spawn_link(fun hang/0)},
    Ending().

hang() ->
    receive after infinity -> ok end.

tells(To, Message) ->
    To ! Message,
    told.

%% ---- the gate ----

%% Waits at the gate until it is opened, and returns the value.
waits(Gate, Value) ->
    Monitor = monitor(process, Gate),
    Gate ! {waits, self()},
    receive
        {Gate, open} -> demonitor(Monitor, [flush]), Value;
        {'DOWN', Monitor, process, Gate, _} -> gate_gone
    end.

%% Lives as long as the process that made it.
-spec gate() -> gate().
gate() ->
    Owner = self(),
    spawn(fun() -> keep(monitor(process, Owner), []) end).

%% Lets the bodies through when there are `Count', and waits until they are gone.
-spec open(gate(), pos_integer()) -> ok.
open(Gate, Count) ->
    each(Gate, Count, fun(Body) -> Body ! {Gate, open} end).

%% Sends them an exit signal instead.
-spec end_bodies(gate(), pos_integer(), Reason :: term()) -> ok.
end_bodies(Gate, Count, Reason) ->
    each(Gate, Count, fun(Body) -> exit(Body, Reason) end).

each(Gate, Count, Do) ->
    Bodies = bodies(Gate, Count),
    Monitors = [monitor(process, Body) || Body <- Bodies],
    lists:foreach(Do, Bodies),
    lists:foreach(fun(Monitor) -> receive {'DOWN', Monitor, process, _, _} -> ok end end, Monitors).

%% The bodies that wait, when there are as many.
-spec bodies(gate(), pos_integer()) -> [pid()].
bodies(Gate, Count) ->
    Ref = make_ref(),
    Gate ! {bodies, self(), Ref, Count},
    receive {Ref, Bodies} -> Bodies end.

-spec close(gate()) -> ok.
close(Gate) ->
    Monitor = monitor(process, Gate),
    exit(Gate, kill),
    receive {'DOWN', Monitor, process, Gate, _} -> ok end.

keep(Owner, Bodies) ->
    receive
        {waits, Body} ->
            keep(Owner, [Body | Bodies]);
        {bodies, From, Ref, Count} when length(Bodies) >= Count ->
            From ! {Ref, Bodies},
            keep(Owner, []);
        {'DOWN', Owner, process, _, _} ->
            ok
    end.
