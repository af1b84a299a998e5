%% The codec by itself: what one end encodes the other decodes to the same term, what does not fit hawser's own form is
%% refused at once, and no bytes whatever make the decoder build something that is not a term.
-module(hawser_codec_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([
    every_kind/1, every_kind_alone/1, identifiers_of_both_ends/1, shorter_than_plain/1, lengths/1, depths/1,
    refused_at_once/1, any_term/1, random_bytes/1, mutated_terms/1, truncated_terms/1, mutated_announcements/1,
    duplicate_keys/1, compressed/1, unknown_atoms/1, lying_counts/1, too_deep/1, bad_numbers/1, pids_of_others/1,
    full_dictionary/1, atoms_of_many_processes/1
]).
%% Run on the nodes.
-export([identity/0, encoded/1, decoded/2, atoms_at_the_limit/1]).

-include_lib("proper/include/proper_common.hrl").

-import(hawser_test_nodes, [start_node/1, stop/1, call/4]).

%% Where both ends are this node, and where the other end is one that nobody has heard of.
-define(PEER, {<<"b@no.such.host">>, 7}).
-define(NATIVE_LIMIT, 65536).
-define(MAX_DEPTH, 64).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [
        every_kind, every_kind_alone, identifiers_of_both_ends, shorter_than_plain, lengths, depths, refused_at_once,
        any_term, random_bytes, mutated_terms, truncated_terms, mutated_announcements, duplicate_keys, compressed,
        unknown_atoms, lying_counts, too_deep, bad_numbers, pids_of_others, full_dictionary, atoms_of_many_processes
    ].

init_per_suite(Config) ->
    Seed = rand:export_seed_s(rand:seed_s(exsss)),
    ct:log("rand:seed(~0p)", [Seed]),
    [{seed, Seed} | Config].

end_per_suite(_) ->
    ok.

%% ---- what is encoded arrives ----

%% Every kind of term that one node encodes another one decodes to an equal term, or it goes plain.
every_kind(_) ->
    {A, _} = start_node(#{hawser => false}),
    {B, _} = start_node(#{hawser => false}),
    Ends = {call(A, ?MODULE, identity, []), call(B, ?MODULE, identity, [])},
    Encoded = call(A, ?MODULE, encoded, [Ends]),
    [] = [Name || {Name, Answer} <- call(B, ?MODULE, decoded, [Encoded, Ends]), Answer =/= equal],
    Plain = [Name || {Name, Term, plain} <- Encoded, native(Term)],
    ct:log("native by kind, plain by length: ~0p", [Plain]),
    [] = [Name || Name <- Plain, not long(proplists:get_value(Name, [{N, T} || {N, T, _} <- Encoded]))],
    [] = [Name || {Name, Term, Bytes} <- Encoded, Bytes =/= plain, not native(Term)].

native(Term) -> hawser_term_gen:native(Term).

%% A native form is at most a byte longer than the plain one, but for what is embedded.
long(Term) ->
    erlang:external_size(Term) > ?NATIVE_LIMIT.

%% On a node that is not alive no identifier is another one's, and every kind of term stays what it is.
every_kind_alone(_) ->
    nonode@nohost = node(),
    Ends = {identity(), ?PEER},
    [] = [Name || {Name, Term} <- hawser_term_kinds:short(), round_trip(Term, Ends) =:= different].

%% A process of either end is the same process at the other end, in and outside of collections.
identifiers_of_both_ends(_) ->
    {A, NodeA} = start_node(#{hawser => false}),
    {B, NodeB} = start_node(#{hawser => false}),
    Ends = {call(A, ?MODULE, identity, []), call(B, ?MODULE, identity, [])},
    [OfA, OfB] = [[Term || {_, Term} <- call(Peer, hawser_term_kinds, identifiers, [])] || Peer <- [A, B]],
    Term = {OfA, OfB, #{hd(OfA) => hd(OfB), hd(OfB) => hd(OfA)}},
    {Bytes, Announcements} = call(A, hawser_nif, codec_encode, [Term, Ends]),
    {ok, Term} = call(B, hawser_nif, codec_decode, [Bytes, Announcements, Ends]),
    [NodeA, NodeB] = [node(hd(Pids)) || Pids <- [OfA, OfB]],
    nomatch = binary:match(term_to_binary(hd(OfA)), atom_to_binary(node())).

%% A message of atoms is a fraction of its plain form once its atoms are announced.
shorter_than_plain(_) ->
    Fields = maps:from_list([{list_to_atom("field_of_a_record_" ++ integer_to_list(N)), undefined} || N <- lists:seq(1, 10)]),
    {Bytes, _} = encode(Fields, {identity(), ?PEER}),
    true = byte_size(Bytes) * 3 < byte_size(term_to_binary(Fields)).

%% ---- what goes plain ----

%% Terms up to the limit are native, longer ones are not, whatever they are made of.
lengths(_) ->
    Ends = {identity(), ?PEER},
    Sizes = [{binary, 5}, {list_of_binaries, 11}, {tuple, 7}],
    _ = [begin
        Fits = made(Kind, ?NATIVE_LIMIT - Overhead),
        equal = round_trip(Fits, Ends),
        {Bytes, _} = encode(Fits, Ends),
        ?NATIVE_LIMIT = byte_size(Bytes),
        plain = round_trip(made(Kind, ?NATIVE_LIMIT + 1), Ends)
    end || {Kind, Overhead} <- Sizes],
    equal = round_trip(lists:duplicate(65533, $x), Ends),
    _ = [plain = round_trip(Term, Ends) || Term <- [
        lists:duplicate(65536, $x), lists:duplicate(65536, []), lists:seq(1, 40000),
        list_to_tuple(lists:duplicate(40000, 1)), maps:from_list([{N, N} || N <- lists:seq(1, 20000)]), 1 bsl 600000,
        [<<0:100000>>, <<0:500000>>]
    ]],
    ok.

made(binary, N) -> binary:copy(<<1>>, N);
made(list_of_binaries, N) -> [made(binary, N)];
made(tuple, N) -> {made(binary, N)}.

%% Terms as deep as the limit are native, deeper ones are not, whatever they are made of.
depths(_) ->
    Ends = {identity(), ?PEER},
    _ = [begin
        equal = round_trip(hawser_term_kinds:nested(Shape, ?MAX_DEPTH), Ends),
        plain = round_trip(hawser_term_kinds:nested(Shape, ?MAX_DEPTH + 1), Ends)
    end || Shape <- [list, tuple, map_value]],
    _ = [begin
        equal = round_trip(hawser_term_kinds:nested(Shape, ?MAX_DEPTH div 2), Ends),
        plain = round_trip(hawser_term_kinds:nested(Shape, ?MAX_DEPTH div 2 + 1), Ends)
    end || Shape <- [map_pair, tail]],
    equal = round_trip(lists:foldl(fun(_, Inner) -> {Inner} end, [a | b], lists:seq(1, ?MAX_DEPTH - 1)), Ends).

%% What is a million deep or megabytes long is refused before it costs a scheduler anything.
refused_at_once(_) ->
    Ends = {identity(), ?PEER},
    _ = [begin
        Times = [element(1, timer:tc(fun() -> plain = encode(Term, Ends) end)) || _ <- lists:seq(1, 20)],
        true = lists:min(Times) < 3000
    end || {_, Term} <- hawser_term_kinds:huge()],
    ok.

%% ---- properties ----

%% Any term arrives equal, or goes plain because there is a fun, a bitstring, a number of more than 64 bits or too deep a nesting in it.
any_term(_) ->
    Ends = {identity(), ?PEER},
    Property = ?FORALL(Term, hawser_term_gen:term(),
        case round_trip(Term, Ends) of
            equal -> hawser_term_gen:native(Term);
            plain -> not hawser_term_gen:native(Term) orelse long(Term);
            different -> false
        end),
    true = proper:quickcheck(Property, [{numtests, 10000}, {max_size, 30}, quiet, {on_output, fun ct:log/2}, long_result])
        orelse ct:fail({counterexample, proper:counterexample()}).

%% Bytes that mean nothing are an error, and the VM goes on.
random_bytes(Config) ->
    _ = seed(Config),
    [decoded_or_refused(rand:bytes(rand:uniform(100) - 1), <<>>) || _ <- lists:seq(1, 20000)],
    [decoded_or_refused(<<(tag()), (rand:bytes(rand:uniform(60)))/binary>>, <<>>) || _ <- lists:seq(1, 50000)],
    ok.

%% A term of every kind with some bytes changed, cut out or put in is a term or an error.
mutated_terms(Config) ->
    _ = seed(Config),
    Ends = {identity(), ?PEER},
    Wires = [{Bytes, Announcements} || {_, Term} <- hawser_term_kinds:short(),
                                       {Bytes, Announcements} <- [encode(Term, Ends)], byte_size(Bytes) < 1000],
    Answers = [decoded_or_refused(mutated(Bytes), Announcements)
               || _ <- lists:seq(1, 200), {Bytes, Announcements} <- Wires],
    Count = fun(Wanted) -> length([Answer || Answer <- Answers, Answer =:= Wanted]) end,
    ct:log("~b terms, ~b refused", [Count(term), Count(refused)]),
    true = Count(term) > 1000 andalso Count(refused) > 1000.

%% Each proper beginning of a term is refused.
truncated_terms(_) ->
    Ends = {identity(), ?PEER},
    [{error, _} = hawser_nif:codec_decode(binary:part(Bytes, 0, Length), Announcements, Ends)
     || {_, Term} <- hawser_term_kinds:short(), {Bytes, Announcements} <- [encode(Term, Ends)],
        byte_size(Bytes) < 1000, Length <- lists:seq(0, byte_size(Bytes) - 1)],
    ok.

%% Announcements that are cut or changed are refused or name other atoms; they never crash.
mutated_announcements(Config) ->
    _ = seed(Config),
    {Bytes, Announcements} = encode([a, 'b c', [16#4e16], list_to_atom([16#e9])], {identity(), ?PEER}),
    [try decoded_or_refused(Bytes, mutated(Announcements)) catch error:badarg -> refused end || _ <- lists:seq(1, 5000)],
    ok.

%% ---- bytes that lie ----

%% A map with a key that comes twice is refused, below and above the size at which maps become trees.
duplicate_keys(_) ->
    Ends = {identity(), ?PEER},
    Map = fun(Keys) -> <<116, (length(Keys)):32, << <<97, K, 97, 0>> || K <- Keys >>/binary>> end,
    _ = [begin
        {error, <<_/binary>>} = hawser_nif:codec_decode(Bytes, <<>>, Ends),
        {error, <<_/binary>>} = hawser_nif:codec_decode(<<$E, (byte_size(Bytes) + 1):32, 131, Bytes/binary>>, <<>>, Ends),
        {error, <<_/binary>>} = hawser_nif:codec_decode(<<104, 1, Bytes/binary>>, <<>>, Ends)
    end || Keys <- [[1, 1], [1, 2, 3, 4, 1], lists:seq(1, 31) ++ [31], [N rem 5 || N <- lists:seq(1, 40)],
                    lists:seq(1, 39) ++ [1], lists:seq(1, 33) ++ [33]], Bytes <- [Map(Keys)]],
    {ok, _} = hawser_nif:codec_decode(Map(lists:seq(1, 40)), <<>>, Ends).

%% A compressed term would be a bomb: refused, however short.
compressed(_) ->
    Ends = {identity(), ?PEER},
    Bomb = term_to_binary(binary:copy(<<0>>, 10000000), [compressed]),
    Small = term_to_binary(lists:duplicate(100, $a), [compressed]),
    [{error, _} = hawser_nif:codec_decode(<<$E, (byte_size(Plain)):32, Plain/binary>>, <<>>, Ends) || Plain <- [Bomb, Small]],
    {error, _} = hawser_nif:codec_decode(Small, <<>>, Ends).

%% An id that was never announced is refused wherever an atom may stand.
unknown_atoms(_) ->
    Ends = {identity(), ?PEER},
    [{error, _} = hawser_nif:codec_decode(Bytes, <<7:16, 1:16, "a">>, Ends)
     || Bytes <- [<<$R, 8:16>>, <<$R, 65535:16>>, <<104, 2, $R, 7:16, $R, 8:16>>, <<116, 1:32, $R, 8:16, 97, 0>>]],
    {ok, a} = hawser_nif:codec_decode(<<$R, 7:16>>, <<7:16, 1:16, "a">>, Ends).

%% A count of more than there is costs no memory.
lying_counts(_) ->
    Ends = {identity(), ?PEER},
    {Before, _} = {erlang:memory(total), garbage_collect()},
    [{error, _} = hawser_nif:codec_decode(<<Tag, Count:32, Rest/binary>>, <<>>, Ends)
     || Tag <- [105, 108, 109, 116, $E], Count <- [16#FFFFFFFF, 16#7FFFFFFF, 16#1000000, 1000], Rest <- [<<>>, <<131>>, <<97, 1>>]],
    true = erlang:memory(total) - Before < 10000000.

%% Nesting that no encoder writes is refused, before it costs the stack.
too_deep(_) ->
    Ends = {identity(), ?PEER},
    [{error, _} = hawser_nif:codec_decode(<<(binary:copy(Level, Depth))/binary, 106>>, <<>>, Ends)
     || Level <- [<<104, 1>>, <<108, 1:32>>, <<108, 0:32>>, <<116, 1:32, 97, 1>>, <<105, 1:32>>], Depth <- [?MAX_DEPTH + 2, 100000]],
    ok.

%% What is no number of the VM is refused; numbers in an unusual form are what they say.
bad_numbers(_) ->
    Ends = {identity(), ?PEER},
    [{error, _} = hawser_nif:codec_decode(Bytes, <<>>, Ends)
     || Bytes <- [<<70, 16#7FF0:16, 0:48>>, <<70, 16#FFF0:16, 0:48>>, <<70, 16#7FF8:16, 0:48>>, <<110, 9, 0, 0:72>>, <<110, 255, 0>>,
                  <<110, 8, 1, 16#FFFFFFFFFFFFFFFF:64>>, <<111, 1:32, 0, 1>>]],
    [{ok, Number} = hawser_nif:codec_decode(Bytes, <<>>, Ends)
     || {Bytes, Number} <- [{<<110, 8, 0, 16#FFFFFFFFFFFFFFFF:64>>, (1 bsl 64) - 1}, {<<110, 0, 0>>, 0}, {<<110, 1, 1, 5>>, -5}, {<<110, 8, 0, 5, 0:56>>, 5}, {<<98, 255:32>>, 255},
                            {<<110, 8, 1, 0:56, 128>>, -(1 bsl 63)}]].

%% A pid of the receiver's is refused where the receiver is somebody else; so are numbers that no pid has.
pids_of_others(_) ->
    {error, _} = hawser_nif:codec_decode(<<$D, 1:32, 0:32>>, <<>>, {identity(), ?PEER}),
    {ok, Pid} = hawser_nif:codec_decode(<<$S, 1:32, 2:32>>, <<>>, {?PEER, identity()}),
    'b@no.such.host' = node(Pid),
    [decoded_or_refused(<<Tag, Id:32, Serial:32>>, <<>>, Ends)
     || Tag <- [$S, $D], Id <- [16#FFFFFFFF, 1 bsl 28, 1 bsl 15], Serial <- [16#FFFFFFFF, 1 bsl 13],
        Ends <- [{?PEER, identity()}, {identity(), identity()}]],
    ok.

%% ---- the dictionary ----

%% Past the limit atoms go as text, ids stay what they were, and terms arrive equal.
full_dictionary(_) ->
    {A, _} = start_node(#{hawser => false}),
    ok = call(A, ?MODULE, atoms_at_the_limit, [[{identity(), ?PEER}, 3]]),
    stop(A).

%% Many processes that send the same new atoms at once get one id for each.
atoms_of_many_processes(_) ->
    Ends = {identity(), ?PEER},
    Atoms = [list_to_atom("raced_" ++ integer_to_list(N)) || N <- lists:seq(1, 500)],
    Racers = [spawn_monitor(fun() -> exit({raced, encode(Atoms, Ends)}) end) || _ <- lists:seq(1, 50)],
    [One] = lists:usort([receive {'DOWN', Monitor, process, Pid, {raced, Encoded}} -> Encoded end || {Pid, Monitor} <- Racers]),
    {Bytes, Announcements} = One,
    {ok, Atoms} = hawser_nif:codec_decode(Bytes, Announcements, Ends).

%% ---- help ----

round_trip(Term, Ends) ->
    case encode(Term, Ends) of
        plain ->
            plain;
        {Bytes, Announcements} ->
            {ok, Decoded} = hawser_nif:codec_decode(Bytes, Announcements, Ends),
            compared(Term, Decoded)
    end.

compared(Term, Decoded) ->
    case hawser_term_kinds:equal(Term, Decoded) of
        true -> equal;
        false -> different
    end.

encode(Term, Ends) ->
    hawser_nif:codec_encode(Term, Ends).

decoded_or_refused(Bytes, Announcements) ->
    decoded_or_refused(Bytes, Announcements, {identity(), ?PEER}).

%% What is accepted is a whole term: the VM can write it, read it and find it equal.
decoded_or_refused(Bytes, Announcements, Ends) ->
    case hawser_nif:codec_decode(Bytes, Announcements, Ends) of
        {ok, Term} ->
            Term = binary_to_term(term_to_binary(Term)),
            term;
        {error, Why} when is_binary(Why) ->
            refused
    end.

seed(Config) ->
    rand:seed(proplists:get_value(seed, Config)).

%% One of the tags, so that random bytes get past the first.
tag() ->
    Tags = <<"RSDE", 70, 97, 98, 104, 105, 106, 107, 108, 109, 110, 116, 118, 119>>,
    binary:at(Tags, rand:uniform(byte_size(Tags)) - 1).

mutated(Bytes) ->
    lists:foldl(fun(_, Changed) -> mutate(rand:uniform(6), Changed) end, Bytes, lists:seq(1, rand:uniform(3))).

mutate(_, <<>>) ->
    <<(tag())>>;
mutate(How, Bytes) ->
    At = rand:uniform(byte_size(Bytes)) - 1,
    <<Front:At/binary, Byte, Back/binary>> = Bytes,
    case How of
        1 -> <<Front/binary, (Byte bxor (1 bsl (rand:uniform(8) - 1))), Back/binary>>;
        2 -> <<Front/binary, (rand:uniform(256) - 1), Back/binary>>;
        3 -> <<Front/binary, (tag()), Back/binary>>;
        4 -> <<Front/binary, Back/binary>>;
        5 -> <<Front/binary, (rand:bytes(rand:uniform(8)))/binary, Byte, Back/binary>>;
        6 -> <<Front/binary, Byte, Front/binary, Byte, Back/binary>>
    end.

%% ---- on the nodes ----

identity() ->
    {atom_to_binary(node()), erlang:system_info(creation)}.

encoded(Ends) ->
    [{Name, Term, encode(Term, Ends)} || {Name, Term} <- hawser_term_kinds:short()].

decoded(Encoded, Ends) ->
    [{Name, arrived(Term, Wire, Ends)} || {Name, Term, Wire} <- Encoded].

arrived(_, plain, _) ->
    equal;
arrived(Term, {Bytes, Announcements}, Ends) ->
    case hawser_nif:codec_decode(Bytes, Announcements, Ends) of
        {ok, Decoded} -> compared(Term, Decoded);
        Error -> Error
    end.

atoms_at_the_limit([Ends, Limit]) ->
    ok = hawser_nif:dictionary_limit(Limit),
    Long = list_to_atom(lists:duplicate(255, 16#1f600)),
    Atoms = [one, two, three, four, five, Long, list_to_atom([16#e9])],
    _ = [begin
        {Bytes, Announcements} = encode(Atoms, Ends),
        <<0:16, 3:16, "one", 1:16, 3:16, "two", 2:16, 5:16, "three">> = Announcements,
        {_, _} = binary:match(Bytes, <<119, 4, "four">>),
        {_, _} = binary:match(Bytes, <<118, 1020:16, 16#1f600/utf8>>),
        {ok, Atoms} = hawser_nif:codec_decode(Bytes, Announcements, Ends)
    end || _ <- lists:seq(1, 10)],
    ok = hawser_nif:dictionary_limit(0),
    {<<108, 2:32, $R, 0:16, 119, 3, "six", 106>>, <<0:16, 3:16, "one">>} = encode([one, six], Ends),
    ok.
