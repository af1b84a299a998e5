%% A peer of another make that does no wrong, however odd it is, is served:
%% what is for nobody is counted and dropped, any cut of the stream gives the
%% same messages, every kind of term passes both ways, and a peer that takes
%% nothing costs no more than the limits say.
-module(hawser_odd_peer_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([
    nobody/1, a_byte_at_a_time/1, cut_everywhere/1, large_in_pieces/1, every_kind_of_term/1, deaf/1, acknowledged/1,
    silent/1, ticking/1
]).
%% Run on the node under test.
-export([node_fill/2]).

-import(hawser_raw_wire, [batch/4, frame/3, to_pid/2, to_name/2, to_alias/2, term/3]).
-import(hawser_attacked, [opened/1, session/2, ended/1, take/2, left/1, sink/1]).
-import(hawser_raw_peer, [raw/2, send_batch/3]).
-import(hawser_raw_traffic, [records/3]).
-import(hawser_test_nodes, [call/4]).

-define(MAX_MESSAGE, 1048576).
%% hawser's own form is for messages up to this; longer ones are plain.
-define(MAX_NATIVE, 131072).
-define(HEARTBEAT_MS, 200).

suite() ->
    [{timetrap, {seconds, 60}}].

all() ->
    [
        nobody, a_byte_at_a_time, cut_everywhere, large_in_pieces, every_kind_of_term, deaf, acknowledged, silent,
        ticking
    ].

init_per_suite(Config) ->
    Env = #{max_message_bytes => ?MAX_MESSAGE, max_queue_bytes => ?MAX_MESSAGE, heartbeat_interval_ms => ?HEARTBEAT_MS},
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

%% ---- cases ----

%% What is for nobody here is counted by its kind and dropped; the session lives and the next message arrives.
nobody(Config) ->
    with_node(Config, fun(#{stranger := {Stranger, StrangerNode}, victim := {Victim, _}} = Attacked) ->
        #{pid := Pid, alias := Alias, stale_alias := Stale} = sink(Attacked),
        {Id, Serial, Creation} = hawser_raw_wire:pid_fields(Pid),
        Lost = term({lost, hawser_attacked:mark()}, #{}, {{none, 0}, {none, 0}}),
        Port = call(Victim, erlang, hd, [call(Victim, erlang, ports, [])]),
        true = call(Victim, erlang, register, [hostile_port, Port]),
        Old = fun(Reference) ->
            %% The same reference of the creation before.
            <<131, Bytes/binary>> = term_to_binary(Reference),
            binary:replace(Bytes, <<Creation:32>>, <<(Creation - 1):32>>)
        end,
        Third = call(Stranger, erlang, alias, []),
        Frames = [
            {stale_pid, frame(1, <<(Creation - 1):32, Id:32, Serial:32>>, Lost)},
            {stale_pid, frame(1, <<0:32, Id:32, Serial:32>>, Lost)},
            {stale_pid, frame(1, <<Creation:32, 16#FFFFFFFF:32, 16#FFFFFFFF:32>>, Lost)},
            {stale_pid, frame(16#41, <<(Creation - 1):32, Id:32, Serial:32>>, term_to_binary(lost))},
            {unknown_name, to_name(<<"hostile_port">>, Lost)},
            {unknown_name, to_name(<<"nobody_has_this_name">>, Lost)},
            {unknown_name, to_name(<<"undefined">>, Lost)},
            {unknown_name, to_name(<<>>, Lost)},
            {stale_alias, to_alias(Old(Alias), Lost)},
            {stale_alias, to_alias(Third, Lost)},
            {stale_alias, to_alias(make_ref(), Lost)},
            %% Nobody hears of these, and nobody counts them, as in a send within the node.
            {none, to_alias(Stale, Lost)},
            {none, to_alias(call(Victim, erlang, make_ref, []), Lost)},
            {none, to_pid(call(Victim, erlang, spawn, [erlang, self, []]), Lost)}
        ],
        Conn = lists:foldl(
            fun({Reason, Frame}, Conn) ->
                Before = dropped(Attacked),
                {Good, Message} = hawser_attacked:tell(Attacked, next),
                Next = send_batch(Conn, [], [Frame, Good]),
                [Message] = take(Attacked, 1),
                One = [{Key, Count - maps:get(Key, Before)} || {Key, Count} <- maps:to_list(dropped(Attacked)),
                                                              Count =/= maps:get(Key, Before)],
                {Reason, One} = {Reason, [{Reason, 1} || Reason =/= none]},
                Next
            end, opened(Attacked), Frames),
        true = call(Victim, erlang, unregister, [hostile_port]),
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked),
        %% And the node has connected to nobody for it.
        {_, NeighbourNode} = maps:get(neighbour, Attacked),
        [] = call(Victim, erlang, nodes, []) -- [StrangerNode, NeighbourNode]
    end).

%% Messages to all kinds of destinations arrive equal when each byte is read alone.
a_byte_at_a_time(Config) ->
    with_node(Config, fun(Attacked) ->
        Conn = opened(Attacked),
        {Records, Messages} = records(Conn, sink(Attacked), 1),
        _ = lists:foldl(fun(Byte, Sent) ->
            ok = raw(Conn, <<Byte>>),
            arrived(Attacked, Sent + 1)
        end, received_bytes(Attacked), binary_to_list(Records)),
        Messages = take(Attacked, length(Messages)),
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

%% A record can be cut in two at any byte of it.
cut_everywhere(Config) ->
    with_node(Config, fun(Attacked) ->
        Conn = opened(Attacked),
        {Sample, _} = records(Conn, sink(Attacked), 1),
        _ = lists:foldl(fun(Cut, Sent) ->
            {Records, Messages} = records(Conn, sink(Attacked), 2 * Cut - 1),
            <<First:Cut/binary, Second/binary>> = Records,
            ok = raw(Conn, First),
            Before = arrived(Attacked, Sent + Cut),
            ok = raw(Conn, Second),
            Messages = take(Attacked, length(Messages)),
            Before + byte_size(Second)
        end, received_bytes(Attacked), lists:seq(1, byte_size(Sample) - 1)),
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

%% Large plain messages, and the small ones behind them, arrive equal from pieces of any size.
large_in_pieces(Config) ->
    with_node(Config, fun(Attacked) ->
        #{pid := Pid} = sink(Attacked),
        Conn = opened(Attacked),
        _ = rand:seed(exsss, 5),
        Terms = [binary:copy(<<N>>, Size) || {N, Size} <- lists:zip(lists:seq(1, 5),
                    [?MAX_NATIVE - 20, ?MAX_NATIVE + 1, 300000, 65536, ?MAX_MESSAGE - 100])],
        Frames = [[to_pid(Pid, hawser_raw_wire:plain(Term)), to_pid(Pid, <<97, N>>)]
                  || {N, Term} <- lists:zip(lists:seq(1, 5), Terms)],
        Expected = lists:append([[Term, N] || {N, Term} <- lists:zip(lists:seq(1, 5), Terms)]),
        _ = lists:foldl(fun(Piece, C) ->
            ok = in_pieces(C, batch(maps:get(number, C), 0, [], Frames), Piece),
            Expected = take(Attacked, length(Expected)),
            C#{number := maps:get(number, C) + 1}
        end, Conn, [777, 7919, 65537]),
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

%% Every kind of term arrives equal from another implementation, and comes back to it equal.
every_kind_of_term(Config) ->
    with_node(Config, fun(#{stranger := {Stranger, StrangerNode}, victim := {Victim, VictimNode}} = Attacked) ->
        #{pid := Pid, alias := Alias} = sink(Attacked),
        Conn = #{ends := {Here, There} = Ends} = opened(Attacked),
        Self = call(Stranger, erlang, self, []),
        Terms = [
            [], {}, #{}, <<>>, <<1:1>>, 0, 255, 256, -1, 1 bsl 31, -(1 bsl 31), 1 bsl 60, -(1 bsl 64), 1 bsl 2000,
            0.0, -0.0, 1.0e308, ok, 'Ω', '', "string", [1 | 2], [a, [b | c], "d"], lists:seq(250, 260),
            Pid, Self, Alias, make_ref(), fun erlang:self/0,
            {Pid, [Self, {Alias}]}, #{a => 1, {b} => #{c => []}}, maps:from_list([{N, {N}} || N <- lists:seq(1, 100)]),
            list_to_tuple(lists:seq(1, 300)), binary_to_atom(binary:copy(<<16#1F600/utf8>>, 255))
        ],
        {Dictionary, Announcements} = hawser_raw_wire:dictionary([ok, a, 'Ω']),
        _ = send_batch(Conn, Announcements,
            [to_pid(Pid, term(Term, Dictionary, Ends)) || Term <- Terms]
            ++ [to_alias(Alias, hawser_raw_wire:plain(Term)) || Term <- Terms]),
        Both = Terms ++ Terms,
        Both = take(Attacked, length(Both)),
        _ = [call(Victim, hawser, send, [{somebody, StrangerNode}, Term]) || Term <- Terms],
        {StrangerNode, VictimNode} = {element(1, Here), element(1, There)},
        Terms = received(Conn, {There, Here}, length(Terms), #{}),
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

%% For a peer that reads nothing and acknowledges nothing, the node keeps no more than its limits say.
deaf(Config) ->
    with_node(Config, fun(#{stranger := {_, StrangerNode}, victim := {Victim, _}} = Attacked) ->
        [Conn] = session(Attacked, #{max_unacked_bytes => 2 * ?MAX_MESSAGE, ack_every_bytes => ?MAX_MESSAGE}),
        ok = call(Victim, hawser, await, [StrangerNode, 5000]),
        Bytes = call(Victim, ?MODULE, node_fill, [{somebody, StrangerNode}, binary:copy(<<7>>, 10000)]),
        true = Bytes >= ?MAX_MESSAGE andalso Bytes < 16 * ?MAX_MESSAGE,
        ok = hawser_attacked:unharmed(Attacked),
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

%% The node acknowledges what it has delivered when enough of it is not acknowledged yet, and nothing else.
acknowledged(Config) ->
    with_node(Config, fun(Attacked) ->
        [Conn] = session(Attacked, #{ack_every_bytes => 2048}),
        #{pid := Pid} = sink(Attacked),
        Frame = to_pid(Pid, <<109, 600:32, 0:(600 * 8)>>),
        _ = lists:foldl(fun(Number, #{number := Number} = C) ->
            Next = send_batch(C, [], Frame),
            [_] = take(Attacked, 1),
            _ = [{tick, Number} = hawser_raw_peer:recv_record(C) || Number rem 4 =:= 0],
            Next
        end, Conn, lists:seq(1, 40)),
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

%% A peer that gives no sign of life for four intervals loses its session; until then the node gives its own.
silent(Config) ->
    with_node(Config, fun(Attacked) ->
        [Conn] = session(Attacked, #{heartbeat_interval_ms => ?HEARTBEAT_MS}),
        {tick, 0} = hawser_raw_peer:recv_record(Conn),
        ok = hawser_raw_peer:recv_until_closed(Conn),
        {silent, {0, Ms}} = ended(Attacked),
        true = Ms >= 4 * ?HEARTBEAT_MS
    end).

%% A tick is a sign of life.
ticking(Config) ->
    with_node(Config, fun(Attacked) ->
        [Conn] = session(Attacked, #{heartbeat_interval_ms => ?HEARTBEAT_MS}),
        _ = [begin
            {tick, 0} = hawser_raw_peer:recv_record(Conn),
            ok = raw(Conn, hawser_raw_wire:tick(0))
        end || _ <- lists:seq(1, 6)],
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

-spec node_fill(hawser:destination(), binary()) -> non_neg_integer().
node_fill(To, Message) ->
    case hawser:send(To, Message, [nosuspend]) of
        ok -> byte_size(Message) + node_fill(To, Message);
        nosuspend -> 0
    end.

%% ---- helpers ----

dropped(Attacked) ->
    #{dropped := Dropped} = info(Attacked),
    Dropped.

info(#{stranger := {_, Node}} = Attacked) ->
    #{session := Session} = call(hawser_attacked:victim(Attacked), hawser, info, [Node]),
    Session.

received_bytes(Attacked) ->
    #{shards := [#{received_bytes := Bytes}]} = info(Attacked),
    Bytes.

%% Waits until the node has read so many bytes.
arrived(Attacked, Bytes) ->
    ok = hawser_attacked:until(fun() -> received_bytes(Attacked) >= Bytes end),
    Bytes.

in_pieces(Conn, Bytes, Size) when byte_size(Bytes) > Size ->
    <<Piece:Size/binary, Rest/binary>> = Bytes,
    ok = raw(Conn, Piece),
    in_pieces(Conn, Rest, Size);
in_pieces(Conn, Bytes, _) ->
    raw(Conn, Bytes).

received(_, _, 0, _) ->
    [];
received(Conn, Ends, Count, Known) ->
    Record = hawser_raw_peer:recv_record(Conn),
    Atoms = hawser_raw_wire:atoms(Record, Known),
    Messages = case Record of
        {batch, _, _, _, Frames} -> [hawser_raw_wire:message(Frame, Atoms, Ends) || Frame <- Frames];
        {tick, _} -> []
    end,
    Messages ++ received(Conn, Ends, Count - length(Messages), Atoms).
