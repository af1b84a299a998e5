%% The bytes on the wire are the ones in test/golden, which the Rust tests read as well: changing one of them changes the
%% drawing in wire.rs and the files in the same commit.
-module(hawser_golden_SUITE).

-export([all/0]).
-export([terms_decode/1, terms_encode/1, announcements/1, records/1]).

-import(hawser_test_nodes, [start_node/1, stop/1, call/4]).

-define(ENDS, {{<<"a@golden">>, 7}, {<<"b@golden">>, 9}}).

all() ->
    [terms_decode, terms_encode, announcements, records].

%% Each golden term decodes to what its external form says.
terms_decode(_) ->
    Checked = [begin
        {ok, Term} = hawser_nif:codec_decode(Wire, Announcements, ?ENDS),
        true = hawser_term_kinds:equal(Term, binary_to_term(Plain)),
        Name
    end || {Name, Announcements, Wire, Plain} <- terms(), not of_receiver(Name)],
    true = length(Checked) > 40.

%% A node that has sent nothing before writes the golden bytes, ids of the dictionary included.
terms_encode(_) ->
    {A, _} = start_node(#{hawser => false}),
    [begin
        Encoded = call(A, hawser_nif, codec_encode, [binary_to_term(Plain), ?ENDS]),
        {Name, {Wire, Announcements}} = {Name, Encoded}
    end || {Name, Announcements, Wire, Plain} <- lists:takewhile(fun({Name, _, _, _}) -> Name =/= "sender_pid" end, terms())],
    stop(A).

%% Announcements are what they are drawn as.
announcements(_) ->
    [[{0, <<"ok">>}] = hawser_wire:announcements(Announcements) || {"atom", Announcements, _, _} <- terms()],
    [[{0, <<"ok">>}, {5, <<"error">>}] = hawser_wire:announcements(Announcements) || {"map_one", Announcements, _, _} <- terms()],
    ok.

%% The golden records mean the same to a parser that was written from the drawing alone.
records(_) ->
    Records = hawser_wire:records(<< <<Bytes/binary>> || [_, Bytes] <- golden("records.hex") >>),
    Alias = <<90, 3:16, 119, 8, "b@golden", 9:32, 1:32, 2:32, 3:32>>,
    Pid = {pid, 9, 300, 2},
    Request = <<104, 4, $S, 1:32, 0:32, $R, 1:16, $R, 0:16, 106>>,
    PlainRequest = <<131, 104, 4, 88, 119, 8, "a@golden", 1:32, 0:32, 7:32, 119, 6, "logger", 119, 2, "ok", 106>>,
    Long = unicode:characters_to_binary(lists:duplicate(255, 16#1f600)),
    [
        #{kind := tick, ack := 0},
        #{kind := batch, ack := 0, number := 1, clock_ms := 0, announcements := [{0, <<"ok">>}, {1, <<"logger">>}],
          frames := [
              #{to := Pid, plain := false, term := <<104, 2, $R, 0:16, 97, 7>>},
              #{to := {name, 1}, plain := false, term := <<$R, 0:16>>},
              #{to := {name, <<"text">>}, plain := false, term := <<106>>},
              #{to := {alias, Alias}, plain := false, term := <<107, 2:16, "hi">>},
              #{to := Pid, plain := true, term := <<131, 106>>}
          ]},
        #{kind := batch, ack := 16#0102030405060708, number := 2, clock_ms := 250, announcements := [],
          frames := [#{to := Pid, term := <<$R, 0:16>>}]},
        #{kind := batch, ack := 5, number := 3, clock_ms := 1, announcements := [{300, Long}],
          frames := [#{to := {name, 300}, term := <<106>>}]},
        #{kind := batch, ack := 5, number := 4, frames := [#{to := skipped}, #{to := {name, 1}}]},
        #{kind := batch, ack := 5, number := 5, clock_ms := 16#FFFFFFF0, announcements := [], frames := [
            #{to := cast, plain := false, term := Request},
            #{to := cast, plain := true, term := PlainRequest},
            #{to := {call, 16#0102030405060708, none}, plain := false, term := Request},
            #{to := {call, 0, 4}, plain := false, term := Request},
            #{to := {call, 16#FFFFFFFFFFFFFFFF, 16#FFFFFFFF}, plain := true, term := PlainRequest},
            #{to := {answer, 16#3F00000100000002}, plain := false, term := <<104, 2, 119, 6, "return", $R, 0:16>>},
            #{to := {answer, 1}, plain := true, term := System}
        ]},
        #{kind := skipped, ack := 6},
        #{kind := tick, ack := 7},
        #{kind := close, ack := 7, reason := finished, text := <<>>},
        #{kind := close, ack := 8, reason := 2, text := <<"na gut: ☺"/utf8>>}
    ] = Records,
    {system, noconnection} = binary_to_term(System),
    {_, logger, ok, []} = binary_to_term(PlainRequest).

%% A pid of the receiver's is one of its own processes: nobody else can be given it.
of_receiver(Name) ->
    string:prefix(Name, "receiver_pid") =/= nomatch.

terms() ->
    [{Name, Announcements, Wire, Plain} || [Name, Announcements, Wire, Plain] <- golden("terms.hex")].

golden(File) ->
    {ok, Text} = file:read_file(filename:join([source_dir(), "golden", File])),
    [[Name | [bytes(Word) || Word <- Words]]
     || [[First | _] = Name | Words] <- [string:lexemes(Line, " ") || Line <- string:lexemes(binary_to_list(Text), "\n")],
        First =/= $#].

%% The suite may be compiled elsewhere; its source stands beside the golden files.
source_dir() ->
    filename:dirname(proplists:get_value(source, ?MODULE:module_info(compile))).

bytes("-") -> <<>>;
bytes(Hex) -> binary:decode_hex(list_to_binary(Hex)).
