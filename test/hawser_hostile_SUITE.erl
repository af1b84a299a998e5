%% An authenticated peer that breaks the protocol loses its session and
%% nothing else happens: what it sent before arrives, nothing after it, the
%% log gives a reason and no payload, memory stays bounded, the node's other
%% sessions run on, and the peer can come back.
-module(hawser_hostile_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([
    record_lengths/1, record_kinds/1, announcements/1, frame_lengths/1, frame_kinds/1, batch_numbers/1,
    acknowledgements/1, redefined_atoms/1, destinations/1, terms/1, counts/1, depth/1, duplicate_keys/1, plain_terms/1,
    bombs/1, too_large/1, large_and_unfinished/1, after_the_close/1, cut_off/1, two_shards/1, flood/1, redials/1
]).

-import(hawser_raw_wire, [
    record/3, batch/4, batch/5, tick/1, close/3, announcement/2, frame/3, to_name/2, to_alias/2
]).
-import(hawser_attack, [breaks/3, lives/2, term_breaks/3, plain_breaks/3, embedded/1, batch_of/2, batch_of/3]).
-import(hawser_attacked, [session/1, session/2, opened/1, ended/1, take/2, left/1]).
-import(hawser_raw_peer, [raw/2, send_batch/3]).

-define(MAX_MESSAGE, 1048576).
%% hawser's own form is for messages up to this; longer ones are plain.
-define(MAX_NATIVE, 131072).
%% What one hostile session may cost the node's process, whatever it declares.
-define(MEMORY_KIB, 65536).

suite() ->
    [{timetrap, {seconds, 60}}].

all() ->
    [
        record_lengths, record_kinds, announcements, frame_lengths, frame_kinds, batch_numbers, acknowledgements,
        redefined_atoms, destinations, terms, counts, depth, duplicate_keys, plain_terms, bombs, too_large,
        large_and_unfinished, after_the_close, cut_off, two_shards, flood, redials
    ].

init_per_suite(Config) ->
    [{attacked, hawser_attacked:start(#{max_message_bytes => ?MAX_MESSAGE, max_queue_bytes => ?MAX_MESSAGE})} | Config].

end_per_suite(Config) ->
    hawser_attacked:stop(proplists:get_value(attacked, Config)).

attack(Config, Case) ->
    hawser_attack:run(proplists:get_value(attacked, Config), ?MEMORY_KIB, Case).

%% ---- records ----

%% A record is as long as it says: too short for its kind, or for what it holds, ends the session.
record_lengths(Config) ->
    attack(Config, fun(Attacked) ->
        breaks(Attacked, "a length that does not fit",
            [<<Length:32, 1, 0, 0:64, 2:64, 0:32, 0:16>> || Length <- [0, 1, 9, 10, 23]]
            ++ [<<0:32, Kind, 0, 0:64>> || Kind <- [2, 3, 16#84]]
            ++ [record(2, 0, <<0>>), record(2, 0, binary:copy(<<0>>, 100000))]
            ++ [record(3, 0, <<>>), record(3, 0, <<1>>), record(3, 0, <<1:16, 0:(511 * 8)>>)]
            ++ [<<16#FFFFFFFF:32, Kind, 0, 0:64, 0:64>> || Kind <- [2, 3]]),
        %% A batch may be of any length; a frame in it may not.
        breaks(Attacked, "a frame of 4294967295 bytes",
            [<<16#FFFFFFFF:32, 1, 0, 0:64, 2:64, 0:32, 0:16, 1, 16#FFFFFFFF:32>>])
    end).

%% A record of a kind that nobody knows ends the session, unless it says that it may be skipped.
record_kinds(Config) ->
    attack(Config, fun(Attacked) ->
        _ = [breaks(Attacked, ["record of unknown kind ", integer_to_list(Kind)], [record(Kind, 0, <<"body">>)])
             || Kind <- [0, 4, 16#7F]],
        lives(Attacked, [[record(Kind, 0, Body)] || Kind <- [16#80, 16#81, 16#84, 16#FF],
                                                     Body <- [<<>>, <<0>>, binary:copy(<<16#FF>>, 300000)]])
    end).

%% Announcements that do not fit their record, and names that no atom can have, end the session.
announcements(Config) ->
    attack(Config, fun(Attacked) ->
        One = announcement(7, <<"seven">>),
        breaks(Attacked, "a length that does not fit", [
            batch(2, 0, 2, One, []), batch(2, 0, 16#FFFF, One, []), batch(2, 0, 1, [], []),
            batch(2, 0, 1, <<7:16, 5:16, "seve">>, []), batch(2, 0, 1, <<7:16, 5>>, [])
        ]),
        breaks(Attacked, "atom's name", [
            batch(2, 0, [announcement(7, Name)], [])
            || Name <- [binary:copy(<<"x">>, 1021), binary:copy(<<"x">>, 256), binary:copy(<<"é"/utf8>>, 256),
                        <<16#FF>>, <<"half a character", 16#C3>>, <<16#ED, 16#A0, 16#80>>]
        ] ++ [<<100:32, 1, 0, 0:64, 2:64, 0:32, 1:16, 7:16, 16#FFFF:16>>]),
        Longest = binary:copy(<<16#1F600/utf8>>, 255),
        lives(Attacked, [[batch(2, 0, [announcement(Id, Longest) || Id <- [0, 16#FFFF]], [])]])
    end).

%% Batches come with the next number, once.
batch_numbers(Config) ->
    attack(Config, fun(Attacked) ->
        {Frame, _} = hawser_attacked:tell(Attacked, again),
        breaks(Attacked, "where batch 2 was due",
            [batch(Number, 0, [], Frame) || Number <- [1, 0, 3, 16#FFFFFFFFFFFFFFFF]])
    end).

%% Nothing may be acknowledged that was never sent, by any record.
acknowledgements(Config) ->
    attack(Config, fun(Attacked) ->
        breaks(Attacked, "which was never sent",
            [Record || Ack <- [1, 16#FFFFFFFFFFFFFFFF],
                       Record <- [tick(Ack), batch(2, Ack, [], []), close(Ack, 1, <<>>), record(16#84, Ack, <<"x">>)]])
    end).

%% An id means one atom for the life of a connection.
redefined_atoms(Config) ->
    attack(Config, fun(Attacked) ->
        breaks(Attacked, "announced twice", [
            batch(2, 0, [announcement(7, <<"seven">>), announcement(7, <<"eight">>)], []),
            [batch(2, 0, [announcement(16#FFFF, <<"ok">>)], []), batch(3, 0, [announcement(16#FFFF, <<"OK">>)], [])]
        ]),
        lives(Attacked, [[batch(2, 0, [announcement(7, <<"seven">>), announcement(7, <<"seven">>)], [])]])
    end).

%% ---- frames ----

%% A frame lies within its batch, and its destination within the frame.
frame_lengths(Config) ->
    attack(Config, fun(Attacked) ->
        Broken = fun(Frames) -> breaks(Attacked, "a length that does not fit", [batch(2, 0, [], F) || F <- Frames]) end,
        Broken([binary:copy(<<1>>, Size) || Size <- [1, 4]]),
        Broken([<<1, 1:32>>, <<1, 100000:32, 0:(200 * 8)>>]),
        Broken([frame(1, binary:copy(<<0>>, Size), <<>>) || Size <- [0, 11]]),
        Broken([frame(2, Name, <<>>) || Name <- [<<>>, <<$R>>, <<$R, 0>>, <<119>>, <<119, 9, "short">>, <<118, 0>>]]),
        Broken([frame(3, Alias, <<>>) || Alias <- [<<>>, <<0>>, <<16#FFFF:16, "short">>]]),
        Broken([frame(Kind, binary:copy(<<0>>, Size), <<>>) || Kind <- [5, 16#45], Size <- [0, 7, 8, 9, 12]]),
        Broken([frame(Kind, binary:copy(<<0>>, Size), <<>>) || Kind <- [6, 16#46], Size <- [0, 7]])
    end).

%% A frame of a kind that nobody knows ends the session, unless it says that it may be skipped, however long it is.
frame_kinds(Config) ->
    attack(Config, fun(Attacked) ->
        _ = [breaks(Attacked, "frame of unknown kind", [batch(2, 0, [], frame(Kind, <<"what">>, <<"ever">>))])
             || Kind <- [0, 7, 9, 16#3F, 16#40, 16#47, 16#49, 16#7F]],
        lives(Attacked, [[batch(2, 0, [], frame(Kind, Content, <<>>))]
            || Kind <- [16#80, 16#81, 16#84, 16#C1, 16#C4, 16#FF],
               Content <- [<<>>, <<"later">>, binary:copy(<<16#FF>>, ?MAX_NATIVE - 5),
                           binary:copy(<<16#FF>>, ?MAX_NATIVE + 1), binary:copy(<<16#FF>>, ?MAX_MESSAGE)]])
    end).

%% A destination that is no destination ends the session.
destinations(Config) ->
    attack(Config, fun(Attacked) ->
        Nil = <<106>>,
        <<131, Reference/binary>> = term_to_binary(make_ref()),
        <<131, Pid/binary>> = term_to_binary(self()),
        breaks(Attacked, "an atom's name",
            [batch(2, 0, [], frame(2, Name, Nil)) || Name <- [<<100, 2:16, "ok">>, <<0>>, <<119, 1, 16#FF>>,
                                                              <<118, 256:16, (binary:copy(<<"x">>, 256))/binary>>]]),
        breaks(Attacked, "a name that is no atom", [batch(2, 0, [], to_name(99, Nil))]),
        breaks(Attacked, "an alias that is no reference", [batch(2, 0, [], to_alias(Bytes, Nil)) || Bytes <- [
            <<>>, Pid, <<Reference/binary, 0>>, binary:part(Reference, 0, byte_size(Reference) - 1),
            <<90, 16#FFFF:16, 119, 1, "n", 0:32>>, binary:copy(<<90>>, 16#FFFF)
        ]])
    end).

%% ---- terms ----

%% What is no term in hawser's form ends the session with what is wrong about it.
terms(Config) ->
    attack(Config, fun(Attacked) ->
        Known = [$R, $S, $D, $E, 70, 97, 98, 104, 105, 106, 107, 108, 109, 110, 116, 118, 119],
        Tags = lists:seq(0, 255, 5) ++ [131, 99, 103, 111],
        term_breaks(Attacked, "unknown tag", [<<Tag, 0:64>> || Tag <- Tags, not lists:member(Tag, Known)]),
        term_breaks(Attacked, "unknown tag", [<<110, 9, 0, 0:72>>, <<110, 8, 1, 1, 0:48, 128>>]),
        term_breaks(Attacked, "ends too early", [
            <<>>, <<$R>>, <<$R, 0>>, <<$S, 0:56>>, <<$D, 0:32>>, <<97>>, <<98, 0:24>>, <<70, 0:56>>, <<110>>,
            <<110, 8, 0, 1>>, <<119>>, <<119, 5, "abc">>, <<118, 0>>, <<118, 16#FFFF:16, "abc">>
        ]),
        term_breaks(Attacked, "bytes behind a term", [<<106, 106>>, <<104, 0, 0>>]),
        term_breaks(Attacked, "never announced", [<<$R, 16#FFFF:16>>, <<104, 1, $R, 0:16>>]),
        term_breaks(Attacked, "an atom's name", [<<119, 1, 16#FF>>, <<118, 256:16, (binary:copy(<<"x">>, 256))/binary>>]),
        term_breaks(Attacked, "a float", [<<70, 16#7FF8:16, 0:48>>, <<70, 16#7FF0:16, 0:48>>, <<70, 16#FFF0:16, 0:48>>]),
        term_breaks(Attacked, "a pid that cannot be one", [<<$D, 16#FFFFFFFF:32, 16#FFFFFFFF:32>>])
    end).

%% Counts and lengths are believed only as far as there are bytes: nothing is reserved for the rest.
counts(Config) ->
    attack(Config, fun(Attacked) ->
        Most = 16#FFFFFFFF,
        term_breaks(Attacked, "ends too early", [
            <<Tag, Count:32, Rest/binary>>
            || Tag <- [105, 108, 116, 109, $E], Count <- [Most, Most bsr 1, 1 bsl 27, 40000],
               Rest <- [<<>>, binary:copy(<<106>>, 30000)]
        ] ++ [<<104, 255, 106>>, <<107, 16#FFFF:16, "abc">>, <<108, 1:32, 106>>, <<116, 1:32, 106>>])
    end).

%% Nesting that nobody writes is refused before it can exhaust a stack.
depth(Config) ->
    attack(Config, fun(Attacked) ->
        term_breaks(Attacked, "nested deeper", [
            [binary:copy(Level, Depth), <<106>>, binary:copy(End, Depth)]
            || Depth <- [100, 10000],
               {Level, End} <- [{<<104, 1>>, <<>>}, {<<105, 1:32>>, <<>>}, {<<108, 1:32>>, <<106>>},
                                {<<108, 0:32>>, <<>>}, {<<116, 1:32, 106>>, <<>>}, {<<116, 1:32>>, <<106>>}]
        ])
    end).

%% A map whose keys are not as many as it says is not delivered in any of the three forms, small or large.
duplicate_keys(Config) ->
    attack(Config, fun(Attacked) ->
        Pairs = fun(Size, Distinct) -> [<<97, (N rem Distinct), 97, 1>> || N <- lists:seq(0, Size - 1)] end,
        Maps = [iolist_to_binary([<<116, Size:32>>, Pairs(Size, Distinct)])
                || {Size, Distinct} <- [{5, 4}, {2, 1}, {32, 31}, {33, 32}, {40, 5}, {40, 39}, {200, 1}]],
        term_breaks(Attacked, "a key that comes twice", Maps ++ [<<104, 1, Map/binary>> || Map <- Maps]),
        term_breaks(Attacked, "embedded", [embedded(<<131, Map/binary>>) || Map <- Maps]),
        plain_breaks(Attacked, "plain term", [<<131, Map/binary>> || Map <- Maps])
    end).

%% A plain term that the VM does not take, whole, ends the session.
plain_terms(Config) ->
    attack(Config, fun(Attacked) ->
        Broken = [
            <<>>, <<131>>, <<130, 106>>, <<106>>, <<131, 68, 0>>, <<131, 1>>, <<131, 104, 2, 106>>,
            <<131, 108, 16#FFFFFFFF:32>>, <<131, 105, 16#FFFFFFFF:32>>, <<131, 116, 16#FFFFFFFF:32>>,
            <<131, 109, 16#FFFFFFFF:32>>, <<131, 111, 16#FFFFFFFF:32, 0>>, <<131, 70, 16#7FF8:16, 0:48>>,
            <<131, 119, 1, 16#FF>>, <<131, 106, 106>>,
            <<131, (binary:copy(<<104, 1>>, 50000))/binary>>
        ],
        plain_breaks(Attacked, "plain term", Broken),
        plain_breaks(Attacked, "plain term", [<<131, 109, 200000:32, 0:(200001 * 8)>>, binary:copy(<<131>>, 200000)]),
        term_breaks(Attacked, "embedded", [embedded(Bytes) || Bytes <- Broken, byte_size(Bytes) < 50000])
    end).

%% Nothing that is compressed is taken, so that nothing small becomes large.
bombs(Config) ->
    attack(Config, fun(Attacked) ->
        Bomb = term_to_binary(binary:copy(<<0>>, 300 bsl 20), [{compressed, 9}]),
        true = byte_size(Bomb) > ?MAX_NATIVE andalso byte_size(Bomb) < ?MAX_MESSAGE,
        Small = term_to_binary(lists:duplicate(1 bsl 22, []), [{compressed, 9}]),
        true = byte_size(Small) < ?MAX_NATIVE,
        plain_breaks(Attacked, "plain term", [Bomb, Small]),
        term_breaks(Attacked, "embedded", [embedded(Small), <<104, 1, (embedded(Small))/binary>>]),
        term_breaks(Attacked, "unknown tag 80", [<<80, 16#FFFFFFFF:32, 120, 156>>])
    end).

%% What is longer than agreed is refused by its length, before it is there.
too_large(Config) ->
    attack(Config, fun(Attacked) ->
        Head = fun(Kind, Bytes) -> batch_of(4 * ?MAX_MESSAGE, <<Kind, Bytes:32>>) end,
        breaks(Attacked, "the limit is",
            [Head(Kind, Bytes) || Kind <- [1, 16#41, 16#C4], Bytes <- [2 * ?MAX_MESSAGE, 16#FFFFFFFF]]),
        breaks(Attacked, "in hawser's own form", [Head(Kind, ?MAX_NATIVE + 1) || Kind <- [1, 2, 3]]),
        Long = <<109, (?MAX_NATIVE):32, 0:(?MAX_NATIVE * 8)>>,
        term_breaks(Attacked, "in hawser's own form", [Long])
    end).

%% A large message that is announced and never finished costs what was agreed and no more, and ends with its session.
large_and_unfinished(Config) ->
    attack(Config, fun(Attacked) ->
        _ = [begin
            [Conn] = session(Attacked, #{}),
            ok = raw(Conn, batch_of(4 * ?MAX_MESSAGE, [<<16#41, (?MAX_MESSAGE):32>>, binary:copy(<<0>>, 200000)], 1)),
            hawser_raw_peer:close(Conn),
            {lost, _} = ended(Attacked)
        end || _ <- lists:seq(1, 20)]
    end).

%% ---- the end of a session ----

%% Behind the close record nothing counts any more, and the session ends in order.
after_the_close(Config) ->
    attack(Config, fun(Attacked) ->
        {Frame, _} = hawser_attacked:tell(Attacked, too_late),
        lists:foreach(
            fun(Behind) ->
                Conn = session(Attacked),
                {Good, Message} = hawser_attacked:tell(Attacked, in_time),
                ok = raw(Conn, [batch(1, 0, [], Good), close(0, 1, <<"done">>), Behind]),
                ok = hawser_raw_peer:recv_until_closed(Conn),
                peer_closed = ended(Attacked),
                [Message] = take(Attacked, 1),
                [] = left(Attacked)
            end, [<<>>, batch(2, 0, [], Frame), binary:copy(<<16#FF>>, 100000), close(0, 1, <<>>)])
    end).

%% A connection that ends inside a record, at any field of it, delivers what was whole.
cut_off(Config) ->
    attack(Config, fun(Attacked) ->
        {Good, Message} = hawser_attacked:tell(Attacked, whole),
        {Frame, _} = hawser_attacked:tell(Attacked, cut),
        Second = batch(2, 0, [announcement(1, <<"ok">>)], Frame),
        _ = [begin
            Conn = session(Attacked),
            ok = raw(Conn, [batch(1, 0, [], Good), binary:part(Second, 0, Length)]),
            ok = gen_tcp:shutdown(maps:get(socket, Conn), write),
            ok = hawser_raw_peer:recv_until_closed(Conn),
            {lost, {0, _}} = ended(Attacked),
            [Message] = take(Attacked, 1)
        end || Length <- lists:seq(0, byte_size(Second) - 1, 3)]
    end).

%% One shard's crime ends all shards of the session, after what the others had sent.
two_shards(Config) ->
    attack(Config, fun(Attacked) ->
        [First, Second] = session(Attacked, #{shards => 2}),
        {Good, Message} = hawser_attacked:tell(Attacked, other_shard),
        _ = send_batch(First, [], Good),
        [Message] = take(Attacked, 1),
        ok = raw(Second, record(9, 0, <<>>)),
        _ = [ok = hawser_raw_peer:recv_until_closed(Conn) || Conn <- [First, Second]],
        {malformed, {1, _}} = ended(Attacked)
    end).

%% A peer that sends nothing of use as fast as it can has no more than its share of the node.
flood(Config) ->
    attack(Config, fun(Attacked) ->
        _ = [begin
            Conn = opened(Attacked),
            Bytes = iolist_to_binary(lists:duplicate(5000, Record)),
            Flooder = spawn_link(fun() -> receive {go, C} -> pour(C, Bytes) end end),
            ok = gen_tcp:controlling_process(maps:get(socket, Conn), Flooder),
            Flooder ! {go, Conn},
            {Ms, ok} = timed(fun() -> hawser_attacked:unharmed(Attacked) end),
            Ms < 5000 orelse error({slow, Ms}),
            Flooder ! stop,
            {lost, _} = ended(Attacked)
        end || Record <- [tick(0), record(16#84, 0, <<0:800>>)]]
    end).

pour(Conn, Bytes) ->
    receive
        stop -> hawser_raw_peer:close(Conn)
    after 0 ->
        ok = raw(Conn, Bytes),
        pour(Conn, Bytes)
    end.

timed(Fun) ->
    Begin = erlang:monotonic_time(millisecond),
    Result = Fun(),
    {erlang:monotonic_time(millisecond) - Begin, Result}.

%% A peer that asks for a new session all the time gets it, and leaves nothing behind of the old ones.
redials(Config) ->
    attack(Config, fun(Attacked) ->
        First = opened(Attacked),
        Last = lists:foldl(fun(_, Before) ->
            Invitation = hawser_attacked:invite(Attacked, #{}),
            ok = hawser_raw_peer:recv_until_closed(Before),
            [Conn] = hawser_raw_peer:dial(Invitation),
            {Good, Message} = hawser_attacked:tell(Attacked, again),
            _ = send_batch(Conn, [], Good),
            [Message] = take(Attacked, 1),
            peer_redialed = ended(Attacked),
            Conn
        end, First, lists:seq(1, 5)),
        %% Invitations that nobody follows up are forgotten with the next one.
        _ = [hawser_attacked:invite(Attacked, #{shards => 2}) || _ <- lists:seq(1, 100)],
        ok = hawser_raw_peer:recv_until_closed(Last),
        peer_redialed = ended(Attacked),
        hawser_raw_peer:close(opened(Attacked)),
        {lost, _} = ended(Attacked)
    end).
