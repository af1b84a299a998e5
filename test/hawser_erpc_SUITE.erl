%% hawser_erpc does what the running OTP's erpc does: the same calls go through both, and what comes of them is
%% compared. Besides, what only hawser can do wrong: sessions that end, answers that are too long, races with timeouts.
-module(hawser_erpc_SUITE).

-export([suite/0, all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2, end_per_group/2]).
-export([
    same_exports/1, same_types/1, calls_there/1, calls_here/1, calls_to_many/1, wrong_arguments/1,
    wrong_arguments_send_nothing/1,
    options/1, round_trips/1, requests/1, error_reports/1, signal_behind_messages/1, given_up_is_forgotten/1,
    every_term/1, too_long/1, race_with_timeout/1, full_process_table/1, node_dies/1, session_ends/1, caller_dies/1,
    no_fallback/1, no_hawser/1
]).
%% Run on the nodes.
-export([
    differences/2, unexpected/2, scenario_differences/2, round_trip_differences/2, reports/3, race/3, raced/3,
    await_no_calls/1, signal_behind/2, given_up/1, given_up_late/1,
    sent/1, full_table/2, fill_table/1, blocked/3, outcomes/1, start_callers/2, term_differences/2
]).

-import(hawser_test_nodes, [start_node/1, stop/1, kill/1, call/4, call/5, await_session/2]).
-import(hawser_erpc_calls, [outcome/1, normal/1]).

-define(B, hawser_erpc_bodies).
-define(MS, 120000).
-define(MODULES, [erpc, hawser_erpc]).

suite() ->
    [{timetrap, {seconds, 300}}].

all() ->
    [same_exports, same_types, {group, one_shard}, {group, four_shards}, {group, without_session}, {group, edges}].

groups() ->
    Calls = [calls_there, calls_to_many, wrong_arguments, round_trips, requests, error_reports, every_term],
    Session = [wrong_arguments_send_nothing, signal_behind_messages, given_up_is_forgotten, race_with_timeout],
    [
        {one_shard, [], Calls ++ Session},
        {four_shards, [], Calls ++ [calls_here, options] ++ Session},
        {without_session, [], Calls ++ [options]},
        {edges, [], [too_long, full_process_table, node_dies, session_ends, caller_dies, no_fallback, no_hawser]}
    ].

%% A node without hawser, which other nodes reach over distribution.
init_per_suite(Config) ->
    [{plain, start_node(#{hawser => false, link => false})} | Config].

end_per_suite(Config) ->
    stop(element(1, proplists:get_value(plain, Config))).

init_per_group(edges, Config) ->
    Config;
init_per_group(Group, Config) ->
    Env = #{shards => case Group of four_shards -> 4; _ -> 1 end},
    A = start_node(#{env => Env, link => false}),
    B = start_node(#{env => Env, link => false, hawser => Group =/= without_session}),
    _ = [ok = await_session(A, B) || Group =/= without_session],
    [{nodes, [A, B]} | Config].

end_per_group(edges, _) ->
    ok;
end_per_group(_, Config) ->
    [stop(Peer) || {Peer, _} <- proplists:get_value(nodes, Config)].

%% The peer that calls, and what the names of the tables mean to it.
ends(Config) ->
    [{A, Here}, {_, There}] = proplists:get_value(nodes, Config),
    {_, Plain} = proplists:get_value(plain, Config),
    {A, #{here => Here, there => There, plain => Plain, nowhere => 'nobody@127.0.0.1'}}.

%% ---- what it offers ----

%% All that the running OTP's erpc exports for users, and nothing else.
same_exports(_) ->
    %% What erpc runs at other nodes, or lends to other modules of OTP.
    Internal = [{execute_call, 3}, {execute_call, 4}, {execute_cast, 3}, {is_arg_error, 4}, {trim_stack, 4},
        {call_result, 4}],
    Theirs = lists:sort(erpc:module_info(exports) -- Internal),
    Theirs = lists:sort(hawser_erpc:module_info(exports)).

%% The types that erpc exports, so that specs still hold; `call_options' is new in OTP 28.
same_types(_) ->
    case {exported_types(erpc), exported_types(hawser_erpc)} of
        {none, _} -> {skip, "OTP has no debug information here"};
        {Theirs, Ours} -> [] = Theirs -- Ours, [] = Ours -- [{call_options, 0} | Theirs]
    end.

exported_types(Module) ->
    {Module, Binary, _} = code:get_object_code(Module),
    case beam_lib:chunks(Binary, [abstract_code]) of
        {ok, {Module, [{abstract_code, {raw_abstract_v1, Forms}}]}} ->
            lists:append([Types || {attribute, _, export_type, Types} <- Forms]);
        {ok, {Module, [{abstract_code, no_abstract_code}]}} ->
            none
    end.

%% ---- the tables ----

%% Calls of every kind of body at the other node give the same value, or the same class, reason and stack, and leave
%% nothing.
calls_there(Config) ->
    compare(Config, hawser_erpc_calls:rows('$there')).

%% The same on the own node, where a body without a timeout runs in the caller.
calls_here(Config) ->
    compare(Config, hawser_erpc_calls:rows('$here')).

%% Lists of nodes with duplicates, the own one, unknown ones; casts, and nodes that are not there.
calls_to_many(Config) ->
    compare(Config, hawser_erpc_calls:plain_rows()).

%% What is a wrong argument to erpc is one here, with the same error, in every place of every function.
wrong_arguments(Config) ->
    compare(Config, hawser_erpc_calls:bad_rows()).

compare(Config, Rows) ->
    {A, Nodes} = ends(Config),
    true = length(Rows) > 50,
    [] = call(A, ?MODULE, differences, [Rows, Nodes], ?MS).

%% A wrong argument is found before anything is sent.
wrong_arguments_send_nothing(Config) ->
    {A, #{there := There} = Nodes} = ends(Config),
    %% Lists may be wrong behind their beginning; the ids that rows are filled with are sent.
    Rows = [
        Row
     || {Function, Args} = Row <- hawser_erpc_calls:bad_rows(), lists:member(Function, [call, cast, send_request]),
        not lists:member('$collection', Args), not lists:any(fun is_list/1, Args)
    ],
    true = length(Rows) > 50,
    Before = call(A, ?MODULE, sent, [There]),
    Came = call(A, hawser_erpc_calls, run, [hawser_erpc, Rows, Nodes], ?MS),
    Refused = [Row || {Row, {{error, {erpc, badarg}}, [], []}} <- Came],
    Reached = [Row || {Row, _} <- Came] -- Refused,
    %% The rows that are refused send nothing; the others (a node that is not there, a fun for a fun) are run again to
    %% tell.
    Between = call(A, ?MODULE, sent, [There]),
    _ = call(A, hawser_erpc_calls, run, [hawser_erpc, Refused, Nodes], ?MS),
    true = length(Refused) > 50,
    Between = call(A, ?MODULE, sent, [There]),
    true = Between - Before =< length(Reached).

%% OTP 28's options are taken on every OTP; where erpc knows them it gives the same.
options(Config) ->
    {A, Nodes} = ends(Config),
    Expected = hawser_erpc_calls:option_rows(),
    [] = call(A, ?MODULE, unexpected, [Expected, Nodes], ?MS),
    _ = [[] = call(A, ?MODULE, differences, [[Row || {Row, _} <- Expected], Nodes], ?MS)
         || list_to_integer(erlang:system_info(otp_release)) >= 28],
    ok.

%% Every way from a request to its response, for every kind of body, here and there.
round_trips(Config) ->
    {A, Nodes} = ends(Config),
    [] = call(A, ?MODULE, round_trip_differences, [[here, there], Nodes], ?MS).

%% Everything that can be done with ids and collections has the same results, and leaves the same messages.
requests(Config) ->
    {A, Nodes} = ends(Config),
    Scenarios = [Name || {Name, _} <- hawser_erpc_requests:scenarios()],
    [] = call(A, ?MODULE, scenario_differences, [Scenarios, Nodes], ?MS).

%% A cast that fails leaves the report at the other node that erpc's leaves, and one that exits leaves none.
error_reports(Config) ->
    {A, #{there := There}} = ends(Config),
    {B, _} = lists:nth(2, proplists:get_value(nodes, Config)),
    Fun = fun() -> error(in_fun) end,
    Failing = [
        {?B, errors, [oops]}, {?B, tail, [oops]}, {?B, deep, [3, oops]}, {?B, throws, [oops]}, {?B, clause, [x]},
        {erlang, apply, [Fun, []]},
        {no_such_module, f, [1]}, {?B, value, lists:seq(1, 256)}, {?B, value, [1 | improper]}, {erlang, hd, [[]]},
        {?B, nested, [erpc, oops]}
    ],
    Silent = [{?B, exits, [normal]}, {?B, exits, [oops]}, {?B, value, [1]}, {?B, signal, [kill]}, {?B, signal, [oops]}],
    [Theirs, Ours] = [reports_of(A, B, There, Module, Failing, Silent) || Module <- ?MODULES],
    true = length(Theirs) >= length(Failing),
    [] = [{Mfa, X, Y} || {{Mfa, X}, {Mfa, Y}} <- lists:zip(Theirs, Ours), X =/= Y].

reports_of(A, B, There, Module, Failing, Silent) ->
    Collector = call(B, ?MODULE, reports, [self(), 0, collector]),
    Reports = [
        begin
            ok = call(A, Module, cast, [There | tuple_to_list(Mfa)]),
            {Mfa, call(B, ?MODULE, reports, [Collector, 1, take])}
        end
     || Mfa <- Failing
    ],
    %% What comes after the silent ones is the report of the one behind them, and no other.
    Behind = [
        begin
            ok = call(A, Module, cast, [There, ?MODULE, blocked, [Mfa, Collector, cast]]),
            {Mfa, call(B, ?MODULE, reports, [Collector, 1, behind])}
        end
     || Mfa <- Silent
    ],
    ok = call(B, ?MODULE, reports, [Collector, 0, stop]),
    Reports ++ Behind.

%% Terms of every kind arrive equal as arguments, results and reasons.
every_term(Config) ->
    {A, #{there := There}} = ends(Config),
    [] = call(A, ?MODULE, term_differences, [There, [call, throw, exit, error]], ?MS).

%% What a body has sent over hawser is there when its caller hears that a signal ended it.
signal_behind_messages(Config) ->
    {A, #{there := There}} = ends(Config),
    Reasons = [kill, normal, {a, reason}],
    _ = [{Reason, 20} = call(A, ?MODULE, signal_behind, [There, Reason]) || Reason <- Reasons, _ <- lists:seq(1, 10)],
    ok.

%% A call that was given up is forgotten at once, though its body never answers and its caller lives.
given_up_is_forgotten(Config) ->
    {A, #{there := There}} = ends(Config),
    {[_, _, _, _], 0} = call(A, ?MODULE, given_up, [There]),
    %% One whose answer has come is taken out of the mailbox.
    {{return, 1}, {messages, []}} = call(A, ?MODULE, given_up_late, [There]).

%% ---- edges ----

%% What is longer than max_message_bytes is system_limit for who asked, both ways, and what follows is answered.
too_long(_) ->
    Limit = 100000,
    [{A, _}, {_, There}] = Nodes = [start_node(#{env => #{max_message_bytes => Limit}}) || _ <- [a, b]],
    ok = await_session(hd(Nodes), lists:nth(2, Nodes)),
    TooLong = binary:copy(<<1>>, Limit + 1),
    Limited = {error, {erpc, system_limit}},
    [Limited = call(A, hawser_erpc_calls, outcome, [Fun]) || Fun <- [
        fun() -> hawser_erpc:call(There, ?B, value, [TooLong]) end,
        fun() -> hawser_erpc:call(There, ?B, bytes, [Limit + 1]) end,
        fun() -> hawser_erpc:call(There, ?B, exits_with_bytes, [Limit + 1]) end,
        fun() -> hawser_erpc:call(There, fun() -> error(?B:bytes(Limit + 1)) end) end,
        fun() -> hawser_erpc:call(There, fun() -> exit(self(), ?B:bytes(Limit + 1)), ?B:hang() end) end,
        fun() -> hawser_erpc:call(There, fun() -> lists:seq(1, Limit) end) end,
        fun() -> hawser_erpc:cast(There, ?B, value, [TooLong]) end,
        fun() -> hawser_erpc:multicast([There, There], ?B, value, [TooLong]) end,
        fun() -> hawser_erpc:receive_response(hawser_erpc:send_request(There, ?B, value, [TooLong])) end
    ]],
    {value, [Limited, Limited]} = call(A, hawser_erpc_calls, outcome, [fun() ->
        hawser_erpc:multicall([There, There], ?B, bytes, [Limit + 1])
    end]),
    {error, {{erpc, system_limit}, label, _}} = call(A, hawser_erpc_calls, outcome, [fun() ->
        Collection = hawser_erpc:send_request(There, ?B, value, [TooLong], label, hawser_erpc:reqids_new()),
        hawser_erpc:receive_response(Collection, infinity, true)
    end]),
    {value, 1} = call(A, hawser_erpc_calls, outcome, [fun() -> hawser_erpc:call(There, ?B, value, [1]) end]).

%% 100,000 calls whose answers come about when they time out: each answers or times out, no message is left to any
%% caller, and no call to the shards.
race_with_timeout(Config) ->
    {A, #{there := There}} = ends(Config),
    #{answer := Answers, timeout := Timeouts} = call(A, ?MODULE, race, [There, 100, 1000], 2 * ?MS),
    100000 = Answers + Timeouts,
    ok = call(A, ?MODULE, await_no_calls, [There], ?MS).

%% With the called node's process table full a call is system_limit, and the next one after it is answered.
full_process_table(_) ->
    [{A, _} = At, {_, There} = Full] = [start_node(#{args => Args}) || Args <- [[], ["+P", "1024"]]],
    ok = await_session(At, Full),
    [Theirs, Ours] = [call(A, ?MODULE, full_table, [There, Module], ?MS) || Module <- ?MODULES],
    [] = [{Theirs, Ours} || Theirs =/= Ours],
    {[{error, {erpc, system_limit}} | _], {messages, []}, {value, 1}} = Ours.

%% Whatever waits for a node that dies hears of noconnection, as from erpc.
node_dies(_) ->
    [{A, _} = At, {B, There} = Dying] = [start_node(#{}) || _ <- [a, b]],
    ok = await_session(At, Dying),
    [Theirs, Ours] = Callers = [call(A, ?MODULE, start_callers, [Module, There], ?MS) || Module <- ?MODULES],
    [_, _] = [call(A, ?MODULE, blocked, [There, Keeper, count], ?MS) || {Keeper, _} <- Callers],
    ok = kill(B),
    Came = call(A, ?MODULE, outcomes, [Theirs], ?MS),
    Came = call(A, ?MODULE, outcomes, [Ours], ?MS),
    true = lists:member({error, {erpc, noconnection}}, Came).

%% The session alone ends: the same, at once, and the next call goes over distribution.
session_ends(_) ->
    [{A, _} = At, {_, There} = Ending] = [start_node(#{}) || _ <- [a, b]],
    ok = await_session(At, Ending),
    {Keeper, _} = Callers = call(A, ?MODULE, start_callers, [hawser_erpc, There], ?MS),
    _ = call(A, ?MODULE, blocked, [There, Keeper, count], ?MS),
    %% Nothing is queued: there is nothing to drain, and the bodies live on.
    ok = call(A, hawser, disconnect, [There]),
    Came = call(A, ?MODULE, outcomes, [Callers], ?MS),
    true = lists:member({error, {erpc, noconnection}}, Came),
    1 = call(A, hawser_erpc, call, [There, ?B, value, [1]]).

%% Callers die while they wait: their bodies live on to their end, and no call stays with the shards.
caller_dies(_) ->
    [{A, _} = At, {_, There} = Called] = [start_node(#{env => #{heartbeat_interval_ms => 200}}) || _ <- [a, b]],
    ok = await_session(At, Called),
    _ = [
        begin
            {Keeper, Pids} = call(A, ?MODULE, start_callers, [Module, There], ?MS),
            Bodies = call(A, ?MODULE, blocked, [There, Keeper, count], ?MS),
            Down = [call(A, erlang, exit, [Pid, kill]) || Pid <- Pids],
            true = length(Down) > 5,
            ok = call(A, ?MODULE, await_no_calls, [There], ?MS),
            %% They are asked over the session by which the news of their callers' death would have come.
            true = lists:all(fun(Body) -> call(A, erpc, call, [There, erlang, is_process_alive, [Body]]) end, Bodies)
        end
     || Module <- ?MODULES
    ].

%% With `fallback' set to `none' nothing goes over distribution: a node without hawser is noconnection to every
%% function, and this node is as ever.
no_fallback(Config) ->
    {_, Plain} = proplists:get_value(plain, Config),
    [{A, Here} = At, {_, There} = Other] = [start_node(#{env => #{fallback => none, connect_timeout_ms => 500}})
        || _ <- [a, b]],
    ok = await_session(At, Other),
    Gone = {error, {erpc, noconnection}},
    [Gone = call(A, hawser_erpc_calls, outcome, [Fun], ?MS) || Fun <- [
        fun() -> hawser_erpc:call(Plain, ?B, value, [1]) end,
        fun() -> hawser_erpc:call(Plain, ?B, value, [1], 60000) end,
        fun() -> hawser_erpc:receive_response(hawser_erpc:send_request(Plain, ?B, value, [1])) end
    ]],
    Late = fun() -> hawser_erpc:call(Plain, ?B, value, [1], 0) end,
    {error, {erpc, timeout}} = call(A, hawser_erpc_calls, outcome, [Late]),
    [Gone, {ok, 1}, {ok, 1}, {ok, 1}, Gone] =
        call(A, hawser_erpc, multicall, [[Plain, There, Here, Here, Plain], ?B, value, [1]], ?MS),
    [1 = call(A, hawser_erpc, call, [Here, ?B, value, [1] | Timeout])
        || Timeout <- [[], [1000], [#{always_spawn => true}]]],
    {value, 1} = call(A, hawser_erpc_calls, outcome, [fun() ->
        Self = self(),
        ok = hawser_erpc:multicast([Plain, There, Here], ?B, tells, [Self, told]),
        ok = hawser_erpc:cast(Plain, ?B, tells, [Self, told]),
        receive told -> ok end,
        receive told -> ok end,
        1 = hawser_erpc:receive_response(hawser_erpc:send_request(There, ?B, value, [1]))
    end], ?MS),
    #{totals := #{dropped := #{no_session := 2}}} = call(A, hawser, info, []).

%% On a node where hawser does not run, and on one that has no name, hawser_erpc is erpc.
no_hawser(Config) ->
    {_, Plain} = proplists:get_value(plain, Config),
    {A, Here} = start_node(#{hawser => false}),
    {B, Nameless} = start_node(#{alive => false}),
    Rows = hawser_erpc_calls:plain_rows(),
    [] = call(A, ?MODULE, differences, [Rows, #{here => Here, there => Plain, nowhere => 'nobody@127.0.0.1'}], ?MS),
    [] = call(B, ?MODULE, differences, [Rows, #{here => Nameless, there => Plain, nowhere => 'nobody@127.0.0.1'}], ?MS).

%% ---- on the nodes ----

differences(Rows, Nodes) ->
    [Theirs, Ours] = [hawser_erpc_calls:run(Module, Rows, Nodes) || Module <- ?MODULES],
    [{Row, X, Y} || {{Row, X}, {Row, Y}} <- lists:zip(Theirs, Ours), X =/= Y].

unexpected(Expected, Nodes) ->
    Came = hawser_erpc_calls:run(hawser_erpc, [Row || {Row, _} <- Expected], Nodes),
    [{Row, Wanted, Is} || {{Row, Wanted}, {Row, Is}} <- lists:zip(Expected, Came), not expected(Wanted, Is)].

expected({value, Value, Dictionary}, {{value, Value}, [], Dictionary}) -> true;
expected(Wanted, {Wanted, [], []}) -> true;
expected(_, _) -> false.

scenario_differences(Names, Nodes) ->
    [{Name, X, Y} || Name <- Names,
                     [X, Y] <- [[hawser_erpc_requests:run(Module, Name, Nodes) || Module <- ?MODULES]], X =/= Y].

round_trip_differences(Where, Nodes) ->
    [
        {Way, Mfa, X, Y}
     || Name <- Where, Node <- [maps:get(Name, Nodes)], {Way, _} <- hawser_erpc_requests:round_trips(), Mfa <- bodies(),
        [X, Y] <- [[hawser_erpc_requests:round_trip(Module, Way, Node, Mfa) || Module <- ?MODULES]], X =/= Y
    ].

bodies() ->
    [Mfa || {M, F, A} = Mfa <- hawser_erpc_calls:bodies(), {M, F} =/= {?B, facts}, A =/= [10 bsl 20]].

%% Queued for the sockets to the node.
sent(Node) ->
    #{session := #{shards := Shards}} = hawser:info(Node),
    lists:sum([N || #{sent_messages := N} <- Shards]).

%% ---- error reports ----

%% Keeps the reports of processes that the emulator makes; `behind' has one made by a process of its own first.
reports(Owner, 0, collector) ->
    Starter = self(),
    Collector = spawn(fun() ->
        ok = logger:add_handler(hawser_erpc_reports, hawser_erpc_reports, #{config => #{to => self()}}),
        Starter ! {self(), ready},
        collect(Owner, [])
    end),
    receive {Collector, ready} -> Collector end;
reports(Collector, 0, stop) ->
    Monitor = monitor(process, Collector),
    Collector ! stop,
    receive {'DOWN', Monitor, process, Collector, _} -> ok end;
reports(Collector, Count, behind) ->
    Collector ! {ended, self()},
    receive {Collector, ended} -> ok end,
    _ = spawn(fun() -> error(behind) end),
    reports(Collector, Count, take);
reports(Collector, Count, take) ->
    Collector ! {take, self(), Count},
    receive {Collector, Reports} -> Reports end.

collect(Owner, Reports) ->
    receive
        {report, Report} -> collect(Owner, Reports ++ [Report]);
        {take, From, Count} when length(Reports) >= Count -> From ! {self(), Reports}, collect(Owner, []);
        {body, Body} ->
            Monitor = monitor(process, Body),
            Body ! {self(), go_on},
            receive {'DOWN', Monitor, process, Body, _} -> ok end,
            receive {ended, From} -> From ! {self(), ended} end,
            collect(Owner, Reports);
        stop -> logger:remove_handler(hawser_erpc_reports)
    end.

%% ---- callers that are blocked ----

%% A body that shows itself first.
blocked({M, F, A}, Collector, cast) ->
    Collector ! {body, self()},
    receive {Collector, go_on} -> apply(M, F, A) end;
%% Waits until all bodies of the callers are at the gate; answers them.
blocked(_, Keeper, count) ->
    Keeper ! {bodies, self()},
    receive {Keeper, Bodies} -> Bodies end.

%% One caller in each kind of call, all blocked at one gate; the gate's owner keeps what becomes of them.
start_callers(E, Node) ->
    Starter = self(),
    Keeper = spawn(fun() ->
        Gate = ?B:gate(),
        Self = self(),
        Pids = [spawn(fun() -> Self ! {self(), outcome(Call), process_info(self(), messages)} end)
            || Call <- calls(E, Node, Gate)],
        Starter ! {self(), Pids},
        receive {bodies, From} -> From ! {self(), ?B:bodies(Gate, length(Pids) + 3)} end,
        receive
            {outcomes, Asker} ->
                Asker ! {self(), [receive {Pid, Outcome, Left} -> seen(Outcome, Left) end || Pid <- Pids]}
        end
    end),
    receive {Keeper, Pids} -> {Keeper, Pids} end.

%% The responses of the others in a collection may be there already.
seen({Class, {Reason, Label, Collection}}, _) when is_map(Collection) ->
    {Class, Reason, Label, map_size(Collection)};
seen(Outcome, {messages, []}) ->
    normal(Outcome);
seen(Outcome, {messages, Left}) ->
    {Outcome, left, length(Left)}.

%% Each has one body at the gate, but the multicalls, which have two, and the collection of two.
calls(E, Node, Gate) ->
    Mfa = [?B, waits, [Gate, 1]],
    Fun = fun() -> ?B:waits(Gate, 1) end,
    Send = fun() -> apply(E, send_request, [Node | Mfa]) end,
    Add = fun(Label, Col) -> apply(E, send_request, [Node | Mfa] ++ [Label, Col]) end,
    [
        fun() -> apply(E, call, [Node | Mfa]) end,
        fun() -> apply(E, call, [Node | Mfa] ++ [?MS]) end,
        fun() -> E:call(Node, Fun) end,
        fun() -> apply(E, multicall, [[Node, Node] | Mfa]) end,
        fun() -> apply(E, multicall, [[Node, Node] | Mfa] ++ [?MS]) end,
        fun() -> E:receive_response(Send()) end,
        fun() -> E:receive_response(Send(), ?MS) end,
        fun() -> E:wait_response(Send(), infinity) end,
        fun() -> Id = Send(), receive Message -> E:check_response(Message, Id) end end,
        fun() -> E:receive_response(Add(same, Add(same, E:reqids_new())), infinity, true) end,
        fun() -> E:wait_response(Add(label, E:reqids_new()), infinity, false) end
    ].

outcomes({Keeper, _}) ->
    Keeper ! {outcomes, self()},
    receive {Keeper, Outcomes} -> Outcomes end.

%% ---- terms ----

term_differences(Node, Ways) ->
    [
        {Way, Name}
     || Way <- Ways, {Name, Term} <- hawser_term_kinds:all(), not same(Term, sent_back(Way, Node, Term))
    ].

same(Term, {came, Back}) -> hawser_term_kinds:equal(Term, Back);
same(_, _) -> false.

sent_back(call, Node, Term) ->
    {came, hawser_erpc:call(Node, ?B, value, [Term])};
sent_back(throw, Node, Term) ->
    try hawser_erpc:call(Node, ?B, throws, [Term]) catch throw:Back -> {came, Back} end;
sent_back(exit, Node, Term) ->
    try hawser_erpc:call(Node, ?B, exits, [Term]) catch exit:{exception, Back} -> {came, Back} end;
sent_back(error, Node, Term) ->
    try hawser_erpc:call(Node, ?B, errors, [Term]) catch error:{exception, Back, [_ | _]} -> {came, Back} end.

signal_behind(Node, Reason) ->
    Self = self(),
    Seen = case Reason of kill -> killed; _ -> Reason end,
    {exit, {signal, Seen}} = outcome(fun() ->
        hawser_erpc:call(Node, fun() ->
            %% So much that what took another socket would be there before.
            _ = [hawser:send(Self, {said, N, ?B:bytes(300000)}) || N <- lists:seq(1, 20)],
            ?B:signal(Reason)
        end)
    end),
    {Reason, said(1)}.

%% How many messages are there already, in their order.
said(N) ->
    receive {said, N, _} -> said(N + 1) after 0 -> N - 1 end.

given_up(Node) ->
    Calls = [
        fun() -> hawser_erpc:call(Node, ?B, hang, [], 1) end,
        fun() -> [{error, E}, {error, E}] = hawser_erpc:multicall([Node, Node], ?B, hang, [], 1), error(E) end,
        fun() -> hawser_erpc:receive_response(hawser_erpc:send_request(Node, ?B, hang, []), 1) end,
        fun() ->
            Collection = hawser_erpc:send_request(Node, ?B, hang, [], label, hawser_erpc:reqids_new()),
            hawser_erpc:receive_response(Collection, 1, true)
        end
    ],
    {[{error, {erpc, timeout}} = outcome(Call) || Call <- Calls], calls_waiting(Node)}.

given_up_late(Node) ->
    Request = hawser_request:send(Node, {?B, value, [1]}, infinity),
    ok = await_message(),
    {hawser_request:abandon(Request), process_info(self(), messages)}.

await_message() ->
    case process_info(self(), message_queue_len) of
        {message_queue_len, 0} -> erlang:yield(), await_message();
        _ -> ok
    end.

%% ---- races ----

race(Node, Processes, Calls) ->
    Parent = self(),
    Pids = [spawn_link(fun() -> Parent ! {self(), raced(Node, Calls, #{answer => 0, timeout => 0})} end)
        || _ <- lists:seq(1, Processes)],
    lists:foldl(
        fun(Pid, #{answer := Answers, timeout := Timeouts}) ->
            receive {Pid, #{answer := A, timeout := T}} -> #{answer => Answers + A, timeout => Timeouts + T} end
        end,
        #{answer => 0, timeout => 0},
        Pids
    ).

raced(Node, 0, Counts) ->
    %% What this call's answer overtakes is not on its way any more.
    1 = hawser_erpc:call(Node, ?B, value, [1]),
    {messages, []} = process_info(self(), messages),
    Counts;
raced(Node, N, Counts) ->
    Came = try hawser_erpc:call(Node, ?B, value, [N], N rem 4) of
        N -> answer
    catch
        error:{erpc, timeout} -> timeout
    end,
    raced(Node, N - 1, maps:update_with(Came, fun(Count) -> Count + 1 end, Counts)).

%% Until no call waits in the shards: entries of dead callers go with the session's next tick.
await_no_calls(Node) ->
    case calls_waiting(Node) of
        0 -> ok;
        _ -> erlang:yield(), await_no_calls(Node)
    end.

calls_waiting(Node) ->
    #{session := #{shards := Shards}} = hawser:info(Node),
    lists:sum([N || #{waiting_calls := N} <- Shards]).

%% ---- a full process table ----

%% What calls give while the node's process table is full, and after.
full_table(Node, E) ->
    Filler = E:call(Node, erlang, spawn, [?MODULE, fill_table, [self()]]),
    receive {Filler, full} -> ok end,
    Full = limited([
        fun() -> E:call(Node, ?B, value, [1]) end, fun() -> E:call(Node, ?B, value, [1], ?MS) end,
        fun() -> E:multicall([Node, Node], ?B, value, [1]) end,
        fun() -> E:receive_response(E:send_request(Node, ?B, value, [1])) end,
        fun() -> E:cast(Node, ?B, value, [1]) end
    ]),
    Monitor = monitor(process, Filler),
    Filler ! make_room,
    receive {'DOWN', Monitor, process, Filler, _} -> ok end,
    {Full, process_info(self(), messages), outcome(fun() -> E:call(Node, ?B, value, [1], ?MS) end)}.

%% A process of the node may have ended meanwhile, and its place been taken by a body: then all again.
limited(Calls) ->
    case [outcome(Call) || Call <- Calls] of
        [Limit, Limit, {value, [Limit, Limit]}, Limit, {value, ok}] = Full -> Full;
        _ -> limited(Calls)
    end.

%% Says so when no process can be started, and sees to it that it stays so.
fill_table(To) ->
    process_flag(priority, high),
    fill(To, [], false).

fill(To, Pids, Said) ->
    try spawn(?B, hang, []) of
        Pid -> fill(To, [Pid | Pids], Said)
    catch
        error:system_limit ->
            _ = [To ! {self(), full} || not Said],
            receive
                make_room ->
                    Monitors = [{exit(Pid, kill), monitor(process, Pid)} || Pid <- Pids],
                    lists:foreach(fun({_, Monitor}) -> receive {'DOWN', Monitor, process, _, _} -> ok end end, Monitors)
            after 1 ->
                fill(To, Pids, true)
            end
    end.
