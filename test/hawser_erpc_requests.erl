%% What can be done with request ids and collections, as scenarios: each makes requests with erpc or hawser_erpc, does
%% things with them, and answers what came of each, in a form that can be compared. Test code only.
-module(hawser_erpc_requests).

-export([scenarios/0, round_trips/0, run/3, round_trip/4]).

-import(hawser_erpc_calls, [outcome/1, normal/1]).

-export_type([name/0]).

-type name() :: atom().
-type trace() :: [term()].

-define(B, hawser_erpc_bodies).
-define(LONG, 60000).

%% The scenario in a process of its own; what it leaves in its mailbox is part of what came of it.
-spec run(erpc | hawser_erpc, fun((module(), hawser_erpc_calls:nodes()) -> trace()) | name(),
    hawser_erpc_calls:nodes()) -> term().
run(Module, Name, Nodes) when is_atom(Name) ->
    run(Module, proplists:get_value(Name, scenarios()), Nodes);
run(Module, Scenario, Nodes) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        Trace = Scenario(Module, Nodes),
        exit({Trace, element(2, process_info(self(), messages))})
    end),
    receive {'DOWN', Monitor, process, Pid, Result} -> normal(Result) end.

%% ---- one request, its response received in each way ----

%% Ways from a request to its result.
-spec round_trips() -> [{atom(), fun((module(), node(), hawser_request:mfargs()) -> term())}].
round_trips() ->
    Id = fun(E, Node, {M, F, A}) -> E:send_request(Node, M, F, A) end,
    Collection = fun(E, Node, {M, F, A}) -> E:send_request(Node, M, F, A, label, E:reqids_new()) end,
    [
        {receive_1, fun(E, Node, Mfa) -> E:receive_response(Id(E, Node, Mfa)) end},
        {receive_2, fun(E, Node, Mfa) -> E:receive_response(Id(E, Node, Mfa), ?LONG) end},
        {receive_2_there, fun(E, Node, Mfa) -> E:receive_response(there(Id(E, Node, Mfa)), 0) end},
        {receive_2_moment, fun(E, Node, Mfa) -> E:receive_response(Id(E, Node, Mfa), moment(?LONG)) end},
        {wait_1, fun(E, Node, Mfa) -> E:wait_response(there(Id(E, Node, Mfa))) end},
        {wait_2, fun(E, Node, Mfa) -> E:wait_response(Id(E, Node, Mfa), ?LONG) end},
        {wait_2_moment, fun(E, Node, Mfa) -> E:wait_response(there(Id(E, Node, Mfa)), moment(-1000)) end},
        {check_2, fun(E, Node, Mfa) -> Of = Id(E, Node, Mfa), E:check_response(message(), Of) end},
        {fun_2, fun(E, Node, {M, F, A}) -> E:receive_response(E:send_request(Node, fun() -> apply(M, F, A) end)) end},
        {receive_3, fun(E, Node, Mfa) -> E:receive_response(Collection(E, Node, Mfa), ?LONG, true) end},
        {receive_3_kept, fun(E, Node, Mfa) -> E:receive_response(there(Collection(E, Node, Mfa)), 0, false) end},
        {wait_3, fun(E, Node, Mfa) -> E:wait_response(Collection(E, Node, Mfa), infinity, true) end},
        {wait_3_kept, fun(E, Node, Mfa) -> E:wait_response(there(Collection(E, Node, Mfa)), 0, false) end},
        {check_3, fun(E, Node, Mfa) -> In = Collection(E, Node, Mfa), E:check_response(message(), In, true) end},
        {check_3_kept, fun(E, Node, Mfa) -> In = Collection(E, Node, Mfa), E:check_response(message(), In, false) end},
        {fun_4, fun(E, Node, {M, F, A}) ->
            E:receive_response(E:send_request(Node, fun() -> apply(M, F, A) end, {a, label}, E:reqids_new()),
                moment(?LONG), true)
        end}
    ].

-spec round_trip(module(), atom(), node(), hawser_request:mfargs()) -> term().
round_trip(E, Way, Node, Mfa) ->
    Fun = proplists:get_value(Way, round_trips()),
    run(E, fun(_, _) -> seen(E, fun() -> Fun(E, Node, Mfa) end) end, #{}).

%% The id or the collection, when the response is in the mailbox.
there(Requests) ->
    ok = await_messages(1),
    Requests.

message() ->
    receive Message -> Message end.

moment(Ms) ->
    {abs, erlang:monotonic_time(millisecond) + Ms}.

%% There is nothing else to wait for: a message that no receive may take.
await_messages(Count) ->
    case process_info(self(), message_queue_len) of
        {message_queue_len, N} when N >= Count -> ok;
        _ -> erlang:yield(), await_messages(Count)
    end.

%% An outcome, in which a collection is told by its labels.
seen(E, Fun) ->
    case outcome(Fun) of
        {value, {Result, Label, Collection}} when is_map(Collection) -> {value, {Result, Label, labels(E, Collection)}};
        {Class, {Reason, Label, Collection}} when is_map(Collection) -> {Class, {Reason, Label, labels(E, Collection)}};
        Other -> Other
    end.

labels(E, Collection) ->
    {E:reqids_size(Collection), lists:sort([Label || {_, Label} <- E:reqids_to_list(Collection)])}.

%% ---- scenarios ----

-spec scenarios() -> [{name(), fun((module(), hawser_erpc_calls:nodes()) -> trace())}].
scenarios() ->
    [
        {timeout_gives_up, fun timeout_gives_up/2},
        {wait_does_not, fun wait_does_not/2},
        {collection_timeout_gives_all_up, fun collection_timeout_gives_all_up/2},
        {collection_wait_does_not, fun collection_wait_does_not/2},
        {result_before_timeout, fun result_before_timeout/2},
        {kept_ids_are_stale, fun kept_ids_are_stale/2},
        {many_in_a_collection, fun many_in_a_collection/2},
        {every_node_in_a_collection, fun every_node_in_a_collection/2},
        {twice_in_a_collection, fun twice_in_a_collection/2},
        {id_by_id, fun id_by_id/2},
        {only_the_requester, fun only_the_requester/2},
        {other_messages_stay, fun other_messages_stay/2},
        {checks_of_other_messages, fun checks_of_other_messages/2},
        {abandoned_calls_bring_nothing, fun abandoned_calls_bring_nothing/2},
        {bad_element_gives_all_up, fun bad_element_gives_all_up/2},
        {casts_arrive, fun casts_arrive/2},
        {children_of_a_body, fun children_of_a_body/2},
        {signals_at_the_gate, fun signals_at_the_gate/2}
    ].

%% A response that does not come in time never comes, and the id is good for nothing more.
timeout_gives_up(E, #{there := Node}) ->
    Gate = ?B:gate(),
    Ids = [E:send_request(Node, ?B, waits, [Gate, N]) || N <- lists:seq(1, 3)],
    _ = ?B:bodies(Gate, 3),
    First = [seen(E, fun() -> E:receive_response(Id, Timeout) end)
        || {Id, Timeout} <- lists:zip(Ids, [0, 10, moment(-1)])],
    Gone = after_the_gate(E, Node, Gate),
    {First, Gone, [seen(E, fun() -> E:receive_response(Id, 0) end) || Id <- Ids],
     [seen(E, fun() -> E:wait_response(Id) end) || Id <- Ids]}.

%% What is in the mailbox when the gate's bodies, and a call behind them, are done.
after_the_gate(E, Node, Gate) ->
    ok = ?B:close(Gate),
    Behind = [E:call(Node, ?B, value, [N], ?LONG) || N <- [1, 2]],
    {Behind, process_info(self(), messages)}.

%% To wait can be tried again, with each kind of time.
wait_does_not(E, #{there := Node}) ->
    Gate = ?B:gate(),
    Id = E:send_request(Node, ?B, waits, [Gate, done]),
    Before = [seen(E, fun() -> E:wait_response(Id, Timeout) end) || Timeout <- [0, 5, moment(-1), 0]],
    ok = ?B:open(Gate, 1),
    {Before, seen(E, fun() -> E:wait_response(Id, infinity) end), seen(E, fun() -> E:wait_response(Id, 0) end)}.

collection_timeout_gives_all_up(E, #{there := Node, here := Here}) ->
    Gate = ?B:gate(),
    Send = fun({N, At}, Col) -> E:send_request(At, ?B, waits, [Gate, N], {label, N}, Col) end,
    Col = lists:foldl(Send, E:reqids_new(), [{1, Node}, {2, Here}, {3, Node}]),
    _ = ?B:bodies(Gate, 3),
    First = seen(E, fun() -> E:receive_response(Col, 0, true) end),
    Gone = after_the_gate(E, Node, Gate),
    {First, Gone, seen(E, fun() -> E:receive_response(Col, 0, true) end),
     seen(E, fun() -> E:wait_response(Col, 0, true) end)}.

collection_wait_does_not(E, #{there := Node, here := Here}) ->
    Gate = ?B:gate(),
    Col0 = E:send_request(Here, ?B, waits, [Gate, same], label, E:reqids_new()),
    Col = E:send_request(Node, ?B, waits, [Gate, same], label, Col0),
    Before = [seen(E, fun() -> E:wait_response(Col, Timeout, Delete) end) || Timeout <- [0, 5, moment(-1)],
        Delete <- [true, false]],
    ok = ?B:open(Gate, 2),
    {{response, same}, label, Left} = E:wait_response(Col, infinity, true),
    {Before, seen(E, fun() -> E:wait_response(Left, ?LONG, true) end)}.

%% A response in the mailbox wins over any timeout.
result_before_timeout(E, #{there := Node}) ->
    [
        begin
            Id = there(E:send_request(Node, ?B, value, [1])),
            One = seen(E, fun() -> E:receive_response(Id, Timeout) end),
            Col = there(E:send_request(Node, ?B, value, [1], label, E:reqids_new())),
            {One, seen(E, fun() -> E:receive_response(Col, Timeout, true) end)}
        end
     || Timeout <- [0, 1, moment(-100)]
    ].

%% Without Delete a response that was received leaves its id in the collection, which takes part in nothing more.
kept_ids_are_stale(E, #{there := Node}) ->
    Gate = ?B:gate(),
    Col0 = E:send_request(Node, ?B, value, [1], first, E:reqids_new()),
    Col = E:send_request(Node, ?B, waits, [Gate, 2], second, Col0),
    First = seen(E, fun() -> E:receive_response(Col, ?LONG, false) end),
    Wait = seen(E, fun() -> E:wait_response(Col, 0, false) end),
    ok = ?B:open(Gate, 1),
    Second = seen(E, fun() -> E:receive_response(Col, ?LONG, false) end),
    Rest = [seen(E, fun() -> E:wait_response(Col, 0, Delete) end) || Delete <- [true, false]],
    Check = seen(E, fun() -> E:check_response(message, Col, true) end),
    {First, Wait, Second, Rest, Check, labels(E, Col), seen(E, fun() -> E:receive_response(Col, 0, false) end),
     labels(E, Col)}.

many_in_a_collection(E, #{there := Node, here := Here}) ->
    Send = fun(N, Col) ->
        At = case N rem 3 of 0 -> Here; _ -> Node end,
        case N rem 5 of
            0 -> E:send_request(At, ?B, errors, [N], N, Col);
            1 -> E:send_request(At, fun() -> throw(N) end, N, Col);
            2 -> E:reqids_add(E:send_request(At, ?B, exits, [N]), N, Col);
            3 -> E:reqids_add(E:send_request(At, fun() -> N end), N, Col);
            4 -> E:send_request(At, ?B, signal, [N], N, Col)
        end
    end,
    Col = lists:foldl(Send, E:reqids_new(), lists:seq(1, 100)),
    {labels(E, Col), lists:sort(drain(E, Col, 0))}.

drain(E, Col, N) ->
    Ways = [fun() -> E:receive_response(Col, ?LONG, true) end, fun() -> E:wait_response(Col, ?LONG, true) end],
    case outcome(lists:nth(1 + N rem 2, Ways)) of
        {value, no_request} -> [];
        {value, {{response, Result}, Label, Left}} -> [{Label, Result} | drain(E, Left, N + 1)];
        {value, {Result, Label, Left}} -> [{Label, Result} | drain(E, Left, N + 1)];
        {Class, {Reason, Label, Left}} -> [{Label, Class, Reason} | drain(E, Left, N + 1)]
    end.

%% This node, one with hawser, one without, one that is not there: their responses come out of one collection.
every_node_in_a_collection(E, #{there := There, here := Here, plain := Plain, nowhere := Nowhere}) ->
    Nodes = [{there, There}, {here, Here}, {plain, Plain}, {nowhere, Nowhere}],
    Bodies = [{value, 1}, {errors, oops}, {throws, oops}, {exits, oops}, {signal, oops}],
    Requests = [{{Name, F}, Node, F, A} || {Name, Node} <- Nodes, {F, A} <- Bodies],
    Col = lists:foldl(fun({Label, Node, F, A}, Col) -> E:send_request(Node, ?B, F, [A], Label, Col) end,
        E:reqids_new(), Requests),
    Ids = [{Label, E:send_request(Node, ?B, F, [A])} || {Label, Node, F, A} <- Requests],
    {lists:sort(drain(E, Col, 0)), [{Label, seen(E, fun() -> E:receive_response(Id) end)} || {Label, Id} <- Ids]}.

twice_in_a_collection(E, #{there := Node}) ->
    Id = E:send_request(Node, ?B, value, [1]),
    Col = E:reqids_add(Id, first, E:reqids_new()),
    Again = seen(E, fun() -> E:reqids_add(Id, second, Col) end),
    [{SameId, first}] = E:reqids_to_list(Col),
    {Again, labels(E, Col), SameId =:= Id, seen(E, fun() -> E:receive_response(Id) end),
     seen(E, fun() -> E:receive_response(Col, 0, true) end)}.

%% An id taken out of a collection is as good as any.
id_by_id(E, #{there := Node}) ->
    Send = fun(N, Col) -> E:send_request(Node, ?B, value, [N], N, Col) end,
    Col = lists:foldl(Send, E:reqids_new(), lists:seq(1, 5)),
    [{Label, seen(E, fun() -> E:receive_response(Id, ?LONG) end)}
        || {Id, Label} <- lists:keysort(2, E:reqids_to_list(Col))].

%% Another process gets nothing of a request, and takes nothing away.
only_the_requester(E, #{there := Node}) ->
    Id = there(E:send_request(Node, ?B, value, [mine])),
    Col = E:reqids_add(Id, label, E:reqids_new()),
    Tries = [
        fun() -> E:receive_response(Id, 0) end,
        fun() -> E:receive_response(Id, 5) end,
        fun() -> E:wait_response(Id, 5) end,
        fun() -> E:receive_response(Col, 0, true) end, fun() -> E:wait_response(Col, 0, true) end
    ],
    Elsewhere = [
        begin
            {Pid, Monitor} = spawn_monitor(fun() -> exit(seen(E, Try)) end),
            receive {'DOWN', Monitor, process, Pid, Seen} -> Seen end
        end
     || Try <- Tries
    ],
    {Elsewhere, seen(E, fun() -> E:receive_response(Id, 0) end)}.

%% Messages of all shapes stay where they are, in their order.
other_messages_stay(E, #{there := Node}) ->
    Ref = make_ref(),
    Others = [
        hello, {Ref, 1}, {Ref, {return, 1}}, {'DOWN', Ref, process, self(), oops}, {spawn_reply, Ref, error, oops},
        {Ref, Ref, error, x},
        {Ref, Ref, process, self(), x}, {x, y}, {1, 2, 3, 4, 5}
    ],
    _ = [self() ! Message || Message <- Others],
    Results = [
        E:call(Node, ?B, value, [1]), E:call(Node, ?B, value, [1], ?LONG), E:multicall([Node, Node], ?B, value, [1]),
        outcome(fun() -> E:call(Node, ?B, hang, [], 0) end), E:multicall([Node, Node], ?B, hang, [], 0),
        seen(E, fun() -> E:receive_response(E:send_request(Node, ?B, value, [1])) end),
        seen(E, fun() -> E:receive_response(E:send_request(Node, ?B, value, [1], l, E:reqids_new()), ?LONG, true) end),
        seen(E, fun() -> E:receive_response(E:send_request(Node, ?B, hang, [], l, E:reqids_new()), 0, true) end)
    ],
    {Results, [receive Message -> Message =:= Other end || Other <- Others]}.

checks_of_other_messages(E, #{there := Node}) ->
    Id = E:send_request(Node, ?B, value, [1]),
    Col = E:send_request(Node, ?B, value, [2], label, E:reqids_new()),
    Ref = make_ref(),
    Messages = [hello, {Ref, 1}, {Ref, {return, 1}}, {'DOWN', Ref, process, self(), x}, {spawn_reply, Ref, error, x},
        [], {}],
    No = [{seen(E, fun() -> E:check_response(M, Id) end), seen(E, fun() -> E:check_response(M, Col, true) end)}
        || M <- Messages],
    Both = [message(), message()],
    {No, lists:sort([seen(E, fun() -> E:check_response(M, Id) end) || M <- Both]),
     lists:sort([seen(E, fun() -> E:check_response(M, Col, false) end) || M <- Both]),
     [seen(E, fun() -> E:check_response(M, E:reqids_new(), false) end) || M <- Both]}.

%% After calls of all kinds have timed out their bodies end, and no message comes of it.
abandoned_calls_bring_nothing(E, #{there := Node, here := Here}) ->
    Gate = ?B:gate(),
    Calls = [
        seen(E, fun() -> E:call(Node, ?B, waits, [Gate, 1], 0) end),
        seen(E, fun() -> E:call(Node, fun() -> ?B:waits(Gate, 1) end, 1) end),
        seen(E, fun() -> E:call(Here, ?B, waits, [Gate, 1], 1) end),
        seen(E, fun() -> E:multicall([Node, Here, Node], ?B, waits, [Gate, 1], 1) end)
    ],
    {Calls, after_the_gate(E, Node, Gate)}.

%% Where a list of nodes goes wrong nothing of what was sent before comes back.
bad_element_gives_all_up(E, #{there := Node, here := Here}) ->
    Gate = ?B:gate(),
    %% Enough for the first responses to come before the end of the list is seen.
    Many = lists:duplicate(1000, Node) ++ [42],
    Calls = [
        seen(E, fun() -> E:multicall(Nodes, ?B, Function, Args, infinity) end)
     || Nodes <- [[Node, Here, 42], [Here, Node | Node], [Node, Node, {Node}, Node], [Node | improper], Many],
        {Function, Args} <- [{value, [1]}, {waits, [Gate, 1]}]
    ],
    Casts = [seen(E, fun() -> E:multicast(Nodes, ?B, value, [1]) end)
        || Nodes <- [[Node, 42], [Node | Node], [Here, {}], [42, Node]]],
    {Calls, Casts, after_the_gate(E, Node, Gate)}.

casts_arrive(E, #{there := Node, here := Here, plain := Plain, nowhere := Nowhere}) ->
    Self = self(),
    Leader = group_leader(),
    Casts = [
        fun() -> E:cast(Node, ?B, tells, [Self, 1]) end, fun() -> E:cast(Here, ?B, tells, [Self, 2]) end,
        fun() -> E:cast(Plain, ?B, tells, [Self, 3]) end, fun() -> E:cast(Nowhere, ?B, tells, [Self, nothing]) end,
        fun() -> E:cast(Node, fun() -> Self ! {facts, ?B:facts(Leader)} end) end,
        fun() -> E:cast(Plain, fun() -> Self ! 4 end) end,
        fun() -> E:multicast([Node, Here, Nowhere, Node, Plain, Here], ?B, tells, [Self, 5]) end,
        fun() -> E:multicast([Node, Node], fun() -> Self ! 6 end) end,
        %% To the nodes before what is wrong they go.
        fun() -> E:multicast([Node, Plain | 42], ?B, tells, [Self, 7]) end,
        fun() -> E:multicast([Here, 42, Node], ?B, tells, [Self, 8]) end
    ],
    Answers = [seen(E, Cast) || Cast <- Casts],
    {Answers, lists:sort([message() || _ <- lists:seq(1, 15)])}.

%% Processes that are linked to a body live and die as those of an erpc body do, whatever it ended with.
children_of_a_body(E, #{there := Node}) ->
    Self = self(),
    Endings = [
        fun() -> ok end, fun() -> normal end, fun() -> throw(x) end, fun() -> exit(normal) end, fun() -> exit(x) end,
        fun() -> error(x) end,
        fun() -> exit(self(), normal), ?B:hang() end, fun() -> exit(self(), kill), ?B:hang() end
    ],
    [
        begin
            Answer = seen(E, fun() -> E:call(Node, ?B, child, [Self, Ending]) end),
            Other = receive {children, _, Pid} -> Pid end,
            Reason = receive {trapped, R} -> R end,
            Monitor = monitor(process, Other),
            %% A reason that is none of the test's is the answer itself, which each module sends its own way.
            Trapped = case Reason of
                Atom when is_atom(Atom) -> Atom;
                _ -> answered
            end,
            Died = case Trapped of
                normal -> exit(Other, kill), receive {'DOWN', Monitor, process, _, Why} -> {lived, Why} end;
                _ -> receive {'DOWN', Monitor, process, _, _} -> died end
            end,
            {Answer, Trapped, Died}
        end
     || Ending <- Endings
    ].

%% Bodies ended from outside, whatever waits for them.
signals_at_the_gate(E, #{there := Node, here := Here}) ->
    [
        begin
            Gate = ?B:gate(),
            Self = self(),
            Ways = [
                fun() -> E:call(Node, ?B, waits, [Gate, 1]) end, fun() -> E:call(Node, ?B, waits, [Gate, 1], ?LONG) end,
                fun() -> E:call(Here, ?B, waits, [Gate, 1], ?LONG) end,
                fun() -> E:call(Node, fun() -> ?B:waits(Gate, 1) end) end,
                fun() -> E:multicall([Node, Node], ?B, waits, [Gate, 1]) end,
                fun() -> E:receive_response(E:send_request(Node, ?B, waits, [Gate, 1])) end,
                fun() -> E:wait_response(E:send_request(Node, ?B, waits, [Gate, 1]), infinity) end,
                fun() ->
                    Col = E:send_request(Node, ?B, waits, [Gate, 1], label, E:reqids_new()),
                    E:receive_response(Col, infinity, true)
                end
            ],
            Callers = [spawn(fun() -> Self ! {self(), seen(E, Way)} end) || Way <- Ways],
            ok = ?B:end_bodies(Gate, 9, Reason),
            [receive {Caller, Seen} -> Seen end || Caller <- Callers]
        end
     || Reason <- [kill, shutdown, noconnection, {a, reason}, hawser_answered, {hawser_answered, 1}]
    ].
