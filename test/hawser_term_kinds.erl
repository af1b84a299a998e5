%% One term of every kind that the external term format knows, by name, and the edges between the kinds. Used by the
%% suites of the codec and of send, on whatever node they want the terms to be made. Knows nothing of hawser.
-module(hawser_term_kinds).

-export([all/0, short/0, huge/0, identifiers/0, equal/2]).
-export([pid/4, port/3, reference/3, nested/2]).

-export_type([named/0]).

-type named() :: {Name :: atom() | {atom(), term()}, term()}.

-spec all() -> [named()].
all() ->
    short() ++ huge().

%% Terms of less than a few hundred kilobytes.
-spec short() -> [named()].
short() ->
    integers() ++ floats() ++ atoms() ++ lists() ++ bits() ++ tuples() ++ maps() ++ identifiers() ++ funs()
        ++ [{{Shape, Depth}, nested(Shape, Depth)} || Shape <- shapes(), Depth <- [63, 64, 65, 66, 1000]].

%% Deep or long ones, which no encoder may take in one go on a scheduler.
-spec huge() -> [named()].
huge() ->
    [{{Shape, million}, nested(Shape, 1000000)} || Shape <- shapes()]
        ++ [
            {binary_5_mb, binary:copy(<<"hawser">>, 833334)},
            {bitstring_1_mb, <<0:8388609>>},
            {list_3_mb, lists:seq(1, 600000)},
            {maps_3_mb, [#{key => N, value => {N, <<"value">>}} || N <- lists:seq(1, 60000)]},
            {string_200000, lists:duplicate(200000, $s)}
        ].

%% Equal down to the sign of a zero.
-spec equal(term(), term()) -> boolean().
equal(A, B) ->
    A =:= B andalso term_to_binary(A) =:= term_to_binary(B).

integers() ->
    Edges = [1 bsl N || N <- [8, 16, 27, 31, 32, 59, 60, 63, 64, 128, 2039, 2040, 2041]],
    [{{integer, N}, N} || Edge <- [0 | Edges], N <- [Edge - 1, Edge, Edge + 1, -Edge - 1, -Edge, -Edge + 1]]
        ++ [{bignum, 1 bsl 200000}, {negative_bignum, -(1 bsl 200000)}].

floats() ->
    [{{float, F}, F} || F <- [1.5, -1.5, 0.1, 1.0e308, -1.7976931348623157e308, 2.2250738585072014e-308, 5.0e-324]]
        ++ [{zero, 0.0}, {negative_zero, -0.0}, {zeroes, {-0.0, [0.0, -0.0], #{0 => -0.0}}}].

atoms() ->
    Characters = [{empty, ""}, {ascii, "atom"}, {ascii_255, lists:duplicate(255, $a)}, {latin1, [16#e9]},
                  {latin1_255, lists:duplicate(255, 16#ff)}, {chinese, [16#4e16, 16#754c]},
                  {two_byte_128, lists:duplicate(128, 16#3b1)}, {four_byte_255, lists:duplicate(255, 16#1f600)}],
    [{{atom, Name}, list_to_atom(Text)} || {Name, Text} <- Characters]
        ++ [{many_atoms, [list_to_atom("hawser_kind_" ++ integer_to_list(N)) || N <- lists:seq(1, 1000)]}].

lists() ->
    Deep = [[[[[]]]], [], [[]]],
    [
        {nil, []}, {proper, [a, 1, 2.0, <<"b">>]}, {lists, Deep}, {improper, [a | b]}, {improper_number, [1 | 2]},
        {improper_string, [$a, $b | $c]}, {improper_binary, [$a, $b | <<"c">>]}, {improper_in_improper, [[a | b] | {c, [d | e]}]},
        {string, "a string"}, {string_0_to_255, lists:seq(0, 255)}, {not_a_string, lists:seq(0, 256)},
        {string_then_atom, lists:duplicate(1000, 7) ++ [end_of_it]}, {string_with_list, [$a, "bc", $d]},
        {negative_in_string, [1, 2, -1]}, {mixed, [$a, 300, $b, 1 bsl 70, "c", 'D' | "tail"]}
    ] ++ [{{string, N}, lists:duplicate(N, $x)} || N <- [65534, 65535, 65536, 70000]]
      ++ [{{improper_string, N}, lists:duplicate(N, $x) ++ tail} || N <- [32000, 65535, 65536]].

bits() ->
    <<_, Part:10/binary, _/binary>> = binary:copy(<<"a part of a binary">>, 10),
    <<_:3, Unaligned:80/bitstring, _/bitstring>> = <<"not aligned at all">>,
    [
        {empty_binary, <<>>}, {binary, <<0, 1, 255>>}, {heap_binary, binary:copy(<<1>>, 64)}, {long_binary, binary:copy(<<2>>, 65)},
        {sub_binary, Part}, {unaligned_binary, Unaligned}, {one_bit, <<1:1>>}, {seven_bits, <<85:7>>}, {bits, <<1, 2, 3:3>>},
        {bits_64_kb, <<0:524289>>}, {bits_in_list, [<<1:1>>, {<<>>, <<2:2>>}]}
    ] ++ [{{binary, N}, binary:copy(<<3>>, N)} || N <- lists:seq(65526, 65540) ++ [131072, 300000]].

tuples() ->
    [{{tuple, N}, list_to_tuple(lists:seq(1, N))} || N <- [0, 1, 2, 31, 32, 33, 254, 255, 256, 257, 4000]]
        ++ [{tuples, {{}, {{}}, {{{}}, {}}}}].

maps() ->
    [{{map, N}, maps:from_list([{{key, K}, [K]} || K <- lists:seq(1, N)])} || N <- [0, 1, 31, 32, 33, 34, 1000]]
        ++ [
            {atom_keys, #{z => 1, a => 2, 'M' => 3}}, {number_keys, #{1 => int, 1.0 => float, (1 bsl 64) => big, -1 => neg}},
            {map_key, #{#{a => 1} => #{#{} => #{}}}}, {map_in_map_key, #{{#{1 => 2}, "s"} => maps:from_list([{N, #{N => N}} || N <- lists:seq(1, 40)])}},
            {any_key, #{self() => pid, make_ref() => ref, <<"b">> => bin, [] => nil, {} => tuple, [a | b] => improper}}
        ].

%% Of this node, of nodes that are not connected, and of an earlier life of this node.
-spec identifiers() -> [named()].
identifiers() ->
    Other = 'another@no.such.host',
    Earlier = erlang:system_info(creation) + 1,
    {Dead, Monitor} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Monitor, process, Dead, _} -> ok end,
    [
        {self, self()}, {dead_pid, Dead}, {init_pid, whereis(init)}, {port, hd(erlang:ports())}, {reference, make_ref()},
        {alias, alias()}, {reused, [self(), self(), whereis(init), self()]},
        {third_pid, pid(Other, 1, 2, 3)}, {third_port, port(Other, 4, 5)}, {third_reference, reference(Other, 6, [7, 8, 9])},
        {long_reference, reference(Other, 1, [1, 2, 3, 4, 5])}, {earlier_pid, pid(node(), 50, 0, Earlier)},
        {earlier_reference, reference(node(), Earlier, [1, 2, 3])}, {unicode_node, pid(list_to_atom([16#e9, $@, 16#4e16]), 1, 2, 3)},
        {pids, [{pid(Other, N, N, 3), N} || N <- lists:seq(1, 300)]}
    ].

funs() ->
    Free = {free, make_ref()},
    [
        {local_fun, fun() -> Free end}, {fun_of_two, fun(A, B) -> {A, B, Free} end}, {external_fun, fun erlang:self/0},
        {unloaded_fun, fun no_such_module:no_such_function/255}, {fun_in_map, #{f => [fun lists:map/2 | fun() -> ok end]}}
    ].

shapes() ->
    [list, tuple, map_value, map_pair, tail].

%% Depth is the number of terms around the innermost one.
-spec nested(list | tuple | map_value | map_pair | tail, pos_integer()) -> term().
nested(Shape, Depth) ->
    lists:foldl(fun(_, Inner) -> around(Shape, Inner) end, [], lists:seq(1, Depth)).

around(list, Inner) -> [Inner];
around(tuple, Inner) -> {Inner};
around(map_value, Inner) -> #{1 => Inner};
%% Not in the key: making each map would hash the whole of what is inside.
around(map_pair, Inner) -> #{{} => [Inner | 1]};
around(tail, Inner) -> [1 | {Inner}].

-spec pid(node(), non_neg_integer(), non_neg_integer(), non_neg_integer()) -> pid().
pid(Node, Id, Serial, Creation) ->
    binary_to_term(<<131, 88, (atom(Node))/binary, Id:32, Serial:32, Creation:32>>).

-spec port(node(), non_neg_integer(), non_neg_integer()) -> port().
port(Node, Id, Creation) ->
    binary_to_term(<<131, 89, (atom(Node))/binary, Id:32, Creation:32>>).

-spec reference(node(), non_neg_integer(), [non_neg_integer()]) -> reference().
reference(Node, Creation, Words) ->
    binary_to_term(<<131, 90, (length(Words)):16, (atom(Node))/binary, Creation:32, << <<W:32>> || W <- Words >>/binary>>).

atom(Name) ->
    Text = atom_to_binary(Name),
    <<119, (byte_size(Text)), Text/binary>>.
