%% @doc Turns a module's sends and its calls of `erpc' into hawser's while it is compiled.
%%
%% For user code: `-compile({parse_transform, hawser_transform}).' Called by the compiler; nothing of it runs in the
%% program. `Dest ! Message', `erlang:send/2,3' and ``erlang:'!'/2'' become `hawser:send/2,3', each function of `erpc'
%% becomes that of `hawser_erpc', and so do external funs of them (`fun erpc:call/4') and types (`erpc:request_id()').
%% Values, order of evaluation, lines and columns stay, and so does the caller's line in the stack of a failed send.
%%
%% All else stays as it is: functions of the same names in this module or imported (`-import(erpc, [call/4])'), calls
%% whose module or function is no atom in the text, `apply(erpc, call, Args)', `erlang:send_nosuspend/2,3', and other
%% modules. A request identifier of `erpc' is none of `hawser_erpc': do not hand the one to the other's functions.
%% `hawser:send/3' refuses options that it does not know, `priority' of OTP 28 among them, with `badarg' when it runs.
-module(hawser_transform).

-export([parse_transform/2]).

%% Is the value of an expression that of the function around it?
-type position() :: tail | inner.

%% @doc The compiler's hook: the module's forms, rewritten. A module without anything to rewrite comes back as it is.
-spec parse_transform([erl_parse:abstract_form() | erl_parse:form_info()], [term()]) ->
    [erl_parse:abstract_form() | erl_parse:form_info()].
parse_transform(Forms, _Options) ->
    [form(Form) || Form <- Forms].

form({function, Anno, Name, Arity, Clauses}) ->
    {function, Anno, Name, Arity, walk(Clauses, tail)};
form({attribute, Anno, Kind, {Name, Content}}) when
    Kind =:= record; Kind =:= native_record; Kind =:= spec; Kind =:= callback
->
    {attribute, Anno, Kind, {Name, walk(Content, inner)}};
form({attribute, Anno, Kind, {Name, Type, Variables}}) when Kind =:= type; Kind =:= opaque; Kind =:= nominal ->
    {attribute, Anno, Kind, {Name, walk(Type, inner), Variables}};
form(Form) ->
    Form.

%% Everything that is not named here is walked through as the tuples and lists that it consists of, so that nodes of
%% later versions of Erlang pass. Nothing else in the abstract format looks like the nodes that are rewritten.
-spec walk(term(), position()) -> term().
walk({op, Anno, '!', To, Message}, Position) ->
    send(Anno, {remote, Anno, {atom, Anno, hawser}, {atom, Anno, send}}, [To, Message], Position);
walk({call, Anno, {remote, RemoteAnno, {atom, _, _} = M, {atom, _, _} = F}, Args} = Call, Position) ->
    case instead(M, F, length(Args)) of
        {{atom, _, hawser} = Module, Function} ->
            send(Anno, {remote, RemoteAnno, Module, Function}, Args, Position);
        {Module, Function} ->
            {call, Anno, {remote, RemoteAnno, Module, Function}, walk(Args, inner)};
        none ->
            setelement(4, Call, walk(Args, inner))
    end;
walk({'fun', Anno, {function, {atom, _, _} = M, {atom, _, _} = F, {integer, _, Arity} = A}} = Fun, _) ->
    case instead(M, F, Arity) of
        {Module, Function} -> {'fun', Anno, {function, Module, Function, A}};
        none -> Fun
    end;
walk({remote_type, Anno, [{atom, ModuleAnno, erpc}, {atom, _, Name} = Type, Args]}, _) when
    Name =:= request_id; Name =:= request_id_collection; Name =:= timeout_time; Name =:= call_options
->
    {remote_type, Anno, [{atom, ModuleAnno, hawser_erpc}, Type, Args]};
walk({Kind, _, _} = Leaf, _) when
    Kind =:= atom; Kind =:= integer; Kind =:= float; Kind =:= char; Kind =:= string; Kind =:= var; Kind =:= value
->
    Leaf;
%% Nodes with an expression whose value is the node's.
walk({clause, Anno, Patterns, Guards, Body}, Position) ->
    {clause, Anno, Patterns, Guards, body(Body, Position)};
walk({block, Anno, Body}, Position) ->
    {block, Anno, body(Body, Position)};
walk({'case', Anno, Subject, Clauses}, Position) ->
    {'case', Anno, walk(Subject, inner), walk(Clauses, Position)};
walk({'if', Anno, Clauses}, Position) ->
    {'if', Anno, walk(Clauses, Position)};
walk({'receive', Anno, Clauses}, Position) ->
    {'receive', Anno, walk(Clauses, Position)};
walk({'receive', Anno, Clauses, Timeout, Body}, Position) ->
    {'receive', Anno, walk(Clauses, Position), walk(Timeout, inner), body(Body, Position)};
walk({'try', Anno, Body, Clauses, Handlers, After}, Position) ->
    {'try', Anno, walk(Body, inner), walk(Clauses, Position), walk(Handlers, Position), walk(After, inner)};
walk({'maybe', Anno, Body}, Position) ->
    {'maybe', Anno, body(Body, Position)};
walk({'maybe', Anno, Body, {'else', ElseAnno, Clauses}}, Position) ->
    {'maybe', Anno, body(Body, Position), {'else', ElseAnno, walk(Clauses, Position)}};
walk({match, Anno, Pattern, Value}, Position) ->
    {match, Anno, Pattern, walk(Value, Position)};
walk({op, Anno, Op, Left, Right}, Position) when Op =:= 'andalso'; Op =:= 'orelse' ->
    {op, Anno, Op, walk(Left, inner), walk(Right, Position)};
walk({'fun', Anno, {clauses, Clauses}}, _) ->
    {'fun', Anno, {clauses, walk(Clauses, tail)}};
walk({named_fun, Anno, Name, Clauses}, _) ->
    {named_fun, Anno, Name, walk(Clauses, tail)};
walk(Tuple, _) when is_tuple(Tuple) ->
    list_to_tuple(walk(tuple_to_list(Tuple), inner));
walk([Head | Tail], Position) ->
    [walk(Head, Position) | walk(Tail, Position)];
walk(Other, _) ->
    Other.

body([Last], Position) -> [walk(Last, Position)];
body([Expression | Body], Position) -> [walk(Expression, inner) | body(Body, Position)];
body([], _) -> [].

%% The built-in send leaves the calling function in the stack wherever it stands; a call of another function in tail
%% position would not, and the line of a bad send would be lost: there it stands in a `try'.
send(Anno, Function, Args, Position) ->
    Call = {call, Anno, Function, walk(Args, inner)},
    case Position of
        inner ->
            Call;
        tail ->
            Generated = erl_anno:set_generated(true, Anno),
            {'try', Generated, [Call], [], [], [{atom, Generated, ok}]}
    end.

%% Hawser's function that stands for another module's.
instead({atom, ModuleAnno, erlang}, {atom, FunctionAnno, Name}, Arity) when
    Name =:= send, Arity =:= 2; Name =:= send, Arity =:= 3; Name =:= '!', Arity =:= 2
->
    {{atom, ModuleAnno, hawser}, {atom, FunctionAnno, send}};
instead({atom, ModuleAnno, erpc}, {atom, _, Name} = Function, Arity) ->
    case lists:member(Arity, arities(Name)) of
        true -> {{atom, ModuleAnno, hawser_erpc}, Function};
        false -> none
    end;
instead(_Module, _Function, _Arity) ->
    none.

%% erpc's documented functions. Those that OTP keeps for its own use are none of hawser_erpc's.
arities(call) -> [2, 3, 4, 5];
arities(cast) -> [2, 4];
arities(check_response) -> [2, 3];
arities(multicall) -> [2, 3, 4, 5];
arities(multicast) -> [2, 4];
arities(receive_response) -> [1, 2, 3];
arities(reqids_add) -> [3];
arities(reqids_new) -> [0];
arities(reqids_size) -> [1];
arities(reqids_to_list) -> [1];
arities(send_request) -> [2, 4, 6];
arities(wait_response) -> [1, 2, 3];
arities(_) -> [].
