%% The table of calls: every function of erpc that takes a function and answers at once, with every way for a body to
%% end, and with every kind of wrong argument. A row is `{Function, Args}'; names that begin with `$' stand for what
%% only the run knows. Runs rows with erpc or hawser_erpc, and says what came of them in a form that can be compared.
-module(hawser_erpc_calls).

-export([bodies/0, rows/1, plain_rows/0, bad_rows/0, option_rows/0]).
-export([run/3, outcome/1, normal/1]).

-export_type([row/0, nodes/0]).

-type row() :: {Function :: atom(), Args :: [term()]}.
%% Which nodes the names mean: `here', `there', `nowhere'.
-type nodes() :: #{atom() => node()}.

-define(B, hawser_erpc_bodies).
-define(LONG, 60000).

%% Each way for a body to end.
-spec bodies() -> [hawser_request:mfargs()].
bodies() ->
    Fun = fun() -> error(in_fun) end,
    [
        {?B, value, [Value]} || Value <- [1, {ok, 1}, {error, 1}, {badrpc, nodedown}, [], {'EXIT', x}, #{a => {b}}, Fun]
    ] ++ [
        {?B, Function, [Reason]}
        || Function <- [throws, exits, errors, tail, signal, linked_dies],
           Reason <- [oops, normal, kill, noconnection, {erpc, timeout}, {exception, x, []}, {signal, x}, system_limit],
           {Function, Reason} =/= {linked_dies, normal}
    ] ++ [
        {?B, deep, [5, oops]}, {?B, deep, [30, oops]}, {?B, clause, [another]}, {?B, info_error, [<<"no atom">>]},
        {?B, raises, [error, oops, []]}, {?B, raises, [throw, oops, []]},
        {?B, raises, [error, oops, [{m, f, [a], []}, {m, g, 2, []}]]},
        {?B, nested, [erpc, oops]}, {?B, bytes, [100000]}, {?B, exits_with_bytes, [10 bsl 20]},
        {?B, facts, ['$leader']}, {erlang, put, [key, value]}, {erlang, process_flag, [trap_exit, true]},
        {erlang, hd, [[]]}, {erlang, exit, [oops]}, {erlang, throw, [oops]}, {erlang, error, [oops]},
        {erlang, apply, [Fun, []]},
        {erlang, apply, [?B, errors, [oops]]}, {lists, map, [Fun, [1]]}, {lists, seq, [1, x]},
        {erlang, binary_to_atom, [<<"x">>, 42]},
        {no_such_module, f, []}, {?B, no_such_function, [1, 2]}, {?B, value, []}, {erlang, no_such_function, []},
        {?B, value, lists:seq(1, 255)}, {?B, value, lists:seq(1, 256)}, {?B, value, lists:seq(1, 1000)},
        {?B, value, [1 | improper]}, {?B, value, lists:seq(1, 255) ++ improper},
        {?B, value, lists:seq(1, 300) ++ improper},
        {'', '', []}, {erlang, '+', [1, a]}
    ].

%% Each body in each call to `Node', a name of the table.
-spec rows('$here' | '$there') -> [row()].
rows(Node) ->
    [Row || {M, F, A} <- bodies(), Row <- [
        {call, [Node, M, F, A]},
        {call, [Node, M, F, A, infinity]},
        {call, [Node, M, F, A, ?LONG]},
        {call, [Node, M, F, A, '$soon']},
        {multicall, [[Node, Node], M, F, A]},
        {multicall, [[Node], M, F, A, ?LONG]}
    ]] ++ [Row || Fun <- funs(), Row <- [
        {call, [Node, Fun]},
        {call, [Node, Fun, infinity]},
        {call, [Node, Fun, ?LONG]},
        {call, [Node, erlang, apply, [Fun, []]]},
        {multicall, [[Node], Fun]},
        {multicall, [[Node, Node], Fun, ?LONG]},
        {multicall, [[Node], Fun, '$soon']}
    ]] ++ [Row || Timeout <- [0, 1, 20, {abs, -1 bsl 60}, '$now'], Row <- [
        {call, [Node, ?B, hang, [], Timeout]},
        {call, [Node, fun ?B:hang/0, Timeout]},
        {multicall, [[Node, Node], ?B, hang, [], Timeout]},
        {multicall, [[Node], fun ?B:hang/0, Timeout]}
    ]].

funs() ->
    [
        fun() -> ok end, fun() -> throw(oops) end, fun() -> exit(oops) end, fun() -> error(oops) end,
        fun() -> [error(oops)] end, fun() -> exit(self(), oops), receive after infinity -> ok end end,
        fun() -> ?B:info_error(<<"no atom">>) end, fun no_such_module:f/0, fun() -> ?B:clause(x) end
    ].

%% Lists of nodes, and nodes that are not there.
-spec plain_rows() -> [row()].
plain_rows() ->
    Lists = [
        [], ['$here'], ['$there', '$here', '$there', '$here'], ['$nowhere'],
        ['$nowhere', '$there', 'no@such@name', '', undefined],
        lists:duplicate(100, '$there'), lists:duplicate(10, '$here')
    ],
    Timeouts = [[], [infinity], [?LONG], ['$soon']],
    [{call, [Node, ?B, value, [1]] ++ Timeout}
     || Node <- ['$nowhere', '', undefined, 'no@such@name', nonode@nohost, name], Timeout <- Timeouts]
    ++ [{multicall, [Nodes, ?B, value, [1]] ++ Timeout} || Nodes <- Lists, Timeout <- Timeouts]
    ++ [{multicall, [['$there', '$here', '$nowhere'], ?B, Function, [oops]]}
        || Function <- [throws, exits, errors, signal]]
    ++ [{multicall, [['$nowhere', '$there'], ?B, hang, [], 100]}]
    ++ [{Function, [Nodes, ?B, value, [1]]} || Nodes <- Lists, Function <- [multicast]]
    ++ [{multicast, [Nodes, fun() -> ok end]} || Nodes <- Lists]
    ++ [{cast, [Node, ?B, value, [1]]} || Node <- ['$here', '$there', '$nowhere', '', undefined]]
    ++ [{cast, [Node, fun() -> ok end]} || Node <- ['$here', '$there', '$nowhere']].

%% A good call of each function, each of its arguments replaced by each kind of wrong one.
-spec bad_rows() -> [row()].
bad_rows() ->
    Fun = fun() -> ok end,
    Mfa = [?B, value, [1]],
    Good = [
        {call, ['$there', Fun]}, {call, ['$there', Fun, 100]}, {call, ['$there' | Mfa]},
        {call, ['$there' | Mfa] ++ [100]},
        {call, ['$here', Fun, 100]}, {call, ['$here' | Mfa]}, {call, ['$here' | Mfa] ++ [100]},
        {multicall, [['$there'], Fun]}, {multicall, [['$there'], Fun, 100]}, {multicall, [['$there'] | Mfa]},
        {multicall, [['$there'] | Mfa] ++ [100]}, {multicall, [[] | Mfa] ++ [100]},
        {multicall, [['$here'] | Mfa] ++ [100]},
        {cast, ['$there' | Mfa]}, {cast, ['$here' | Mfa]}, {multicast, [['$there'] | Mfa]}, {multicast, [[] | Mfa]},
        {send_request, ['$there', Fun]}, {send_request, ['$there' | Mfa]},
        {send_request, ['$there', Fun, label, '$collection']},
        {send_request, ['$there' | Mfa] ++ [label, '$collection']},
        {receive_response, ['$id']}, {receive_response, ['$id', 0]}, {receive_response, ['$empty', 0, true]},
        {receive_response, ['$collection', 0, true]},
        {wait_response, ['$id']}, {wait_response, ['$id', 0]}, {wait_response, ['$empty', 0, true]},
        {wait_response, ['$collection', 0, true]},
        {check_response, [message, '$id']}, {check_response, [message, '$collection', true]},
        {check_response, [message, '$empty', true]},
        {reqids_size, ['$collection']}, {reqids_add, ['$id', label, '$empty']},
        {reqids_add, ['$id', label, '$collection']},
        {reqids_to_list, ['$collection']}
    ],
    [{Function, [#{x => y} | Args]} || {Function, Args} <- [
        {receive_response, [0, true]}, {wait_response, [0, true]}, {reqids_size, []}, {reqids_to_list, []}
    ]] ++
    [{Function, replace(N, Wrong, Args)}
     || {Function, Args} <- Good, N <- lists:seq(1, length(Args)), Wrong <- wrong(lists:nth(N, Args)),
        %% A fun makes a call of five arguments of this; a label may be anything.
        lists:nth(N, Args) =/= label, lists:nth(N, Args) =/= message].

wrong(List) when is_list(List) ->
    [42, x, {}, <<>>, [x | y], #{}, 1.5, fun() -> ok end, "string", ['$there', 42], ['$there' | x], [['$there']]];
wrong(_) ->
    [
        42, -1, 1 bsl 32, 1.5, "string", <<"binary">>, [], {}, {abs, x}, {abs, 1 bsl 80}, {abs, 1.0}, {abs, 1, 2},
        [x | y],
        fun(_) -> ok end, '$ref', '$pid', [infinity], {'$there'}, {x, y, z}, '', "", <<>>
    ].

replace(N, Wrong, Args) ->
    {Before, [_ | After]} = lists:split(N - 1, Args),
    Before ++ [Wrong | After].

%% OTP 28's options, with what they give.
-spec option_rows() -> [{row(), Expected :: term()}].
option_rows() ->
    Value = {value, 1},
    Badarg = {error, {erpc, badarg}},
    Put = [erlang, put, [key, value]],
    Call = [
        {#{}, Value}, {#{timeout => infinity}, Value}, {#{timeout => ?LONG}, Value}, {#{timeout => '$soon'}, Value},
        {#{always_spawn => true}, Value}, {#{always_spawn => false}, Value},
        {#{always_spawn => true, timeout => ?LONG}, Value},
        {#{always_spawn => true, timeout => infinity}, Value}, {#{unknown => option}, Value},
        {#{always_spawn => 1}, Badarg},
        {#{timeout => -1}, Badarg}, {#{timeout => #{}}, Badarg}, {#{timeout => x, always_spawn => true}, Badarg}
    ],
    Many = fun({error, _} = Error) -> Error; ({value, V}) -> {value, [{ok, V}]} end,
    [{{call, [Node, ?B, value, [1], Options]}, Expected} || Node <- ['$here', '$there'], {Options, Expected} <- Call]
    ++ [{{call, [Node, fun() -> 1 end, Options]}, Expected} || Node <- ['$here', '$there'], {Options, Expected} <- Call]
    ++ [{{multicall, [[Node], ?B, value, [1], Options]}, Many(Expected)}
        || Node <- ['$here', '$there'], {Options, Expected} <- Call]
    ++ [{{multicall, [[Node], fun() -> 1 end, Options]}, Many(Expected)}
        || Node <- ['$here', '$there'], {Options, Expected} <- Call]
    ++ [{{call, Args}, Badarg} || Args <- [
        [42, ?B, value, [1], #{}], ['$here', 42, value, [1], #{always_spawn => true}],
        ['$here', ?B, value, x, #{always_spawn => true}],
        ['$here', x, #{}], ['$there', ?B, 42, [1], #{}]
    ]]
    ++ [{{multicall, Args}, Badarg} || Args <- [[42, ?B, value, [1], #{}], [['$here'], 42, value, [1], #{}],
        [['$there'], ?B, value, x, #{}]]]
    %% What the body puts into a dictionary is found in the caller's only when it runs there.
    ++ [{{call, ['$here' | Put] ++ [Options]}, {value, undefined, Dictionary}}
        || {Options, Dictionary} <- [{#{}, [{key, value}]}, {#{always_spawn => true}, []}, {#{timeout => ?LONG}, []}]].

%% ---- running ----

%% What comes of each row in a process of its own, which is asked what is left in its mailbox and in its dictionary.
-spec run(erpc | hawser_erpc, [row()], nodes()) -> [{row(), Came :: term()}].
run(Module, Rows, Nodes) ->
    [{Row, one(Module, Row, Nodes)} || Row <- Rows].

one(Module, {Function, Args}, Nodes) ->
    Leader = group_leader(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Filled = fill(Args, Module, Nodes#{leader => Leader}),
        Outcome = outcome(fun() -> apply(Module, Function, Filled) end),
        Dictionary = get(),
        {messages, Messages} = process_info(self(), messages),
        exit({row, Function, Outcome, Messages, Dictionary})
    end),
    receive
        {'DOWN', Monitor, process, Pid, {row, send_request, {value, Value}, _, Dictionary}} ->
            %% Ids and collections are each module's own; a response may be there already.
            {sent, is_map(Value), Dictionary};
        {'DOWN', Monitor, process, Pid, {row, reqids_add, {value, Collection}, Messages, Dictionary}} ->
            {size, map_size(Collection), Messages, Dictionary};
        {'DOWN', Monitor, process, Pid, {row, reqids_to_list, {value, List}, Messages, Dictionary}} ->
            {labels, [Label || {_, Label} <- List], Messages, Dictionary};
        {'DOWN', Monitor, process, Pid, {row, _, Outcome, Messages, Dictionary}} ->
            {normal(Outcome), normal(Messages), Dictionary};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {died, normal(Reason)}
    end.

fill('$leader', _, #{leader := Leader}) -> Leader;
fill('$soon', _, _) -> {abs, erlang:monotonic_time(millisecond) + ?LONG};
fill('$now', _, _) -> {abs, erlang:monotonic_time(millisecond)};
fill('$ref', _, _) -> make_ref();
fill('$pid', _, _) -> self();
fill('$empty', Module, _) -> Module:reqids_new();
fill('$id', Module, #{there := There}) -> Module:send_request(There, ?B, hang, []);
fill('$collection', Module, #{there := There}) -> Module:send_request(There, ?B, hang, [], label, Module:reqids_new());
fill(Name, _, Nodes) when is_atom(Name) ->
    case atom_to_list(Name) of
        [$$ | Rest] -> maps:get(list_to_atom(Rest), Nodes);
        _ -> Name
    end;
fill([Head | Tail], Module, Nodes) -> [fill(Head, Module, Nodes) | fill(Tail, Module, Nodes)];
fill(Tuple, Module, Nodes) when is_tuple(Tuple) -> list_to_tuple(fill(tuple_to_list(Tuple), Module, Nodes));
fill(#{} = Map, Module, Nodes) -> maps:map(fun(_, Value) -> fill(Value, Module, Nodes) end, Map);
fill(Term, _, _) -> Term.

-spec outcome(fun(() -> term())) -> {value, term()} | {Class :: atom(), Reason :: term()}.
outcome(Fun) ->
    try
        {value, Fun()}
    catch
        Class:Reason -> {Class, Reason}
    end.

%% Without what differs from one run to the next.
-spec normal(term()) -> term().
normal(Pid) when is_pid(Pid) -> '$pid';
normal(Ref) when is_reference(Ref) -> '$ref';
normal(Port) when is_port(Port) -> '$port';
normal([Head | Tail]) -> [normal(Head) | normal(Tail)];
normal(Tuple) when is_tuple(Tuple) -> list_to_tuple(normal(tuple_to_list(Tuple)));
normal(#{} = Map) -> maps:from_list(normal(maps:to_list(Map)));
normal(Term) -> Term.
