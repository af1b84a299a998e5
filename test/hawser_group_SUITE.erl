%% What hawser's group functions promise: every verdict over nodes with a session, without one and the node itself; one
%% deadline for the whole; and that nothing of a group call stays on the calling node, whatever dies or hangs.
-module(hawser_group_SUITE).

-export([suite/0, all/0, groups/0, init_per_group/2, end_per_group/2, init_per_testcase/2, end_per_testcase/2]).
-export([
    all_good/1, own_node_first/1, random_otherwise/1, errors_go_on/1, first_good_wins/1, first_bad_ends/1,
    replies_and_rejects/1, unreachable/1, own_badrpc/1, empty_and_duplicates/1, options/1, bad_arguments/1, casts/1,
    large_requests/1, every_term/1, group_leader/1, deadline/1, late_answers/1
]).
-export([
    caller_dies/1, body_killed/1, waiter_killed/1, guard_killed/1, process_table_full/1, node_dies/1,
    hung_of_several/1, hung_and_full/1, thousand_callers/1, cast_all_past_the_full/1, too_long/1, without_fallback/1
]).

-import(hawser_call_bodies, [on/2, with/3, caught/2, sent/2]).
-import(hawser_test_nodes, [start_node/1, stop/1, kill/1, freeze/1, thaw/1, call/4, call/5, await_session/2]).
-import(hawser_attacked, [until/1]).

-define(MS, 60000).
-define(BODIES, hawser_call_bodies).
-define(CALLS, [call_one, call_any, call_all, call_all_wait]).
%% Nobody runs there.
-define(NOBODY, 'nobody@127.0.0.1').
%% Full after a few hundred kilobytes.
-define(NARROW, #{max_queue_bytes => 65536, max_unacked_bytes => 131072, ack_every_bytes => 32768}).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [{group, one_shard}, {group, four_shards}].

groups() ->
    Cases = [
        all_good, own_node_first, random_otherwise, errors_go_on, first_good_wins, first_bad_ends,
        replies_and_rejects, unreachable, own_badrpc, empty_and_duplicates, options, bad_arguments, casts,
        large_requests, every_term, group_leader, deadline, late_answers, {group, own_nodes}
    ],
    Own = [
        caller_dies, body_killed, waiter_killed, guard_killed, process_table_full, node_dies, hung_of_several,
        hung_and_full, thousand_callers, cast_all_past_the_full, too_long, without_fallback
    ],
    [{one_shard, [], Cases}, {four_shards, [], Cases}, {own_nodes, [], Own}].

init_per_group(own_nodes, Config) ->
    Config;
init_per_group(Group, Config) ->
    Env = #{shards => shards(Group)},
    [{env, Env}, {nodes, start_nodes(Env, #{})} | Config].

%% A calls. B, C and D have sessions with it, E is connected and runs no hawser.
start_nodes(Env, OfA) ->
    A = start_node(OfA#{env => Env, link => false}),
    Others = [start_node(#{env => Env, link => false}) || _ <- [b, c, d]],
    E = start_node(#{hawser => false, link => false}),
    _ = [ok = await_session(A, Other) || Other <- Others],
    true = call(element(1, A), net_kernel, connect_node, [element(2, E)]),
    [A | Others] ++ [E].

end_per_group(own_nodes, _) ->
    ok;
end_per_group(_, Config) ->
    [stop(Peer) || {Peer, _} <- proplists:get_value(nodes, Config)].

shards(one_shard) -> 1;
shards(four_shards) -> 4.

init_per_testcase(Case, Config) ->
    case special(Case) of
        shared ->
            Config;
        {Env, OfA} ->
            Shards = maps:with([shards], proplists:get_value(env, Config)),
            [{own, start_nodes(maps:merge(Shards, Env), OfA)} | Config]
    end.

%% Nothing of a case stays in the table of those who wait, or is still running: else the case has failed.
end_per_testcase(_, Config) ->
    Own = proplists:get_value(own, Config, []),
    try
        [A | Others] = Nodes = peers(Config),
        %% The sessions of the group are the same from its beginning to its end.
        [] = [Report || Own =:= [], {Peer, _} <- Nodes,
                        #{report := #{what := session_ended} = Report} <- hawser_test_nodes:logs(Peer)],
        nothing_left(A, [Node || {Peer, Node} <- Others, is_process_alive(Peer)])
    catch
        error:Reason -> {fail, Reason}
    after
        _ = [stop(Peer) || {Peer, _} <- Own, is_process_alive(Peer)]
    end.

nothing_left({A, _}, Nodes) ->
    until(fun() -> call(A, ?BODIES, own_processes, []) =:= [] end),
    until(fun() -> [0] =:= lists:usort([0 | [call(A, ?BODIES, waiting_calls, [Node]) || Node <- Nodes]]) end).

special(Case) when Case =:= hung_and_full; Case =:= cast_all_past_the_full -> {?NARROW, #{}};
special(too_long) -> {#{max_message_bytes => 10000}, #{}};
special(without_fallback) -> {#{fallback => none, connect_timeout_ms => 300}, #{}};
special(process_table_full) -> {#{}, #{args => ["+P", "1024"]}};
special(Case) when Case =:= caller_dies -> {#{heartbeat_interval_ms => 1000}, #{}};
special(Case) when
    Case =:= body_killed; Case =:= waiter_killed; Case =:= guard_killed; Case =:= node_dies;
    Case =:= hung_of_several; Case =:= thousand_callers
->
    {#{}, #{}};
special(_) ->
    shared.

peers(Config) ->
    proplists:get_value(own, Config, proplists:get_value(nodes, Config)).

%% The calling node, and the names of all.
setting(Config) ->
    [A | _] = Nodes = peers(Config),
    {A, [Node || {_, Node} <- Nodes]}.

%% ---- verdicts ----

%% When every node answers well: one answer, any answer, and all answers in the order of the list.
all_good(Config) ->
    {A, Names} = setting(Config),
    _ = [on(A, fun() ->
        {ok, {One, One}} = hawser:call_one(Nodes, erlang, node, []),
        {ok, {Any, Any}} = hawser:call_any(Nodes, erlang, node, []),
        true = lists:member(One, Nodes) andalso lists:member(Any, Nodes),
        Each = [{Node, Node} || Node <- Nodes],
        {ok, Each} = hawser:call_all(Nodes, erlang, node, []),
        {Each, []} = hawser:call_all_wait(Nodes, erlang, node, [])
    end) || Nodes <- [Names, lists:reverse(Names), tl(Names)] ++ [[Name] || Name <- Names]].

%% call_one and cast_one take their own node when it is in the list, wherever it stands.
own_node_first(Config) ->
    {{_, NodeA} = A, [NodeA | Others]} = setting(Config),
    on(A, fun() ->
        _ = [{ok, {NodeA, NodeA}} = hawser:call_one(Others ++ [NodeA], erlang, node, []) || _ <- lists:seq(1, 50)],
        Me = self(),
        Tell = fun() -> Me ! {ran, node()} end,
        _ = [ok = hawser:cast_one(Others ++ [NodeA], erlang, apply, [Tell, []]) || _ <- lists:seq(1, 50)],
        _ = [receive {ran, Node} -> NodeA = Node end || _ <- lists:seq(1, 50)]
    end).

%% Without their own node they take any, and leave the caller's random numbers alone.
random_otherwise(Config) ->
    {A, [_ | Others]} = setting(Config),
    on(A, fun() ->
        Called = [element(1, element(2, hawser:call_one(Others, erlang, node, []))) || _ <- lists:seq(1, 200)],
        Me = self(),
        _ = [ok = hawser:cast_one(Others, ?BODIES, mark, [Me, N]) || N <- lists:seq(1, 200)],
        _ = [receive {ran, N} -> ok end || N <- lists:seq(1, 200)],
        Tell = fun() -> Me ! {at, node()} end,
        _ = [ok = hawser:cast_one(Others, erlang, apply, [Tell, []]) || _ <- lists:seq(1, 200)],
        Cast = [receive {at, Node} -> Node end || _ <- lists:seq(1, 200)],
        All = lists:sort(Others),
        All = lists:usort(Called),
        All = lists:usort(Cast),
        [] = get()
    end).

%% call_one asks on after an error and after a crash, this node's too, and tells all in the order in which it asked.
errors_go_on(Config) ->
    {{_, NodeA} = A, [NodeA | Others] = Names} = setting(Config),
    on(A, fun() ->
        _ = [{ok, {Good, here}} = hawser:call_one(Names, ?BODIES, only_at, [[Good], here, How])
             || Good <- Others, How <- [error, exit], _ <- lists:seq(1, 5)],
        {error, [{NodeA, {not_at, NodeA}} | Errors]} = hawser:call_one(Names, ?BODIES, only_at, [[], here, error]),
        Told = lists:sort([{Node, {not_at, Node}} || Node <- Others]),
        Told = lists:sort(Errors),
        {error, Crashes} = hawser:call_one(Others, ?BODIES, only_at, [[], here, exit]),
        Exits = lists:sort([{Node, {exit, {not_at, Node}}} || Node <- Others]),
        Exits = lists:sort(Crashes)
    end).

%% call_any answers with the only good one, does not wait for those that hang, and tells all errors in the list's order.
first_good_wins(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        _ = [{ok, {Good, here}} = hawser:call_any(Names, ?BODIES, only_at, [[Good], here, How])
             || Good <- Names, How <- [error, exit, hang]],
        %% What waited for the others has ended, though the caller lives.
        until(fun() -> ?BODIES:own_processes() =:= [] end),
        Errors = [{Node, {not_at, Node}} || Node <- Names],
        {error, Errors} = hawser:call_any(Names, ?BODIES, only_at, [[], here, error]),
        Exits = [{Node, {exit, {not_at, Node}}} || Node <- Names],
        {error, Exits} = hawser:call_any(Names, ?BODIES, only_at, [[], here, exit])
    end).

%% call_all ends with the first error, and does not wait for those that hang.
first_bad_ends(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        _ = [begin
            Others = lists:delete(Bad, Names),
            {error, {Bad, {not_at, Bad}}} = hawser:call_all(Names, ?BODIES, only_at, [Others, here, error]),
            {error, {Bad, {exit, {not_at, Bad}}}} = hawser:call_all(Names, ?BODIES, only_at, [Others, here, exit]),
            Hang = fun() -> bad_or_hang(Bad) end,
            {error, {Bad, {exit, bad}}} = hawser:call_all(Names, erlang, apply, [Hang, []])
        end || Bad <- Names]
    end).

bad_or_hang(Node) when Node =:= node() -> exit(bad);
bad_or_hang(_) -> receive never -> ok end.

%% call_all_wait tells who answered well and who did not, each in the list's order.
replies_and_rejects(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        _ = [begin
            Replies = [{Node, here} || Node <- Names, lists:member(Node, Good)],
            Rejects = [{Node, {not_at, Node}} || Node <- Names, not lists:member(Node, Good)],
            {Replies, Rejects} = hawser:call_all_wait(Names, ?BODIES, only_at, [Good, here, error]),
            Exits = [{Node, {exit, Reason}} || {Node, Reason} <- Rejects],
            {Replies, Exits} = hawser:call_all_wait(Names, ?BODIES, only_at, [Good, here, exit])
        end || Good <- [[], [hd(Names)], tl(Names), Names]]
    end).

%% A node that cannot be reached is left out, unless `rpc_errors' is set; call_all_wait always tells, unless it is not.
unreachable(Config) ->
    {A, Names} = setting(Config),
    Lost = {?NOBODY, {badrpc, noconnection}},
    on(A, fun() ->
        {ok, _} = hawser:call_one([?NOBODY | Names], erlang, node, []),
        {ok, _} = hawser:call_any([?NOBODY | Names], erlang, node, [], true),
        Each = [{Node, Node} || Node <- Names],
        {ok, Each} = hawser:call_all([?NOBODY | Names], erlang, node, []),
        {error, Lost} = hawser:call_all([?NOBODY | Names], erlang, node, [], true),
        {error, Lost} = hawser:call_all([?NOBODY | Names], erlang, node, [], #{rpc_errors => true}),
        {Each, [Lost]} = hawser:call_all_wait([?NOBODY | Names], erlang, node, []),
        {Each, [Lost]} = hawser:call_all_wait([?NOBODY | Names], erlang, node, [], #{timeout => 30000}),
        {Each, []} = hawser:call_all_wait([?NOBODY | Names], erlang, node, [], false),
        Errors = [{Node, {not_at, Node}} || Node <- Names],
        {error, Errors} = hawser:call_any([?NOBODY | Names], ?BODIES, only_at, [[], v, error]),
        {error, [Lost | Errors]} = hawser:call_any([?NOBODY | Names], ?BODIES, only_at, [[], v, error], true),
        _ = [{F, {error, none_is_available}} = {F, hawser:F([?NOBODY], erlang, node, [])}
             || F <- [call_one, call_any, call_all]],
        _ = [{F, {error, [Lost]}} = {F, hawser:F([?NOBODY], erlang, node, [], true)} || F <- [call_one, call_any]],
        {error, Lost} = hawser:call_all([?NOBODY], erlang, node, [], true),
        {[], [Lost]} = hawser:call_all_wait([?NOBODY], erlang, node, [])
    end).

%% A function's own `{error, {badrpc, _}}' is one, and a function's `{ok, _}' is a value.
own_badrpc(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        Badrpc = {badrpc, of_its_own},
        _ = [{F, {error, none_is_available}} = {F, hawser:F(Names, ?BODIES, same, [{error, Badrpc}])}
             || F <- [call_one, call_any, call_all]],
        {error, {_, Badrpc}} = hawser:call_all(Names, ?BODIES, same, [{error, Badrpc}], true),
        {ok, {_, {ok, 1}}} = hawser:call_one(Names, ?BODIES, same, [{ok, 1}]),
        {ok, {_, {ok, 1}}} = hawser:call_any(Names, ?BODIES, same, [{ok, 1}])
    end).

%% An empty list is no node at all; a node that stands twice in the list is asked once.
empty_and_duplicates(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        _ = [{F, Opts, {error, none_is_available}} = {F, Opts, hawser:F([], erlang, node, [], Opts)}
             || F <- [call_one, call_any, call_all], Opts <- [false, true, #{}, #{timeout => 0}]],
        {[], []} = hawser:call_all_wait([], erlang, node, []),
        {[], []} = hawser:call_all_wait([], erlang, node, [], true),
        ok = hawser:cast_one([], erlang, node, []),
        ok = hawser:cast_all([], erlang, node, []),
        Twice = Names ++ Names,
        Each = [{Node, Node} || Node <- Names],
        {ok, Each} = hawser:call_all(Twice, erlang, node, []),
        {Each, []} = hawser:call_all_wait(Twice, erlang, node, []),
        Errors = [{Node, {not_at, Node}} || Node <- Names],
        {error, Errors} = hawser:call_any(Twice, ?BODIES, only_at, [[], v, error]),
        {error, One} = hawser:call_one(Twice, ?BODIES, only_at, [[], v, error]),
        true = lists:sort(Errors) =:= lists:sort(One),
        Me = self(),
        {_, []} = hawser:call_all_wait(Twice, ?BODIES, mark, [Me, called]),
        ok = hawser:cast_all(Twice, erlang, apply, [fun() -> Me ! {cast, node()} end, []]),
        _ = [receive {ran, called} -> ok end || _ <- Names],
        _ = [receive {cast, Node} -> ok end || Node <- Names],
        %% Behind a second message, if there were one.
        _ = [erpc:call(Node, ?BODIES, mark, [Me, last]) || Node <- Names],
        _ = [receive {ran, last} -> ok end || _ <- Names]
    end).

%% The fifth argument is a boolean or a map of two keys, each of which may be missing.
options(Config) ->
    {A, Names} = setting(Config),
    Good = [true, false, #{}, #{rpc_errors => true}, #{rpc_errors => false}, #{timeout => infinity},
            #{timeout => 4294967295}, #{timeout => 30000, rpc_errors => true}],
    on(A, fun() ->
        _ = [begin
            {ok, _} = hawser:call_one(Names, erlang, node, [], Opts),
            {ok, _} = hawser:call_any(Names, erlang, node, [], Opts),
            {ok, _} = hawser:call_all(Names, erlang, node, [], Opts),
            {_, []} = hawser:call_all_wait(Names, erlang, node, [], Opts)
        end || Opts <- Good]
    end).

%% Anything else raises badarg, and nothing is sent to anybody.
bad_arguments(Config) ->
    {A, [_, NodeB | _] = Names} = setting(Config),
    Good = [Names, erlang, node, []],
    Four = [with(N, Bad, Good)
            || {N, Bads} <- [{1, [NodeB, [NodeB | NodeB], [NodeB, "node"], [1], #{}]}, {2, ["m", 1]},
                             {3, [<<"f">>, 1.0]}, {4, [a, [1 | 2], {}]}],
               Bad <- Bads],
    Opts = [yes, [], 5000, infinity, #{timeout => -1}, #{timeout => 4294967296}, #{timeout => 1.5},
            #{timeout => {abs, 1}}, #{rpc_errors => yes}, #{time_out => 1}, #{timeout => 1, other => true},
            [{timeout, 1}]],
    Five = [Args ++ [false] || Args <- Four] ++ [Good ++ [Bad] || Bad <- Opts],
    Before = sent(A, NodeB),
    _ = on(A, fun() ->
        [{F, Args, {caught, badarg}} = {F, Args, caught(F, Args)}
         || {Fs, Table} <- [{[cast_one, cast_all | ?CALLS], Four}, {?CALLS, Five}], F <- Fs, Args <- Table]
    end),
    Before = sent(A, NodeB).

%% cast_all runs the function at every node that there is, with the caller's group leader, and is ok also for others.
casts(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        Leader = spawn(fun() -> receive never -> ok end end),
        true = group_leader(Leader, self()),
        Me = self(),
        ok = hawser:cast_all([?NOBODY | Names], erlang, apply, [fun() -> Me ! {ran, node(), group_leader()} end, []]),
        _ = [receive {ran, Node, Leader} -> ok end || Node <- Names],
        exit(Leader, kill)
    end).

%% Requests that are too long for hawser's own form go once encoded to all nodes too.
large_requests(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        _ = [begin
            Term = {Bytes, binary:copy(<<5>>, Bytes), fun() -> Bytes end},
            Each = [{Node, Term} || Node <- Names],
            {ok, Each} = hawser:call_all(Names, ?BODIES, same, [Term]),
            {Each, []} = hawser:call_all_wait(Names, ?BODIES, same, [Term])
        end || Bytes <- [10, 10000, 1000000]]
    end).

%% Every kind of term is the same at all nodes, and back.
every_term(Config) ->
    {A, Names} = setting(Config),
    [] = on(A, fun() -> [Name || {Name, Term} <- hawser_term_kinds:short(), not same(Names, Term)] end).

same(Nodes, Term) ->
    {Replies, []} = hawser:call_all_wait(Nodes, ?BODIES, same, [{term, Term}]),
    lists:all(
        fun({Node, Got}) -> hawser_term_kinds:equal(Got, erpc:call(Node, ?BODIES, same, [{term, Term}])) end, Replies).

%% The group leader of every body is the caller's, whichever way the request went.
group_leader(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        Leader = spawn(fun() -> receive never -> ok end end),
        true = group_leader(Leader, self()),
        Each = [{Node, Leader} || Node <- Names],
        {ok, Each} = hawser:call_all(Names, erlang, group_leader, []),
        exit(Leader, kill)
    end).

%% One deadline for all: those that have answered count, those that have not are timeouts, over every way.
deadline(Config) ->
    {A, Names} = setting(Config),
    Late = [{Node, {badrpc, timeout}} || Node <- Names],
    on(A, fun() ->
        Hang = fun(F, Opts) -> hawser:F(Names, ?BODIES, only_at, [[], v, hang], Opts) end,
        _ = [{F, {error, none_is_available}} = {F, Hang(F, #{timeout => 100})} || F <- [call_one, call_any, call_all]],
        {[], Late} = Hang(call_all_wait, #{timeout => 100}),
        {error, Late} = Hang(call_any, #{timeout => 100, rpc_errors => true}),
        {error, One} = Hang(call_one, #{timeout => 100, rpc_errors => true}),
        true = lists:sort(Late) =:= lists:sort(One),
        {error, {_, {badrpc, timeout}}} = Hang(call_all, #{timeout => 100, rpc_errors => true}),
        _ = [begin
            Good = lists:delete(Hung, Names),
            Replies = [{Node, here} || Node <- Good],
            Args = [Good, here, hang],
            Rejects = [{Hung, {badrpc, timeout}}],
            {Replies, Rejects} = hawser:call_all_wait(Names, ?BODIES, only_at, Args, #{timeout => 1000}),
            {ok, Replies} = hawser:call_all(Names, ?BODIES, only_at, Args, #{timeout => 1000})
        end || Hung <- Names],
        until(fun() -> ?BODIES:own_processes() =:= [] end)
    end).

%% Answers that come about when the time is up are answers or nothing: no message comes later.
late_answers(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        _ = [begin
            {Replies, Rejects} = hawser:call_all_wait(Names, ?BODIES, pause, [Ms, here], #{timeout => Ms}),
            Seen = lists:sort([Node || {Node, here} <- Replies] ++ [Node || {Node, {badrpc, timeout}} <- Rejects]),
            Seen = lists:sort(Names)
        end || _ <- lists:seq(1, 100), Ms <- [0, 1, 2, 5]],
        %% Behind every answer that could still come.
        {_, []} = hawser:call_all_wait(Names, erlang, node, [])
    end).

%% ---- what dies ----

%% A caller that is killed in the middle leaves nothing on its node, and the bodies go on.
caller_dies(Config) ->
    {A, Names} = setting(Config),
    _ = [begin
        Bodies = on(A, fun() ->
            Me = self(),
            Caller = spawn(fun() -> hawser:F(Names, ?BODIES, hold, [Me], Opts) end),
            Expected = case F of call_one -> 1; _ -> length(Names) end,
            Bodies = [receive {body, Body} -> Body end || _ <- lists:seq(1, Expected)],
            Monitor = monitor(process, Caller),
            exit(Caller, kill),
            receive {'DOWN', Monitor, process, Caller, killed} -> Bodies end
        end),
        ok = nothing_left(A, Names -- [element(2, A)]),
        ok = on(A, fun() ->
            %% With infinity, call_one's body on its own node runs in the caller.
            Alive = [Body || Body <- Bodies, erpc:call(node(Body), erlang, is_process_alive, [Body])],
            true = Alive =:= Bodies orelse F =:= call_one,
            _ = [exit(Body, kill) || Body <- Bodies],
            ok
        end)
    end || F <- ?CALLS, Opts <- [true, #{timeout => 120000}]].

%% A body that somebody kills, at whichever node, has crashed with the reason; the others answer.
body_killed(Config) ->
    {A, Names} = setting(Config),
    on(A, fun() ->
        _ = [begin
            Told = {Victim, {exit, killed}},
            Replies = [{Node, here} || Node <- Names, Node =/= Victim],
            {Replies, [Told]} = with_one_killed(call_all_wait, Names, Victim),
            {error, Told} = with_one_killed(call_all, Names, Victim),
            {ok, {Winner, here}} = with_one_killed(call_any, Names, Victim),
            true = Winner =/= Victim,
            {error, [Told]} = with_one_killed(call_any, [Victim], Victim)
        end || Victim <- Names],
        %% Not on this node, where the body of call_one is the caller.
        _ = [{error, [{Victim, {exit, killed}}]} = with_one_killed(call_one, [Victim], Victim) || Victim <- tl(Names)]
    end).

%% A call of the nodes, during which the body at Victim is killed; then the others return.
with_one_killed(F, Names, Victim) ->
    Me = self(),
    {Caller, Monitor} = spawn_monitor(fun() ->
        exit({answer, ?BODIES:mailbox(fun() -> hawser:F(Names, ?BODIES, hold, [Me]) end)})
    end),
    Bodies = [receive {body, Body} -> Body end || _ <- Names],
    {[Killed], Others} = lists:partition(fun(Body) -> node(Body) =:= Victim end, Bodies),
    Watched = monitor(process, Killed),
    exit(Killed, kill),
    receive {'DOWN', Watched, process, Killed, _} -> ok end,
    _ = [Body ! {return, here} || Body <- Others],
    receive {'DOWN', Monitor, process, Caller, {answer, {Answer, []}}} -> Answer end.

%% A process that waits for a node without a session is killed: that node is unreachable, the others answer.
waiter_killed(Config) ->
    {A, Names} = setting(Config),
    NodeE = lists:last(Names),
    on(A, fun() ->
        {Replies, Rejects} = interrupted(Names, {hawser_gather, work, 5}),
        Replies = [{Node, here} || Node <- Names, Node =/= NodeE],
        Rejects = [{NodeE, {badrpc, noconnection}}]
    end).

%% The same when the guard is killed.
guard_killed(Config) ->
    {A, Names} = setting(Config),
    NodeE = lists:last(Names),
    on(A, fun() ->
        {Replies, Rejects} = interrupted(Names, {hawser_gather, guard, 1}),
        Replies = [{Node, here} || Node <- Names, Node =/= NodeE],
        Rejects = [{NodeE, {badrpc, noconnection}}]
    end).

%% A call of all nodes, during which our process with that initial call is killed; then the bodies return.
interrupted(Names, Initial) ->
    Me = self(),
    {Caller, Monitor} = spawn_monitor(fun() ->
        exit({answer, ?BODIES:mailbox(fun() -> hawser:call_all_wait(Names, ?BODIES, hold, [Me]) end)})
    end),
    Bodies = [receive {body, Body} -> Body end || _ <- Names],
    [Process] = [Pid || Pid <- ?BODIES:own_processes(), process_info(Pid, initial_call) =:= {initial_call, Initial}],
    Killed = monitor(process, Process),
    exit(Process, kill),
    receive {'DOWN', Killed, process, Process, killed} -> ok end,
    _ = [Body ! {return, here} || Body <- Bodies],
    receive {'DOWN', Monitor, process, Caller, {answer, {Answer, []}}} -> Answer end.

%% With no process left to be had, nodes with a session answer and the others are system_limit.
process_table_full(Config) ->
    {{_, NodeA} = A, Names} = setting(Config),
    NodeE = lists:last(Names),
    {Replies, Rejects} = on(A, fun() ->
        Fillers = fill_process_table([]),
        Answer = hawser:call_all_wait(Names, erlang, node, []),
        %% Room for one process is too little for a node that has to be waited for, and what took it goes again.
        ok = end_process(hd(Fillers)),
        {[], [{NodeE, {badrpc, system_limit}}]} = hawser:call_all_wait([NodeE], erlang, node, []),
        ok = until(fun() -> ?BODIES:own_processes() =:= [] end),
        _ = [exit(Filler, kill) || Filler <- Fillers],
        Answer
    end),
    Replies = [{Node, Node} || Node <- Names, Node =/= NodeA, Node =/= NodeE],
    [{NodeA, {badrpc, system_limit}}, {NodeE, {badrpc, system_limit}}] = Rejects.

end_process(Pid) ->
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

fill_process_table(Fillers) ->
    try spawn(fun() -> receive never -> ok end end) of
        Filler -> fill_process_table([Filler | Fillers])
    catch
        error:system_limit -> Fillers
    end.

%% Nodes that die in the middle, with a session and without, are noconnection at once; the others' answers stand.
node_dies(Config) ->
    {A, [_, NodeB | _] = Names} = setting(Config),
    [_, {B, NodeB}, _, _, {E, NodeE}] = peers(Config),
    Lost = [NodeB, NodeE],
    Left = Names -- Lost,
    {Callers, Bodies} = on(A, fun() ->
        Me = self(),
        Calls = [
            fun() -> hawser:call_all_wait(Names, ?BODIES, hold, [Me]) end,
            fun() -> hawser:call_all(Names, ?BODIES, hold, [Me]) end,
            fun() -> hawser:call_all(Lost, ?BODIES, hold, [Me]) end,
            fun() -> hawser:call_any(Lost, ?BODIES, hold, [Me], true) end,
            fun() -> hawser:call_one(Lost, ?BODIES, hold, [Me], true) end
        ],
        Callers = [spawn(fun() ->
            Answer = ?BODIES:mailbox(Call),
            receive {tell, Teller} -> Teller ! {self(), Answer} end
        end) || Call <- Calls],
        Count = 2 * length(Names) + 2 * length(Lost) + 1,
        {Callers, [receive {body, Body} -> Body end || _ <- lists:seq(1, Count)]}
    end),
    _ = [ok = kill(Peer) || Peer <- [B, E]],
    on(A, fun() ->
        _ = [Body ! {return, here} || Body <- Bodies, lists:member(node(Body), Left)],
        Replies = [{Node, here} || Node <- Left],
        Rejects = [{Node, {badrpc, noconnection}} || Node <- Lost],
        [{Replies, Rejects}, {ok, Replies}, {error, none_is_available}, {error, Rejects}, {error, Asked}] =
            [begin Caller ! {tell, self()}, receive {Caller, {Answer, []}} -> Answer end end || Caller <- Callers],
        true = lists:sort(Asked) =:= lists:sort(Rejects)
    end).

%% ---- what hangs ----

%% One node of several is stopped: the others' answers are there, it is a timeout, and nothing comes later.
hung_of_several(Config) ->
    {A, [NodeA, NodeB | _] = Names} = setting(Config),
    [_, {B, NodeB}, _, _, {E, NodeE}] = peers(Config),
    Frozen = [freeze(Peer) || Peer <- [B, E]],
    Hung = [NodeB, NodeE],
    on(A, fun() ->
        Replies = [{Node, Node} || Node <- Names -- Hung],
        Rejects = [{Node, {badrpc, timeout}} || Node <- Hung],
        {Replies, Rejects} = hawser:call_all_wait(Names, erlang, node, [], #{timeout => 500}),
        {ok, Replies} = hawser:call_all(Names, erlang, node, [], #{timeout => 500}),
        Strict = #{timeout => 500, rpc_errors => true},
        {error, {_, {badrpc, timeout}}} = hawser:call_all(Names, erlang, node, [], Strict),
        {ok, {_, _}} = hawser:call_any(tl(Names), erlang, node, []),
        {ok, {NodeA, NodeA}} = hawser:call_one(Names, erlang, node, []),
        {error, none_is_available} = hawser:call_any(Hung, erlang, node, [], #{timeout => 100}),
        {error, Asked} = hawser:call_one(Hung, erlang, node, [], #{timeout => 100, rpc_errors => true}),
        true = lists:sort(Asked) =:= lists:sort(Rejects)
    end),
    _ = [ok = thaw(F) || F <- Frozen],
    on(A, fun() ->
        Each = [{Node, Node} || Node <- Names],
        {ok, Each} = hawser:call_all(Names, erlang, node, [], #{timeout => 30000, rpc_errors => true})
    end).

%% The queue to the stopped node is full as well: still one deadline, and the others are asked without waiting for it.
hung_and_full(Config) ->
    {A, [_, NodeB | _] = Names} = setting(Config),
    [_, {B, NodeB} | _] = peers(Config),
    Frozen = freeze(B),
    Fillers = on(A, fun() -> ?BODIES:fill(NodeB, 64) end),
    on(A, fun() ->
        Replies = [{Node, Node} || Node <- Names, Node =/= NodeB],
        Rejects = [{NodeB, {badrpc, timeout}}],
        {Replies, Rejects} = hawser:call_all_wait([NodeB | Names], erlang, node, [], #{timeout => 500}),
        {ok, {_, _}} = hawser:call_any([NodeB | Names], erlang, node, []),
        {error, {_, {exit, _}}} = hawser:call_all([NodeB | Names], erlang, exit, [at_once]),
        _ = [exit(Filler, kill) || Filler <- Fillers]
    end),
    ok = nothing_left(A, [NodeB]),
    ok = thaw(Frozen),
    on(A, fun() -> {ok, NodeB} = hawser:call(NodeB, erlang, node, [], 30000) end).

%% A thousand callers ask all nodes, one of which hangs: each gets the others' answers.
thousand_callers(Config) ->
    {A, [_, NodeB | _] = Names} = setting(Config),
    [_, {B, NodeB} | _] = peers(Config),
    Frozen = freeze(B),
    on(A, fun() ->
        Callers = [spawn_monitor(fun() ->
            Call = fun() -> hawser:call_all_wait(Names, ?BODIES, same, [N], #{timeout => 5000}) end,
            exit({answer, ?BODIES:mailbox(Call)})
        end) || N <- lists:seq(1, 1000)],
        Answers = [receive {'DOWN', Monitor, process, Pid, Reason} -> Reason end || {Pid, Monitor} <- Callers],
        Expected = [{answer, {{[{Node, N} || Node <- Names, Node =/= NodeB], [{NodeB, {badrpc, timeout}}]}, []}}
                    || N <- lists:seq(1, 1000)],
        Expected = Answers,
        0 = ?BODIES:waiting_calls(NodeB)
    end),
    ok = thaw(Frozen),
    on(A, fun() -> {_, []} = hawser:call_all_wait(Names, erlang, node, [], #{timeout => 30000}) end).

%% cast_all serves the others before it waits for a node whose queue is full.
cast_all_past_the_full(Config) ->
    {A, [_, NodeB | _] = Names} = setting(Config),
    [_, {B, NodeB} | _] = peers(Config),
    Frozen = freeze(B),
    Caster = on(A, fun() ->
        Me = self(),
        Fillers = ?BODIES:fill(NodeB, 64),
        Caster = spawn(fun() ->
            ok = hawser:cast_all([NodeB | Names -- [node(), lists:last(Names)]], ?BODIES, mark, [Me, served]),
            receive {tell, Teller} -> Teller ! {self(), done} end
        end),
        _ = [receive {ran, served} -> ok end || _ <- [c, d]],
        %% Nor did they wait until the stopped node was given up.
        [] = [Entry || #{report := #{what := session_ended}} = Entry <- hawser_test_nodes:node_logs()],
        _ = [exit(Filler, kill) || Filler <- Fillers],
        Caster
    end),
    ok = thaw(Frozen),
    on(A, fun() -> Caster ! {tell, self()}, receive {Caster, done} -> ok end end).

%% What is longer than `max_message_bytes' is system_limit for nodes with a session, and reaches the others.
too_long(Config) ->
    {{_, NodeA} = A, Names} = setting(Config),
    NodeE = lists:last(Names),
    Long = binary:copy(<<1>>, 10000),
    on(A, fun() ->
        Replies = [{NodeA, Long}, {NodeE, Long}],
        Rejects = [{Node, {badrpc, system_limit}} || Node <- Names -- [NodeA, NodeE]],
        {Replies, Rejects} = hawser:call_all_wait(Names, ?BODIES, same, [Long]),
        {ok, Replies} = hawser:call_all(Names, ?BODIES, same, [Long]),
        {caught, system_limit} = caught(cast_all, [Names, ?BODIES, mark, [self(), Long]]),
        _ = [receive {ran, Long} -> ok end || _ <- Replies]
    end).

%% With `fallback' set to none a node without hawser cannot be reached.
without_fallback(Config) ->
    {A, Names} = setting(Config),
    NodeE = lists:last(Names),
    on(A, fun() ->
        Replies = [{Node, Node} || Node <- Names, Node =/= NodeE],
        {Replies, [{NodeE, {badrpc, noconnection}}]} = hawser:call_all_wait(Names, erlang, node, []),
        {ok, Replies} = hawser:call_all(Names, erlang, node, []),
        {error, [{NodeE, {badrpc, noconnection}}]} = hawser:call_any([NodeE], erlang, node, [], true),
        ok = hawser:cast_all(Names, erlang, node, [])
    end).
