%% PropEr generators for terms: any() of PropEr, and terms that are full of what it leaves out (identifiers of this and
%% other nodes, funs, bitstrings, improper lists, large integers). Says of a term whether hawser may write it natively.
-module(hawser_term_gen).

-export([term/0, native/1]).

-include_lib("proper/include/proper_common.hrl").

-define(MAX_DEPTH, 64).

-spec term() -> proper_types:type().
term() ->
    Leaf = leaf(),
    proper_types:oneof([proper_types:any(), ?SIZED(Size, term(Size, Leaf))]).

term(0, Leaf) ->
    Leaf;
term(Size, Leaf) ->
    Inner = ?LAZY(term(Size div 4, Leaf)),
    Some = proper_types:resize(min(Size, 8), proper_types:list(Inner)),
    proper_types:frequency([
        {2, Leaf},
        {2, Some},
        {1, ?LET({Element, Elements, Tail}, {Inner, Some, Leaf}, improper([Element | Elements], Tail))},
        {2, ?LET(Elements, Some, list_to_tuple(Elements))},
        {1, ?LET({Keys, Values}, {Some, Some}, maps:from_list(pairs(Keys, Values)))},
        {1, ?LET({Values, N}, {Some, proper_types:range(30, 40)},
                 maps:from_list([{K, K} || K <- lists:seq(1, N)] ++ pairs(lists:seq(1, N), Values)))}
    ]).

pairs([Key | Keys], [Value | Values]) -> [{Key, Value} | pairs(Keys, Values)];
pairs(_, _) -> [].

improper(Elements, Tail) ->
    lists:foldr(fun(Element, Rest) -> [Element | Rest] end, Tail, Elements).

leaf() ->
    Kinds = hawser_term_kinds:identifiers(),
    proper_types:frequency([
        {3, proper_types:integer()}, {1, proper_types:largeint()}, {2, proper_types:float()},
        {1, ?LET({N, Sign}, {proper_types:range(25, 300), proper_types:oneof([1, -1])}, Sign * (1 bsl N))},
        {3, proper_types:atom()}, {3, ?LET(Text, unicode(), list_to_atom(Text))},
        {2, proper_types:binary()}, {1, proper_types:bitstring()}, {2, proper_types:string()},
        {4, proper_types:oneof([Term || {Name, Term} <- Kinds, Name =/= pids])},
        {1, proper_types:function(1, proper_types:integer())}, {1, fun lists:map/2}, {1, -0.0}
    ]).

unicode() ->
    Character = proper_types:oneof([proper_types:range($a, $z), proper_types:range(16#a0, 16#24f),
                                    proper_types:range(16#4e00, 16#4e40), proper_types:range(16#1f600, 16#1f640)]),
    ?SUCHTHAT(Text, proper_types:list(Character), length(Text) =< 255).

%% Neither a fun nor a bitstring in it, and no deeper than the codec goes.
-spec native(term()) -> boolean().
native(Term) ->
    native(Term, ?MAX_DEPTH).

native(Term, _) when is_integer(Term) -> Term >= -(1 bsl 63) andalso Term < 1 bsl 64;
native(Term, _) when is_function(Term) -> false;
native(Term, _) when is_bitstring(Term) -> is_binary(Term);
native(Term, Left) when is_tuple(Term) -> Left > 0 andalso every(tuple_to_list(Term), Left - 1);
native(Term, Left) when is_map(Term) -> Left > 0 andalso every(maps:keys(Term) ++ maps:values(Term), Left - 1);
native([_ | _] = Term, Left) -> Left > 0 andalso every(Term, Left - 1) orelse is_string(Term);
native(_, _) -> true.

%% Of a string no element is a term of its own.
is_string(Term) ->
    io_lib:latin1_char_list(Term).

every([Head | Tail], Left) -> native(Head, Left) andalso every(Tail, Left);
every(Tail, Left) -> native(Tail, Left).
