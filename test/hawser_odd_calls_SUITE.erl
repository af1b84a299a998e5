%% Calls between a node and a peer of another make that does no wrong, however
%% odd it is: answers out of turn, on another shard, twice, late or never reach
%% each caller once or not at all, whatever ends the session tells every caller
%% so, and requests of all shapes start what they ask for.
-module(hawser_odd_calls_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([
    any_order_any_shard/1, twice/1, never/1, answered_late/1, callers_killed/1, session_ends/1, node_killed/1,
    deadlines/1, leaders/1, arguments/1, between_messages/1, casts_to_a_full_table/1
]).
%% Run on the nodes.
-export([node_call/3, node_outcomes/1, node_fill/0, node_ran/0, node_have_run/0, node_casts/1]).

-import(hawser_raw_wire, [call/3, cast/1, answer/2, term/3, plain/1, to_pid/2]).
-import(hawser_attacked, [session/2, opened/1, ended/1, take/2, left/1, sink/1]).
-import(hawser_raw_peer, [send_batch/3, recv_frames/2]).
-import(hawser_test_nodes, [start_node/1]).

-define(CALLERS, 1000).
-define(HEARTBEAT_MS, 500).

suite() ->
    [{timetrap, {seconds, 60}}].

all() ->
    [
        any_order_any_shard, twice, never, answered_late, callers_killed, session_ends, node_killed, deadlines, leaders,
        arguments, between_messages, casts_to_a_full_table
    ].

init_per_suite(Config) ->
    Env = #{max_message_bytes => 1048576, heartbeat_interval_ms => ?HEARTBEAT_MS},
    [{attacked, hawser_attacked:start(Env)} | Config].

end_per_suite(Config) ->
    hawser_attacked:stop(proplists:get_value(attacked, Config)).

%% Runs a case with the node, which must come out of it as it went in.
with_node(Config, Case) ->
    Attacked = proplists:get_value(attacked, Config),
    ok = hawser_test_nodes:forget_logs(hawser_attacked:victim(Attacked)),
    [] = left(Attacked),
    Base = hawser_attacked:base(Attacked),
    _ = Case(Attacked),
    [] = left(Attacked),
    ok = hawser_attacked:back_to(Base, Attacked),
    ok = hawser_attacked:unharmed(Attacked).

%% ---- the node calls ----

%% Answers may come in any order and on any shard; each caller gets its own, and nothing else.
any_order_any_shard(Config) ->
    with_node(Config, fun(Attacked) ->
        [First, Second] = two_shards(Attacked),
        Callers = callers(Attacked, infinity),
        {[_ | _] = AtFirst, [_ | _] = AtSecond} = called(Attacked, First, Second),
        {Dropped, _} = hawser_attacked:dropped(Attacked, fun() ->
            _ = send_batch(Second, [], [returned(Call) || Call <- shuffled(AtFirst)]),
            _ = send_batch(First, [], [thrown(Call) || Call <- shuffled(AtSecond)]),
            Expected = lists:sort([{N, {return, N}} || {_, N} <- AtFirst] ++ [{N, {throw, N}} || {_, N} <- AtSecond]),
            Expected = outcomes(Attacked, Callers)
        end),
        {0, 0} = {map_size(Dropped), waiting(Attacked)},
        over(Attacked, [First, Second])
    end).

%% The first of several answers counts; the others are counted as late.
twice(Config) ->
    with_node(Config, fun(Attacked) ->
        [First, Second] = two_shards(Attacked),
        Callers = callers(Attacked, infinity),
        {AtFirst, AtSecond} = called(Attacked, First, Second),
        Calls = AtFirst ++ AtSecond,
        {#{late_answer := Late}, Conn} = hawser_attacked:dropped(Attacked, fun() ->
            Once = send_batch(First, [], [[returned(Call), thrown(Call)] || Call <- Calls]),
            Twice = send_batch(Once, [], [[thrown(Call), plainly(Call)] || Call <- Calls]),
            delivered(Attacked, Twice)
        end),
        Late = 3 * ?CALLERS,
        Expected = [{N, {return, N}} || N <- lists:seq(1, ?CALLERS)],
        Expected = outcomes(Attacked, Callers),
        over(Attacked, [Conn, Second])
    end).

%% A call that is never answered ends at its timeout; nothing of it stays.
never(Config) ->
    with_node(Config, fun(Attacked) ->
        [First, Second] = two_shards(Attacked),
        Callers = callers(Attacked, 1),
        Expected = [{N, {system, timeout}} || N <- lists:seq(1, ?CALLERS)],
        Expected = outcomes(Attacked, Callers),
        0 = waiting(Attacked),
        over(Attacked, [First, Second])
    end).

%% An answer that comes after the timeout is counted and reaches nobody, also when its slot in the table has been used
%% again; who called since gets his own.
answered_late(Config) ->
    with_node(Config, fun(Attacked) ->
        Conn = opened(Attacked),
        Gone = callers(Attacked, 1),
        _ = [{system, timeout} = Outcome || {_, Outcome} <- outcomes(Attacked, Gone)],
        {LateCalls, Known} = calls_of(Conn, ?CALLERS, #{}),
        Callers = callers(Attacked, infinity),
        {Calls, _} = calls_of(Conn, ?CALLERS, Known),
        {#{late_answer := ?CALLERS}, Next} = hawser_attacked:dropped(Attacked, fun() ->
            delivered(Attacked, send_batch(Conn, [], [thrown(Call) || Call <- LateCalls]))
        end),
        ?CALLERS = waiting(Attacked),
        _ = send_batch(Next, [], [returned(Call) || Call <- Calls]),
        Expected = [{N, {return, N}} || N <- lists:seq(1, ?CALLERS)],
        Expected = outcomes(Attacked, Callers),
        over(Attacked, [Conn])
    end).

%% Callers that are killed wait no longer than to the next heartbeat, and the others are not forgotten with them.
callers_killed(Config) ->
    with_node(Config, fun(#{stranger := {_, Node}} = Attacked) ->
        [Conn] = session(Attacked, #{heartbeat_interval_ms => ?HEARTBEAT_MS}),
        Victim = hawser_attacked:victim(Attacked),
        ok = hawser_test_nodes:call(Victim, hawser, await, [Node, 20000]),
        Callers = callers(Attacked, infinity),
        {Calls, _} = calls_of(Conn, ?CALLERS, #{}),
        {Killed, Left} = lists:partition(fun({N, _}) -> N rem 3 =:= 0 end, Callers),
        _ = [true = hawser_test_nodes:call(Victim, erlang, exit, [Pid, kill]) || {_, Pid} <- Killed],
        ok = hawser_attacked:until(fun() -> waiting(Attacked) =:= length(Left) end),
        {#{late_answer := Late}, _} = hawser_attacked:dropped(Attacked, fun() ->
            delivered(Attacked, send_batch(Conn, [], [returned(Call) || Call <- Calls]))
        end),
        Late = length(Killed),
        Expected = [{N, {return, N}} || {N, _} <- Left],
        Expected = outcomes(Attacked, Left),
        over(Attacked, [Conn])
    end).

%% However a session ends, everybody who waits learns it, once; an answer that came before is an answer.
session_ends(Config) ->
    with_node(Config, fun(Attacked) ->
        Raw = fun(Bytes) -> fun(Conns, _) -> [hawser_raw_peer:raw(Conn, Bytes) || Conn <- Conns] end end,
        %% Starts as an answer and is none: only the VM's decoder finds out.
        NoTerm = fun([Conn | _], {Id, _}) ->
            send_batch(Conn, [], answer(Id, {plain, <<131, 104, 2, 119, 6, "return">>}))
        end,
        _ = [begin
            [First, Second] = two_shards(Attacked),
            Callers = callers(Attacked, infinity),
            {AtFirst, AtSecond} = called(Attacked, First, Second),
            {Answered, [Last | _] = Left} = lists:split(length(AtFirst) div 2, AtFirst),
            Next = delivered(Attacked, send_batch(First, [], [returned(Call) || Call <- Answered])),
            _ = End([Next, Second], Last),
            Expected = lists:sort([{N, {return, N}} || {_, N} <- Answered]
                ++ [{N, {system, noconnection}} || {_, N} <- Left ++ AtSecond]),
            Expected = outcomes(Attacked, Callers),
            Reason = kind(ended(Attacked)),
            _ = [hawser_raw_peer:close(Conn) || Conn <- [First, Second]]
        end || {Reason, End} <- [
            {lost, fun(Conns, _) -> [hawser_raw_peer:close(Conn) || Conn <- Conns] end},
            {peer_closed, Raw(hawser_raw_wire:close(0, 1, <<>>))},
            {malformed, Raw(hawser_raw_wire:record(9, 0, <<>>))},
            {malformed, NoTerm}
        ]]
    end).

kind(Reason) when is_tuple(Reason) -> element(1, Reason);
kind(Reason) -> Reason.

%% A node that is killed owes a thousand answers: each caller gets noconnection, once, and nothing waits any more.
node_killed(_) ->
    [{A, NodeA}, {B, NodeB}] = [start_node(#{env => #{shards => 2, fallback => none}}) || _ <- [a, b]],
    ok = hawser_test_nodes:await_session({A, NodeA}, {B, NodeB}),
    Calls = [NodeB, {timer, sleep, [infinity]}, {?CALLERS, infinity}],
    Callers = hawser_test_nodes:call(A, ?MODULE, node_call, Calls),
    Waiting = fun() ->
        #{session := #{shards := Shards}} = hawser_test_nodes:call(A, hawser, info, [NodeB]),
        lists:sum([Count || #{waiting_calls := Count} <- Shards])
    end,
    ok = hawser_attacked:until(fun() -> Waiting() =:= ?CALLERS end),
    ok = hawser_test_nodes:kill(B),
    Expected = [{N, {system, noconnection}, []} || N <- lists:seq(1, ?CALLERS)],
    Expected = hawser_test_nodes:call(A, ?MODULE, node_outcomes, [Callers]),
    {lost, _} = hawser_test_nodes:await_end(A, NodeB).

%% A call's deadline is on the clock of the batch that carries it; one without timeout, or with a longer one than the
%% clock can tell, has none.
deadlines(Config) ->
    with_node(Config, fun(Attacked) ->
        Conn = opened(Attacked),
        _ = [begin
            Callers = callers(Attacked, TimeoutMs, 1),
            [#{to := {call, Id, Deadline}, clock_ms := Clock}] = frames_of(Conn),
            Right = case Deadline of
                none -> TimeoutMs > 1 bsl 31;
                _ -> (Deadline - Clock) band 16#FFFFFFFF =< TimeoutMs
            end,
            {TimeoutMs, true} = {TimeoutMs, Right},
            N = maps:get(number, Conn),
            ok = hawser_raw_peer:raw(Conn, hawser_raw_wire:batch(N + Turn, 0, [], returned({Id, 1}))),
            [{1, {return, 1}}] = outcomes(Attacked, Callers)
        end || {Turn, TimeoutMs} <- [{0, infinity}, {1, 20000}, {2, (1 bsl 31) + 20000}, {3, 16#FFFFFFFF}]],
        over(Attacked, [Conn])
    end).

%% ---- the node is called ----

%% The group leader may be a process of any node, alive or not; nobody connects to it for that.
leaders(Config) ->
    with_node(Config, fun(#{stranger := {Stranger, _}, neighbour := {Neighbour, _}} = Attacked) ->
        Conn = #{ends := Ends} = opened(Attacked),
        Victim = hawser_attacked:victim(Attacked),
        Nodes = hawser_test_nodes:call(Victim, erlang, nodes, [connected]),
        Leaders = [
            maps:get(pid, sink(Attacked)), hawser_test_nodes:call(Victim, erlang, spawn, [erlang, self, []]),
            hawser_test_nodes:call(Neighbour, erlang, whereis, [init]),
            hawser_test_nodes:call(Stranger, erlang, self, []),
            hawser_term_kinds:pid('nobody@nowhere.invalid', 1, 2, 3)
        ],
        Requests = [{Leader, erlang, group_leader, []} || Leader <- Leaders],
        Forms = [Form || Request <- Requests, Form <- [term(Request, #{}, Ends), plain(Request)]],
        Numbered = lists:zip(lists:seq(1, length(Forms)), Forms),
        _ = send_batch(Conn, [], [[cast(Form), call(N, none, Form)] || {N, Form} <- Numbered]),
        Answers = lists:sort([{Id, Outcome} || {{6, <<Id:64>>, _}, Outcome} <- recv_frames(Conn, length(Forms))]),
        Expected = lists:zip(lists:seq(1, length(Forms)), [{return, L} || L <- Leaders, _ <- [term, plain]]),
        Expected = Answers,
        Nodes = hawser_test_nodes:call(Victim, erlang, nodes, [connected]),
        over(Attacked, [Conn])
    end).

%% Arguments of any number and shape, functions that are not there: the call is answered as erpc answers it.
arguments(Config) ->
    with_node(Config, fun(#{sink := #{pid := Pid}} = Attacked) ->
        Conn = #{ends := Ends} = opened(Attacked),
        Rows = [
            {{erlang, abs, [-1]}, fun({return, 1}) -> ok end},
            {{erlang, list_to_tuple, [lists:seq(1, 255)]}, fun({return, T}) when tuple_size(T) =:= 255 -> ok end},
            {{erlang, abs, [1 | 2]}, fun({error, badarg, [_ | _]}) -> ok end},
            {{erlang, abs, lists:seq(1, 255)}, fun({error, undef, [{erlang, abs, _, _}]}) -> ok end},
            {{'no module', 'no function', []}, fun({error, undef, [{'no module', 'no function', [], []}]}) -> ok end},
            {{'', '', []}, fun({error, undef, [{'', '', [], []}]}) -> ok end},
            {{erlang, throw, [{}]}, fun({throw, {}}) -> ok end},
            {{erlang, exit, [normal]}, fun({exit, normal}) -> ok end},
            {{erlang, error, [#{}]}, fun({error, #{}, _}) -> ok end},
            {{erlang, apply, [erlang, exit, [kill]]}, fun({exit, kill}) -> ok end}
        ],
        Requests = [{Pid, M, F, A} || {{M, F, A}, _} <- Rows],
        Forms = [Form || Request <- Requests, Form <- [term(Request, #{}, Ends), plain(Request)]],
        _ = send_batch(Conn, [], [call(Id, none, Form) || {Id, Form} <- lists:zip(lists:seq(1, length(Forms)), Forms)]),
        Answers = lists:sort([{Id, Outcome} || {{6, <<Id:64>>, _}, Outcome} <- recv_frames(Conn, length(Forms))]),
        Judges = [Judge || {_, Judge} <- Rows, _ <- [term, plain]],
        _ = [ok = Judge(Outcome) || {Judge, {_, Outcome}} <- lists:zip(Judges, Answers)],
        over(Attacked, [Conn])
    end).

%% Requests between the messages of a batch keep none of them from arriving, in their order, and a body's own messages
%% come before its answer.
between_messages(Config) ->
    with_node(Config, fun(#{sink := #{pid := Pid}, stranger := {_, Here}} = Attacked) ->
        Conn = #{ends := Ends} = opened(Attacked),
        Own = {Pid, hawser, send, [{somebody, Here}, before]},
        Frames = [[to_pid(Pid, <<97, N>>), call(N, none, term(Own, #{}, Ends)), cast(plain({Pid, erlang, self, []}))]
                  || N <- lists:seq(1, 100)],
        _ = send_batch(Conn, [], Frames),
        Numbers = lists:seq(1, 100),
        Numbers = take(Attacked, 100),
        Got = recv_frames(Conn, 200),
        _ = lists:foldl(fun
            ({{2, _, _}, before}, {Sent, Answered}) -> {Sent + 1, Answered};
            ({{6, _, _}, {return, before}}, {Sent, Answered}) when Sent > Answered -> {Sent, Answered + 1}
        end, {0, 0}, Got),
        over(Attacked, [Conn])
    end).

%% Casts that come while the process table is full are counted, and the reader lives to start the later ones.
casts_to_a_full_table(_) ->
    [{A, NodeA}, {B, NodeB}] = [start_node(#{args => Args, env => #{shards => 1}}) || Args <- [[], ["+P", "1024"]]],
    ok = hawser_test_nodes:await_session({A, NodeA}, {B, NodeB}),
    full = hawser_test_nodes:call(B, ?MODULE, node_fill, []),
    ok = hawser_test_nodes:call(A, ?MODULE, node_casts, [NodeB]),
    %% Only now may the node be asked by other ways than hawser's.
    #{session := #{dropped := #{refused_cast := Refused}}} = hawser_test_nodes:call(B, hawser, info, [NodeA]),
    ok = hawser_attacked:until(fun() ->
        hawser_test_nodes:call(B, ?MODULE, node_have_run, []) =:= 101 - Refused
    end),
    true = Refused > 0.

%% ---- on the nodes of a full table ----

%% Keeps the process table full until it is told to stop.
-spec node_fill() -> full.
node_fill() ->
    persistent_term:put(?MODULE, counters:new(1, [])),
    Starter = self(),
    _ = spawn(fun() ->
        true = register(?MODULE, self()),
        filled(fill([]), Starter)
    end),
    receive full -> full end.

filled(Fillers, Starter) ->
    _ = [Starter ! full || Starter =/= none],
    receive
        {free, From} ->
            _ = [exit(Pid, kill) || Pid <- Fillers],
            _ = hawser:send(From, freed),
            ok
    after 0 ->
        erlang:yield(),
        filled(fill(Fillers), none)
    end.

fill(Fillers) ->
    try spawn(fun() -> receive after infinity -> ok end end) of
        Pid -> fill([Pid | Fillers])
    catch
        error:system_limit -> Fillers
    end.

-spec node_ran() -> ok.
node_ran() ->
    counters:add(persistent_term:get(?MODULE), 1, 1).

-spec node_have_run() -> non_neg_integer().
node_have_run() ->
    counters:get(persistent_term:get(?MODULE), 1).

%% A hundred casts that the full table may refuse, and one that it does not.
-spec node_casts(node()) -> ok.
node_casts(Node) ->
    _ = [ok = hawser:cast(Node, ?MODULE, node_ran, []) || _ <- lists:seq(1, 100)],
    _ = hawser:send({?MODULE, Node}, {free, self()}),
    receive freed -> hawser:cast(Node, ?MODULE, node_ran, []) end.

%% ---- on the node that calls ----

%% So many processes that call the function, with their number for an argument unless there are others.
-spec node_call(node(), {module(), atom(), number | [term()]}, {Count :: pos_integer(), timeout()}) ->
    [{N :: pos_integer(), pid()}].
node_call(Node, {M, F, Args}, {Count, TimeoutMs}) ->
    [{N, spawn(fun() ->
        A = case Args of number -> [N]; _ -> Args end,
        Outcome = hawser_request:call(Node, {M, F, A}, hawser_request:deadline(TimeoutMs)),
        receive
            {outcome, From, Ref} ->
                {messages, Left} = process_info(self(), messages),
                From ! {Ref, {N, Outcome, Left}}
        end
    end)} || N <- lists:seq(1, Count)].

%% What each of them got, and what it has got besides; waits until all have.
-spec node_outcomes([{pos_integer(), pid()}]) -> [{pos_integer(), hawser_request:outcome(), [term()]}].
node_outcomes(Callers) ->
    Asked = [{Pid, monitor(process, Pid)} || {_, Pid} <- Callers],
    _ = [Pid ! {outcome, self(), Ref} || {Pid, Ref} <- Asked],
    [receive
        {Ref, Outcome} -> demonitor(Ref, [flush]), Outcome;
        {'DOWN', Ref, process, _, Why} -> {caller_died, Why}
    end || {_, Ref} <- Asked].

%% ---- helpers ----

two_shards(#{stranger := {_, Node}} = Attacked) ->
    Conns = session(Attacked, #{shards => 2}),
    ok = hawser_test_nodes:call(hawser_attacked:victim(Attacked), hawser, await, [Node, 20000]),
    Conns.

callers(Attacked, TimeoutMs) ->
    callers(Attacked, TimeoutMs, ?CALLERS).

callers(#{stranger := {_, Node}} = Attacked, TimeoutMs, Count) ->
    Calls = [Node, {some_module, some_function, number}, {Count, TimeoutMs}],
    hawser_test_nodes:call(hawser_attacked:victim(Attacked), ?MODULE, node_call, Calls).

%% What the callers got, when none has anything else in its mailbox.
outcomes(Attacked, Callers) ->
    Victim = hawser_attacked:victim(Attacked),
    [{N, Outcome} || {N, Outcome, []} <- hawser_test_nodes:call(Victim, ?MODULE, node_outcomes, [Callers])].

waiting(Attacked) ->
    lists:sum(waiting_on_shards(Attacked)).

waiting_on_shards(Attacked) ->
    #{shards := Shards} = hawser_attacked:info(Attacked),
    [Count || #{waiting_calls := Count} <- Shards].

%% The calls that all the callers have made, by shard, once they have.
called(Attacked, First, Second) ->
    ok = hawser_attacked:until(fun() -> waiting(Attacked) =:= ?CALLERS end),
    [AtFirst, AtSecond] = waiting_on_shards(Attacked),
    {Calls, _} = calls_of(First, AtFirst, #{}),
    {Others, _} = calls_of(Second, AtSecond, #{}),
    {Calls, Others}.

%% Number and argument of so many calls.
calls_of(Conn, Count, Known) ->
    {Frames, Atoms} = hawser_raw_peer:recv_frames(Conn, Count, Known),
    Calls = [{Id, N} || {{5, <<Id:64, _/binary>>, _}, {Leader, some_module, some_function, [N]}} <- Frames,
                        is_pid(Leader)],
    Count = length(Calls),
    {Calls, Atoms}.

returned({Id, N}) -> answer(Id, <<104, 2, 119, 6, "return", 98, N:32>>).
thrown({Id, N}) -> answer(Id, <<104, 2, 119, 5, "throw", 98, N:32>>).
plainly({Id, N}) -> answer(Id, plain({exit, N})).

%% Everything that was sent has been delivered: a message behind it has.
delivered(Attacked, Conn) ->
    {Good, Message} = hawser_attacked:tell(Attacked, behind),
    Next = send_batch(Conn, [], Good),
    [Message] = take(Attacked, 1),
    Next.

%% The frames of the next batch, each with its clock, read by the other reader of the drawing.
frames_of(#{socket := Socket} = Conn) ->
    {ok, <<Length:32>>} = gen_tcp:recv(Socket, 4, 10000),
    {ok, Record} = gen_tcp:recv(Socket, Length, 10000),
    case hawser_wire:records(<<Length:32, Record/binary>>) of
        [#{kind := batch, clock_ms := Clock, frames := Frames}] -> [Frame#{clock_ms => Clock} || Frame <- Frames];
        [#{kind := tick}] -> frames_of(Conn)
    end.

shuffled(List) ->
    [Element || {_, Element} <- lists:sort([{rand:uniform(), Element} || Element <- List])].

over(Attacked, Conns) ->
    _ = [hawser_raw_peer:close(Conn) || Conn <- Conns],
    {lost, _} = ended(Attacked).
