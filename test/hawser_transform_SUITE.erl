%% What the transform promises: a module that is compiled with it does the same as before, by hawser, and fails at the
%% same lines; what is not a send and not a call of erpc comes back as it is.
-module(hawser_transform_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([
    rewritten/1, whole_erpc/1, types/1, left_alone/1, locations/1, later_syntax/1, later_nodes/1, same_behaviour/1,
    same_errors/1, inlined/1, other_transforms/1, same_mistakes/1, same_warnings/1, sends_over_hawser/1,
    calls_over_hawser/1
]).
%% Run on the nodes.
-export([collector/0, collected/2]).

-import(hawser_test_nodes, [start_node/1, stop/1, call/4, call/5, await_session/2]).

-define(MS, 60000).
-define(TRANSFORM, {parse_transform, hawser_transform}).
%% Exported by OTP's erpc for OTP's own use.
-define(OTPS_OWN, [
    {call_result, 4}, {execute_call, 3}, {execute_call, 4}, {execute_cast, 3}, {is_arg_error, 4}, {trim_stack, 4}
]).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [
        rewritten, whole_erpc, types, left_alone, locations, later_syntax, later_nodes, same_behaviour, same_errors,
        inlined, other_transforms, same_mistakes, same_warnings, sends_over_hawser, calls_over_hawser
    ].

init_per_suite(Config) ->
    [A, B] = [start_node(#{env => #{fallback => none}, link => false}) || _ <- [a, b]],
    ok = await_session(A, B),
    [{nodes, [A, B]} | Config].

end_per_suite(Config) ->
    [stop(Peer) || {Peer, _} <- proplists:get_value(nodes, Config)].

%% ---- forms ----

%% Each form of a send, and each call of erpc, becomes hawser's with its operands in their places.
rewritten(_) ->
    Table = [
        {"P ! M", "hawser:send(P, M)"},
        {"erlang:send(P, M)", "hawser:send(P, M)"},
        {"erlang:'!'(P, M)", "hawser:send(P, M)"},
        {"erlang:send(P, M, [nosuspend])", "hawser:send(P, M, [nosuspend])"},
        {"P ! Q ! M", "hawser:send(P, hawser:send(Q, M))"},
        {"fun erlang:send/2", "fun hawser:send/2"},
        {"fun erlang:send/3", "fun hawser:send/3"},
        {"fun erlang:'!'/2", "fun hawser:send/2"},
        {"erpc:call(N, m, f, [P ! M])", "hawser_erpc:call(N, m, f, [hawser:send(P, M)])"},
        {"erpc:call(N, fun() -> {P ! M} end)", "hawser_erpc:call(N, fun() -> {hawser:send(P, M)} end)"},
        {"#{(P ! k) => P ! v}", "#{hawser:send(P, k) => hawser:send(P, v)}"},
        {"#r{f = P ! M}", "#r{f = hawser:send(P, M)}"},
        {"R#r{f = P ! M}", "R#r{f = hawser:send(P, M)}"},
        {"<<(P ! M):(P ! 8)>>", "<<(hawser:send(P, M)):(hawser:send(P, 8))>>"},
        {"[P ! X || X <- P ! L, P ! true]", "[hawser:send(P, X) || X <- hawser:send(P, L), hawser:send(P, true)]"},
        {"catch P ! M", "catch hawser:send(P, M)"},
        {"foo(P ! M, [P ! M | P ! M])", "foo(hawser:send(P, M), [hawser:send(P, M) | hawser:send(P, M)])"},
        {"(P ! m):(P ! f)(P ! a)", "(hawser:send(P, m)):(hawser:send(P, f))(hawser:send(P, a))"}
    ],
    [] = not_rewritten([{around(Source), around(Wanted)} || {Source, Wanted} <- Table]),
    [] = not_rewritten([{
        "-record(r, {f = self() ! x :: term(), g = erpc:reqids_new(), h}).",
        "-record(r, {f = hawser:send(self(), x) :: term(), g = hawser_erpc:reqids_new(), h})."
    }]).

%% Every function of the running OTP's erpc becomes one that hawser_erpc has, but for those that OTP has for itself.
whole_erpc(_) ->
    Functions = erpc:module_info(exports) -- [{module_info, 0}, {module_info, 1} | ?OTPS_OWN],
    [] = Functions -- hawser_erpc:module_info(exports),
    [] = not_rewritten([{Use(erpc, F), Use(hawser_erpc, F)} || F <- Functions, Use <- [fun external/2, fun applied/2]]),
    [] = not_rewritten([{Use(erpc, F), Use(erpc, F)} || F <- ?OTPS_OWN, Use <- [fun external/2, fun applied/2]]).

external(Module, {F, Arity}) ->
    around(io_lib:format("fun ~s:~s/~b", [Module, F, Arity])).

applied(Module, {F, Arity}) ->
    around(io_lib:format("~s:~s(~s)", [Module, F, lists:join(",", lists:duplicate(Arity, "M"))])).

%% The types that erpc exports become hawser_erpc's, wherever a type can stand, and hawser_erpc exports them.
types(_) ->
    Types = exported_types(erpc),
    true = lists:member({request_id, 0}, Types),
    [] = Types -- exported_types(hawser_erpc),
    Text =
        "-type value() :: [T() | atom()].\n"
        "-type atom(X) :: {X, T()}.\n"
        "-opaque string() :: #{T() => value()}.\n"
        "-record(r, {f :: T(), g = [] :: [T()]}).\n"
        "-callback c(T()) -> {ok, T()} | erpc:other().\n"
        "-spec f(X, T()) -> fun((T()) -> X) when X :: [T()].\n"
        "-spec m:f(T()) -> erpc.\n",
    [] = not_rewritten([{replace(Text, "T()", ["erpc:", T]), replace(Text, "T()", ["hawser_erpc:", T])}
                        || {Name, 0} <- Types, T <- [atom_to_list(Name) ++ "()"]]).

exported_types(Module) ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(code:which(Module), [abstract_code]),
    lists:append([Types || {attribute, _, export_type, Types} <- Forms]).

replace(Text, What, By) ->
    lists:flatten(string:replace(Text, What, By, all)).

%% A module in which nothing is hawser's comes back equal, whatever looks like a send or like erpc in it.
left_alone(_) ->
    Texts = [
        "f(P, M) -> send(P, M), send(P, M, []), '!'(P, M).",
        "-import(erpc, [call/4]).\nf(N) -> call(N, erlang, node, []).",
        "-import(erlang, [send/3]).\nf(P) -> send(P, m, []).",
        "f(N) -> apply(erpc, call, [N, erlang, node, []]).",
        "f(N, M, F) -> M:send(N, F), erlang:F(N, M), erpc:F(N, M), fun M:send/2, fun erlang:F/2.",
        "f(N) -> erpc:call(N), erpc:unknown(N, a), erlang:send(N), erlang:send(1, 2, 3, 4), my:send(N, a).",
        "f(N) -> erlang:send_nosuspend(N, a), erlang:send_after(1, N, a).",
        "f(P, M) -> hawser:send(P, M).",
        "f(N) -> {erpc, call, '!', \"P ! M\", <<\"erpc:call()\">>, fun send/2, $!}.",
        "-erpc({call, [erlang, send], {op, 1, '!', a, b}}).\n-ignore_xref([{erpc, call, 4}]).",
        "-spec f(erlang:send()) -> my:request_id() | erpc:other() | request_id().",
        "-type op() :: '!' | {erpc, call} | 1 bor 2.",
        "f(X) when X =:= '!'; X =:= erpc -> [A || #{a := A} <- X, is_atom(A)]."
    ],
    [] = [Text || Text <- Texts, hawser_transform:parse_transform(forms(Text), []) =/= forms(Text)],
    Odd = [
        {error, {1, epp, cannot_parse}}, {warning, {1, epp, {warning, "P ! M"}}},
        {attribute, 1, doc, #{a => b}}, {eof, 3}
    ],
    Odd = hawser_transform:parse_transform(Odd, []).

%% What is rewritten stands where the original stood, line and column.
locations(_) ->
    Expressions = fun([{function, _, f, 2, [{clause, _, _, [], Body}]}]) -> Body end,
    Original = forms("f(P, M) ->\n  P ! M,\n   erpc:cast(\n      P, M),\n fun erpc:cast/2,\n ok."),
    [
        {op, {2, 5} = Operator, '!', P, M},
        {call, CallAt, {remote, ColonAt, {atom, {3, 4} = ErpcAt, erpc}, Cast}, Args},
        {'fun', FunAt, {function, {atom, {5, 6} = NameAt, erpc}, Name, Arity}},
        Ok
    ] = Expressions(Original),
    [
        {call, Operator, {remote, Operator, {atom, Operator, hawser}, {atom, Operator, send}}, [P, M]},
        {call, CallAt, {remote, ColonAt, {atom, ErpcAt, hawser_erpc}, Cast}, Args},
        {'fun', FunAt, {function, {atom, NameAt, hawser_erpc}, Name, Arity}},
        Ok
    ] = Expressions(hawser_transform:parse_transform(Original, [])).

%% Expressions that only newer OTPs can read are rewritten inside like all others.
later_syntax(_) ->
    Release = list_to_integer(erlang:system_info(otp_release)),
    Table = [
        {27, "maybe ok ?= P ! M, P ! M, ok else _ -> {P ! M} end",
             "maybe ok ?= hawser:send(P, M), hawser:send(P, M), ok else _ -> {hawser:send(P, M)} end"},
        {28, "[P ! X || X <:- P ! L]", "[hawser:send(P, X) || X <:- hawser:send(P, L)]"},
        {28, "[P ! X || X <- P ! L && Y <- P ! M, Y]",
             "[hawser:send(P, X) || X <- hawser:send(P, L) && Y <- hawser:send(P, M), Y]"}
    ],
    [] = not_rewritten([{around(Source), around(Wanted)} || {Since, Source, Wanted} <- Table, Release >= Since]).

%% Nodes that no Erlang has yet are walked through, and `maybe' by its nodes on the OTPs that do not read it.
later_nodes(_) ->
    Send = {op, 7, '!', {var, 7, 'P'}, {atom, 7, m}},
    Sent = {call, 7, {remote, 7, {atom, 7, hawser}, {atom, 7, send}}, [{var, 7, 'P'}, {atom, 7, m}]},
    Module = fun(Node) -> [{function, 1, f, 1, [{clause, 1, [{var, 1, 'P'}], [], [Node, {atom, 8, ok}]}]}] end,
    Nodes = [
        fun(X) -> {future, 7, X, [{of_it, X}, #{}, <<>>, 1.5 | X], "text"} end,
        fun(X) -> {'maybe', 7, [{maybe_match, 7, {var, 7, '_'}, X}, X]} end,
        fun(X) -> {'maybe', 7, [X], {'else', 7, [{clause, 7, [{var, 7, '_'}], [], [X]}]}} end
    ],
    [] = [Node(Send) || Node <- Nodes, hawser_transform:parse_transform(Module(Node(Send)), []) =/= Module(Node(Sent))].

%% Rows of {Source, Wanted} that do not come out as they should, places aside.
not_rewritten(Table) ->
    [
        {Source, lists:flatten([erl_pp:form(Form) || Form <- Got])}
     || {Source, Wanted} <- Table,
        Got <- [hawser_transform:parse_transform(forms(Source), [])],
        without_places(Got) =/= without_places(forms(Wanted))
    ].

%% In a place where the function's value is made of others.
around(Expression) ->
    lists:flatten(["f(P, Q, M, N, R, L) -> {", Expression, "}."]).

forms(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text, {1, 1}),
    parsed(Tokens, []).

parsed([], []) ->
    [];
parsed([{dot, _} = Dot | Tokens], Read) ->
    {ok, Form} = erl_parse:parse_form(lists:reverse(Read, [Dot])),
    [Form | parsed(Tokens, [])];
parsed([Token | Tokens], Read) ->
    parsed(Tokens, [Token | Read]).

without_places(Forms) ->
    [erl_parse:map_anno(fun(_) -> erl_anno:new(0) end, Form) || Form <- Forms].

%% ---- behaviour ----

%% Every shape of a send has the value, the effects in their order and the messages that it has without the transform.
same_behaviour(Config) ->
    {Plain, Transformed} = both(Config, [], fun erlang:self/0),
    {operator, {value, operator}, [operator], []} = lists:keyfind(operator, 1, Plain),
    {order, {value, order}, [order], [left, right]} = lists:keyfind(order, 1, Plain),
    [] = differences(Plain, Transformed).

%% A send to what is no destination fails in class, reason and line as without the transform.
same_errors(Config) ->
    {Plain, Transformed} = both(Config, [], fun() -> nobody_has_this_name end),
    {operator, {error, badarg, [_]}, [], []} = lists:keyfind(operator, 1, Plain),
    true = length([Name || {Name, {error, badarg, [_ | _]}, _, _} <- Plain]) > 25,
    [] = differences(Plain, Transformed).

%% The compiler's inliners and its lack of optimisation change nothing of that.
inlined(Config) ->
    [
        begin
            {Plain, Transformed} = both(Config, Options, To),
            [] = differences(Plain, Transformed)
        end
     || Options <- [[inline], [inline_list_funcs], [no_copt, no_ssa_opt, no_bool_opt]],
        To <- [fun erlang:self/0, fun() -> nobody_has_this_name end]
    ].

%% Other transforms, before or behind this one, do their work too.
other_transforms(_) ->
    Text = "-export([g/1]). g(P) -> P ! ets:fun2ms(fun({X, Y}) when X > 1 -> Y end), ok.",
    [] = [
        {Transforms, Got}
     || Transforms <- [[hawser_transform, ms_transform], [ms_transform, hawser_transform]],
        Got <- [begin
            {ok, m, Binary, []} = compiled(Text, [{parse_transform, Transform} || Transform <- Transforms]),
            ok = load(m, Binary),
            ok = m:g(self()),
            {ok, {m, [{imports, Imports}]}} = beam_lib:chunks(Binary, [imports]),
            {flush(), lists:member({hawser, send, 2}, Imports)}
        end],
        Got =/= {[[{{'$1', '$2'}, [{'>', '$1', 1}], ['$2']}]], true}
    ].

%% What the shapes do without the transform, and with it.
both(Config, Options, To) ->
    {run(Config, Options, To), run(Config, [?TRANSFORM | Options], To)}.

run(Config, Options, To) ->
    {ok, shapes, Binary} = compile:file(data(Config, "shapes.erl"), [binary, report | Options]),
    ok = load(shapes, Binary),
    [in_process(fun() -> outcome(Name, To()) end)
     || {Name, 1} <- shapes:module_info(exports), Name =/= module_info, Name =/= note].

in_process(Fun) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({did, Fun()}) end),
    receive {'DOWN', Monitor, process, Pid, {did, Value}} -> Value end.

outcome(Name, To) ->
    Outcome =
        try shapes:Name(To) of
            Value -> {value, Value}
        catch
            Class:Reason:Stack -> {Class, Reason, [proplists:get_value(line, Info) || {shapes, _, _, Info} <- Stack]}
        end,
    Notes = case get(notes) of undefined -> []; Noted -> lists:reverse(Noted) end,
    {Name, Outcome, flush(), Notes}.

flush() ->
    receive Message -> [Message | flush()] after 0 -> [] end.

differences(Plain, Transformed) ->
    [Pair || {A, B} = Pair <- lists:zip(Plain, Transformed), A =/= B].

load(Module, Binary) ->
    _ = code:purge(Module),
    {module, Module} = code:load_binary(Module, "of the suite", Binary),
    ok.

data(Config, File) ->
    filename:join(proplists:get_value(data_dir, Config), File).

%% ---- what the compiler says ----

%% What the compiler refuses, it refuses in the same words and at the same place.
same_mistakes(_) ->
    [] = [
        {Text, Plain, Transformed}
     || Text <- [
            "f(P) -> P ! M, ok.",
            "f(P) -> P ! M.",
            "f(P) -> (X = P) ! X.",
            "f(P) when P ! m -> ok.",
            "f(P) when erlang:send(P, m) -> ok.",
            "f(P) -> (P ! m) = P.",
            "f(P) -> send(P, m).",
            "f(P) -> case P of a -> (X = P) ! m, ok; b -> ok end, X.",
            "f(P) -> erpc:call(P, M, f, []).",
            "f(P) -> P ! #r{f = P ! m}."
        ],
        Plain <- [compiled("-export([f/1]).\n" ++ Text, [])],
        Transformed <- [compiled("-export([f/1]).\n" ++ Text, [?TRANSFORM])],
        element(1, Plain) =/= error orelse Plain =/= Transformed
    ].

%% The transform takes no warning away and adds none.
same_warnings(Config) ->
    Options = [
        return, warn_unused_vars, warn_export_vars, warn_shadow_vars, warn_unused_record, warn_missing_spec,
        warn_untyped_record
    ],
    Text =
        "-export([g/1, h/1]).\n"
        "g(P) -> X = P ! a, case P of 1 -> (Y = P) ! m; _ -> P ! (Y = m) end.\n"
        "h(P) -> case P of 1 -> (Y = P) ! m; _ -> P ! (Y = m) end, Y ! fun(P) -> P ! m end, {made, P}, P ! m.\n",
    {ok, m, _, [{_, Warned}] = Warnings} = compiled(Text, Options),
    true = length(Warned) > 4,
    {ok, m, _, Warnings} = compiled(Text, [?TRANSFORM | Options]),
    [] = [
        {File, Plain, Transformed}
     || File <- ["shapes.erl", "over.erl"],
        {ok, _, _, Plain} <- [compile:file(data(Config, File), [binary | Options])],
        {ok, _, _, Transformed} <- [compile:file(data(Config, File), [binary, ?TRANSFORM | Options])],
        Plain =/= Transformed
    ].

compiled(Text, Options) ->
    compile:forms(forms("-module(m).\n" ++ Text), [return | Options]).

%% ---- over hawser ----

%% What a transformed module sends to a pid, a name and an alias of another node goes over the session; without the
%% transform nothing does.
sends_over_hawser(Config) ->
    [{A, _}, {B, _}] = proplists:get_value(nodes, Config),
    Destinations = call(B, ?MODULE, collector, []),
    Wanted = [{by, By} || _ <- Destinations, By <- [operator, function, options]],
    Sends = fun() ->
        Count = call(A, over, sends, [Destinations]),
        Wanted = call(B, ?MODULE, collected, [Destinations, Count], ?MS)
    end,
    0 = over_hawser(A, Config, [], Sends),
    9 = over_hawser(A, Config, [?TRANSFORM], Sends).

%% What a transformed module asks of erpc is asked over the session, with the same answers.
calls_over_hawser(Config) ->
    [{A, _}, {_, NodeB}] = proplists:get_value(nodes, Config),
    Calls = fun() ->
        [NodeB, 1, ball, [{ok, NodeB}, {ok, NodeB}]] = call(A, over, calls, [NodeB], ?MS),
        [NodeB, NodeB] = call(A, over, requests, [NodeB], ?MS)
    end,
    0 = over_hawser(A, Config, [], Calls),
    7 = over_hawser(A, Config, [?TRANSFORM], Calls).

%% How many messages the node sent over hawser while the module, compiled so, was at work.
over_hawser(Peer, Config, Options, Work) ->
    {ok, over, Binary} = compile:file(data(Config, "over.erl"), [binary, report | Options]),
    _ = call(Peer, code, purge, [over]),
    {module, over} = call(Peer, code, load_binary, [over, "of the suite", Binary]),
    Before = sent(Peer),
    _ = Work(),
    sent(Peer) - Before.

sent(Peer) ->
    #{totals := #{sent_messages := Sent}} = call(Peer, hawser, info, []),
    Sent.

%% One process, as a pid, as a name and as an alias.
-spec collector() -> [hawser:destination()].
collector() ->
    Caller = self(),
    Collector = spawn(fun() ->
        true = register(?MODULE, self()),
        Caller ! {self(), alias()},
        collect([])
    end),
    receive {Collector, Alias} -> [Collector, {?MODULE, node()}, Alias] end.

collect(Messages) ->
    receive
        {by, _} = Message -> collect([Message | Messages]);
        {take, From, Count} when length(Messages) >= Count -> From ! {self(), lists:reverse(Messages)}, collect([])
    end.

-spec collected([hawser:destination()], Count :: pos_integer()) -> [term()].
collected([Collector | _], Count) ->
    Collector ! {take, self(), Count},
    receive {Collector, Messages} -> Messages end.
