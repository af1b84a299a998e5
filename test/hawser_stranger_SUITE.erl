%% Who is not authenticated gets nowhere: every way to fail the handshake is
%% refused, told once, delays nobody, makes no atom and leaves no descriptor
%% behind. The other way round, a node that dials does not trust who answers.
-module(hawser_stranger_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([
    golden/1, random_bytes/1, silent_clients/1, half_a_hello/1, slow_and_good/1, wrong_secret/1, not_whom_it_claims/1,
    replayed/1, reflected/1, unknown_invitation/1, expired_invitation/1, used_up_invitation/1, lying_lengths/1,
    wrong_frames/1, other_versions/1, wrong_terms/1, no_atoms/1, node_dials_strangers/1
]).

-import(hawser_raw_peer, [open/1, hello/3, nonce/0, proof/3, handshake_frame/1, refusal/1]).

-define(WAIT_MS, 15000).
%% Of the listener: until when a connection must have authenticated.
-define(DEADLINE_MS, 5000).
-define(HALF_OPEN, 64).

suite() ->
    [{timetrap, {seconds, 60}}].

all() ->
    [
        golden, random_bytes, silent_clients, half_a_hello, slow_and_good, wrong_secret, not_whom_it_claims, replayed,
        reflected, unknown_invitation, expired_invitation, used_up_invitation, lying_lengths, wrong_frames,
        other_versions, wrong_terms, no_atoms, node_dials_strangers
    ].

init_per_suite(Config) ->
    [{attacked, hawser_attacked:start(#{connect_timeout_ms => 1500, max_half_open => ?HALF_OPEN})} | Config].

end_per_suite(Config) ->
    hawser_attacked:stop(proplists:get_value(attacked, Config)).

%% Runs a case against the node under attack, which must come out of it as it went in.
attack(Config, Case) ->
    Attacked = proplists:get_value(attacked, Config),
    ok = hawser_test_nodes:forget_logs(hawser_attacked:victim(Attacked)),
    Base = hawser_attacked:base(Attacked),
    _ = Case(Attacked),
    ok = hawser_attacked:back_to(Base, Attacked),
    ok = hawser_attacked:unharmed(Attacked).

%% ---- cases ----

%% The peer that these suites test with makes the bytes of the golden handshake.
golden(Config) ->
    Here = filename:dirname(filename:absname(string:trim(proplists:get_value(data_dir, Config), trailing, "/"))),
    File = filename:join([Here, "golden", "handshake.hex"]),
    {ok, Text} = file:read_file(File),
    Golden = maps:from_list([{Name, binary:decode_hex(string:uppercase(Hex))}
        || Line <- string:lexemes(Text, "\n"), [Name, Hex] <- [string:lexemes(Line, " ")], Name =/= <<"#">>]),
    Invitation = #{
        id => <<"invitation id 16">>, secret => <<"a secret of thirty-two bytes. ok">>, shards => 4,
        dialer => {<<"ann@host.example">>, 3, binary:copy(<<16#a1>>, 16)},
        acceptor => {<<"bob@host.example">>, 7, binary:copy(<<16#b0>>, 16)}
    },
    #{<<"hello">> := Hello, <<"challenge">> := Challenge, <<"proof">> := Proof, <<"accept">> := Accept} = Golden,
    Hello = hello(Invitation, 2, binary:copy(<<16#11>>, 32)),
    {Head, Challenge} = hawser_raw_peer:challenge(Invitation, Hello, 1, binary:copy(<<16#22>>, 32)),
    Proof = proof(Invitation, Hello, Head),
    Accept = hawser_raw_peer:accept().

%% Three hundred connections that send noise are closed without an answer, and told in a line or two.
random_bytes(Config) ->
    attack(Config, fun(Attacked) ->
        _ = rand:seed(exsss, 17),
        {Ms, _} = timed(fun() ->
            [begin
                Socket = send_to(Attacked, rand:bytes(6 + rand:uniform(600))),
                closed = refusal(Socket)
            end || _ <- lists:seq(1, 300)]
        end),
        told(Attacked, "not a hawser handshake", 300, Ms)
    end).

%% Who connects and says nothing keeps nobody out: the oldest have to go, and a real peer connects at once.
silent_clients(Config) ->
    attack(Config, fun(Attacked) ->
        {Ms, Silent} = timed(fun() -> [send_to(Attacked, <<>>) || _ <- lists:seq(1, 250)] end),
        {First, Others} = lists:split(250 - ?HALF_OPEN, Silent),
        _ = [{error, closed} = gen_tcp:recv(Socket, 0, ?WAIT_MS) || Socket <- First],
        {Connecting, Conn} = timed(fun() -> hawser_attacked:session(Attacked) end),
        true = Connecting < 1000,
        %% It took the place of the next oldest.
        {error, closed} = gen_tcp:recv(hd(Others), 0, ?WAIT_MS),
        {error, timeout} = gen_tcp:recv(lists:last(Others), 0, 0),
        told(Attacked, "too many", 250 - ?HALF_OPEN + 1, Ms),
        good(Conn, Attacked),
        [gen_tcp:close(Socket) || Socket <- Silent]
    end).

%% A Hello that stops anywhere, its last byte included, is waited for until the deadline and not longer.
half_a_hello(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        Hello = hello(Invitation, 0, nonce()),
        Lengths = lists:seq(1, byte_size(Hello) - 1, 2),
        {Ms, _} = timed(fun() ->
            Sockets = [send_to(Attacked, binary:part(Hello, 0, Length)) || Length <- Lengths],
            Whole = send_to(Attacked, Hello),
            <<71:16, 2, _/binary>> = handshake_frame(Whole),
            [closed = handshake_frame(Socket) || Socket <- [Whole | Sockets]]
        end),
        true = Ms >= ?DEADLINE_MS - 500 andalso Ms < 2 * ?DEADLINE_MS,
        told(Attacked, "in time", length(Lengths) + 1, Ms)
    end).

%% A peer whose bytes come one by one is a peer all the same.
slow_and_good(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        Socket = open(Invitation),
        Hello = hello(Invitation, 0, nonce()),
        one_by_one(Socket, Hello),
        <<Head:41/binary, _:32/binary>> = handshake_frame(Socket),
        one_by_one(Socket, proof(Invitation, Hello, Head)),
        <<1:16, 4>> = handshake_frame(Socket),
        good(#{socket => Socket, number => 1, ends => hawser_raw_peer:ends(Invitation, dialer)}, Attacked)
    end).

%% A peer without the secret is refused, and does not use the invitation up for the one who has it.
wrong_secret(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        {Ms, _} = timed(fun() ->
            [7 = proves(Invitation, Invitation#{secret := nonce()}) || _ <- lists:seq(1, 50)]
        end),
        told(Attacked, "authentication failed", 50, Ms),
        [Conn] = hawser_raw_peer:dial(Invitation),
        good(Conn, Attacked)
    end).

%% The secret in the hands of another name, creation or incarnation, or for another acceptor, opens nothing.
not_whom_it_claims(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = #{dialer := {Name, Creation, Incarnation}, acceptor := {Other, Its, Life}} =
            hawser_attacked:invite(Attacked, #{}),
        [7 = proves(Invitation, False) || False <- [
            Invitation#{dialer := {<<"b", Name/binary>>, Creation, Incarnation}},
            Invitation#{dialer := {Name, Creation + 1, Incarnation}},
            Invitation#{dialer := {Name, Creation, binary:part(nonce(), 0, 16)}},
            Invitation#{acceptor := {<<Other/binary, "x">>, Its, Life}},
            Invitation#{acceptor := {Other, Its + 1, Life}},
            Invitation#{acceptor := {Other, Its, binary:part(nonce(), 0, 16)}}
        ]],
        [Conn] = hawser_raw_peer:dial(Invitation),
        good(Conn, Attacked)
    end).

%% The bytes of a handshake that succeeded are worth nothing the second time, while the invitation stands and after.
replayed(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{shards => 2}),
        Hello = hello(Invitation, 0, nonce()),
        {Socket, Head} = challenged(Invitation, Hello),
        Proof = proof(Invitation, Hello, Head),
        ok = gen_tcp:send(Socket, Proof),
        <<1:16, 4>> = handshake_frame(Socket),
        7 = replay(Invitation, Hello, Proof),
        %% A fresh proof for a place that is taken.
        6 = proves(Invitation, Invitation),
        Second = hawser_raw_peer:dial(Invitation, 1),
        4 = replay(Invitation, Hello, Proof),
        gen_tcp:close(Socket),
        hawser_raw_peer:close(Second),
        {lost, _} = hawser_attacked:ended(Attacked)
    end).

%% The acceptor's own mac does not prove anything to it, on the same connection or on another one.
reflected(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        Hello = hello(Invitation, 0, nonce()),
        {First, <<_:41/binary, Mac:32/binary>>} = answered(Invitation, Hello),
        {Second, _} = challenged(Invitation, Hello),
        _ = [begin
            ok = gen_tcp:send(Socket, <<33:16, 3, Mac/binary>>),
            7 = refusal(Socket)
        end || Socket <- [First, Second]],
        %% Its Challenge as a whole is no frame for it.
        {Third, Challenge} = answered(Invitation, Hello),
        ok = gen_tcp:send(Third, Challenge),
        1 = refusal(Third)
    end).

unknown_invitation(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        {Ms, _} = timed(fun() ->
            [4 = greets(Invitation, Invitation#{id := binary:part(nonce(), 0, 16)}) || _ <- lists:seq(1, 50)]
        end),
        told(Attacked, "unknown", 50, Ms)
    end).

%% An invitation that nobody came for in time is worth nothing, and what had come by then is closed.
expired_invitation(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{shards => 2}),
        Early = hawser_raw_peer:dial(Invitation, 0),
        closed = hawser_raw_peer:recv_record(Early),
        4 = greets(Invitation, Invitation)
    end).

%% An invitation brings one session and no second one.
used_up_invitation(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        [Conn] = hawser_raw_peer:dial(Invitation),
        4 = greets(Invitation, Invitation),
        good(Conn, Attacked),
        4 = greets(Invitation, Invitation)
    end).

%% A length out of bounds is refused as soon as it is there, whatever follows or does not follow it.
lying_lengths(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        <<_:16, Body/binary>> = Hello = hello(Invitation, 0, nonce()),
        _ = [closed = refusal(send_to(Attacked, Bytes))
             || Length <- [0, 1, 62, 511, 16#FFFF], Bytes <- [<<Length:16>>, <<Length:16, Body/binary>>]],
        _ = [begin
            {Socket, _} = challenged(Invitation, Hello),
            ok = gen_tcp:send(Socket, <<Length:16>>),
            1 = refusal(Socket)
        end || Length <- [0, 511, 16#FFFF]],
        %% In version 1 a Hello has one length.
        1 = refusal(send_to(Attacked, <<64:16, Body/binary, 0>>)),
        told(Attacked, "malformed", 4, 5000),
        told(Attacked, "not a hawser handshake", 10, 5000),
        [Conn] = hawser_raw_peer:dial(Invitation),
        good(Conn, Attacked)
    end).

%% A frame that is not the one that is due ends the handshake.
wrong_frames(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        Hello = hello(Invitation, 0, nonce()),
        {Ms, _} = timed(fun() ->
            [begin
                {Socket, _} = challenged(Invitation, Hello),
                ok = gen_tcp:send(Socket, Frame),
                1 = refusal(Socket)
            end || Frame <- [
                Hello, hawser_raw_peer:accept(), <<33:16, 9, (nonce())/binary>>, <<34:16, 3, (nonce())/binary, 0>>,
                <<32:16, 3, (binary:part(nonce(), 0, 31))/binary>>, <<1:16, 3>>, <<1:16, 5>>
            ]]
        end),
        told(Attacked, "malformed", 7, Ms),
        %% A dialer may refuse too; what it says must not forge a line of the log.
        {Socket, _} = challenged(Invitation, Hello),
        Text = <<"no\nhawser: session with friend@host\e[2J", 255, 254>>,
        ok = gen_tcp:send(Socket, <<(2 + byte_size(Text)):16, 5, 99, Text/binary>>),
        closed = refusal(Socket),
        #{text := Line} = hawser_test_nodes:await_log(hawser_attacked:victim(Attacked),
            fun(#{text := T}) -> string:find(T, "refused by the peer (99)") =/= nomatch end, ?WAIT_MS),
        [] = [C || C <- unicode:characters_to_list(Line), C < 32 orelse C =:= 127]
    end).

%% A version that is too old is refused; to a newer one the node answers with its own.
other_versions(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{}),
        2 = greets(Invitation, Invitation#{version => 0}),
        Newer = Invitation#{version => 16#FFFF},
        <<63:16, Body/binary>> = hello(Newer, 0, nonce()),
        Hello = <<70:16, Body/binary, "another">>,
        {Socket, <<_:16, 2, 1:16, _/binary>> = Head} = challenged(Invitation, Hello),
        ok = gen_tcp:send(Socket, proof(Invitation, Hello, Head)),
        <<1:16, 4>> = handshake_frame(Socket),
        good(#{socket => Socket, number => 1, ends => hawser_raw_peer:ends(Invitation, dialer)}, Attacked)
    end).

%% Capabilities that are required and unknown, and places that the invitation does not have, are refused by name.
wrong_terms(Config) ->
    attack(Config, fun(Attacked) ->
        Invitation = hawser_attacked:invite(Attacked, #{shards => 2}),
        3 = greets(Invitation, Invitation#{capabilities => 16#80000000}),
        5 = greets(Invitation, Invitation#{shards := 1}),
        5 = greets(Invitation, Invitation#{shards := 64}),
        5 = greets(Invitation, Invitation#{shards := 0}),
        5 = greets(Invitation, Invitation#{shards := 16#FFFF}),
        [5 = refusal(send_to(Attacked, hello(Invitation, Index, nonce()))) || Index <- [2, 16#FFFF]],
        %% A capability that is merely offered is not agreed.
        {_, <<_:16, 2, 1:16, 0:32, _/binary>>} =
            challenged(Invitation, hello(Invitation#{capabilities => 16#FFFF}, 0, nonce()))
    end).

%% Whatever comes before the proof, the node makes no atom of it.
no_atoms(Config) ->
    attack(Config, fun(Attacked) ->
        Victim = hawser_attacked:victim(Attacked),
        Hostile = fun(Invitation, Seed) ->
            _ = rand:seed(exsss, Seed),
            Hello = hello(Invitation, 0, nonce()),
            closed = refusal(send_to(Attacked, [<<63:16>>, rand:bytes(61)])),
            4 = greets(Invitation, Invitation#{id := rand:bytes(16)}),
            7 = proves(Invitation, Invitation#{secret := nonce()}),
            {Socket, _} = challenged(Invitation, Hello),
            ok = gen_tcp:send(Socket, <<18:16, 5, 7, (base64:encode(rand:bytes(12)))/binary>>),
            closed = refusal(Socket)
        end,
        Invitation = hawser_attacked:invite(Attacked, #{}),
        %% Code is loaded, and the first lines are formatted.
        Hostile(Invitation, 1),
        Atoms = hawser_test_nodes:call(Victim, erlang, system_info, [atom_count]),
        _ = [Hostile(Invitation, Seed) || Seed <- lists:seq(2, 60)],
        told(Attacked, "not a hawser handshake", 60, 10000),
        Atoms = hawser_test_nodes:call(Victim, erlang, system_info, [atom_count])
    end).

%% A node that dials tells a false acceptor, and takes the true one that answers at the same address afterwards.
node_dials_strangers(Config) ->
    attack(Config, fun(#{victim := {Victim, VictimNode}}) ->
        {Far, FarNode} = hawser_test_nodes:start_node(#{hawser => false, name => "z"}),
        {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}, {nodelay, true}]),
        {ok, Port} = inet:port(Listener),
        Invitation = #{id => binary:part(nonce(), 0, 16), secret => nonce(), port => Port},
        {_, Acceptor} = hawser_test_nodes:call(Far, hawser_raw_peer, directory, [VictimNode, Invitation]),
        Dialer = {atom_to_binary(VictimNode), hawser_test_nodes:call(Victim, erlang, system_info, [creation]),
                  hawser_test_nodes:call(Victim, hawser_nif, incarnation, [])},
        Agreed = Invitation#{shards => 1, dialer => Dialer, acceptor => Acceptor},
        pong = hawser_test_nodes:call(Far, net_adm, ping, [VictimNode]),
        lists:foreach(
            fun({Answer, Expected}) ->
                {Socket, Hello} = dialed(Listener, Victim, FarNode),
                ok = gen_tcp:send(Socket, Answer(Hello)),
                Expected = refusal(Socket)
            end, [
                {fun(Hello) -> Hello end, 1},
                {fun(_) -> hawser_raw_peer:accept() end, 1},
                {fun(_) -> <<16#FFFF:16>> end, 1},
                {fun(_) -> <<0:16>> end, 1},
                {fun(_) -> <<71:16, 2, 1:16, 0:32, (nonce())/binary, (nonce())/binary>> end, 7},
                {fun(Hello) -> challenge(Agreed#{secret := nonce()}, Hello, 1) end, 7},
                {fun(Hello) -> challenge(Agreed#{acceptor := Dialer, dialer := Acceptor}, Hello, 1) end, 7},
                {fun(Hello) ->
                    %% The right secret, and the mac that the dialer is to give.
                    Head = <<71:16, 2, 1:16, 0:32, (nonce())/binary>>,
                    <<_:16, 3, Mac/binary>> = proof(Agreed, Hello, Head),
                    <<Head/binary, Mac/binary>>
                end, 7},
                {fun(Hello) -> challenge(Agreed, Hello, 2) end, 2},
                {fun(Hello) -> challenge(Agreed, Hello, 0) end, 2},
                {fun(_) -> <<7:16, 5, 4, "later">> end, closed},
                %% Nothing at all: given up in time.
                {fun(_) -> <<>> end, closed}
            ]),
        {Socket, Hello} = dialed(Listener, Victim, FarNode),
        Conn = hawser_raw_peer:answer_hello(Socket, Agreed, Hello),
        ok = hawser_test_nodes:call(Victim, hawser, await, [FarNode, ?WAIT_MS]),
        _ = hawser_test_nodes:call(Victim, hawser, send, [{somebody, FarNode}, {hello, there}]),
        {batch, 0, 1, Atoms, [Frame]} = hawser_raw_peer:recv_record(Conn),
        {hello, there} = hawser_raw_wire:message(Frame, Atoms, {{VictimNode, 0}, {FarNode, 0}}),
        hawser_raw_peer:close(Conn),
        {lost, _} = hawser_test_nodes:await_end(Victim, FarNode),
        hawser_test_nodes:stop(Far),
        gen_tcp:close(Listener),
        hawser_attacked:until(fun() ->
            hawser_test_nodes:call(Victim, hawser, info, [FarNode]) =:= #{node => FarNode, state => none}
        end)
    end).

%% ---- helpers ----

%% The next connection that the node makes; it is asked for one as often as need be.
dialed(Listener, Victim, Node) ->
    _ = spawn(fun() -> hawser_test_nodes:call(Victim, hawser, await, [Node, 1000]) end),
    case gen_tcp:accept(Listener, 500) of
        {ok, Socket} ->
            <<63:16, 1, "HWSR", _/binary>> = Hello = handshake_frame(Socket),
            {Socket, Hello};
        {error, timeout} ->
            dialed(Listener, Victim, Node)
    end.

challenge(Invitation, Hello, Version) ->
    {_, Challenge} = hawser_raw_peer:challenge(Invitation, Hello, Version, nonce()),
    Challenge.

send_to(Attacked, Bytes) ->
    Socket = open(hawser_attacked:address(Attacked)),
    ok = gen_tcp:send(Socket, Bytes),
    Socket.

one_by_one(Socket, Bytes) ->
    _ = [ok = gen_tcp:send(Socket, <<Byte>>) || <<Byte>> <= Bytes],
    ok.

answered(Address, Hello) ->
    Socket = open(Address),
    ok = gen_tcp:send(Socket, Hello),
    <<71:16, 2, _/binary>> = Challenge = handshake_frame(Socket),
    {Socket, Challenge}.

challenged(Address, Hello) ->
    {Socket, <<Head:41/binary, _/binary>>} = answered(Address, Hello),
    {Socket, Head}.

%% What a Hello made after As is answered with.
greets(Address, As) ->
    Socket = open(Address),
    ok = gen_tcp:send(Socket, hello(As, 0, nonce())),
    refusal(Socket).

%% What the proof made after As is answered with, the Hello being right.
proves(Invitation, As) ->
    Hello = hello(Invitation, 0, nonce()),
    {Socket, Head} = challenged(Invitation, Hello),
    ok = gen_tcp:send(Socket, proof(As, Hello, Head)),
    refusal(Socket).

replay(Address, Hello, Proof) ->
    Socket = open(Address),
    ok = gen_tcp:send(Socket, Hello),
    case handshake_frame(Socket) of
        <<_:16, 5, Code, _/binary>> -> Code;
        <<71:16, 2, _/binary>> -> ok = gen_tcp:send(Socket, Proof), refusal(Socket)
    end.

%% The session that came of it delivers, and ends.
good(Conn, Attacked) ->
    {Frame, Message} = hawser_attacked:tell(Attacked, good),
    _ = hawser_raw_peer:send_batch(Conn, [], Frame),
    [Message] = hawser_attacked:take(Attacked, 1),
    hawser_raw_peer:close(Conn),
    {lost, _} = hawser_attacked:ended(Attacked).

timed(Fun) ->
    Begin = erlang:monotonic_time(millisecond),
    Result = Fun(),
    {erlang:monotonic_time(millisecond) - Begin, Result}.

%% All of Count refusals are accounted for, in one line at once and one per second after it.
told(Attacked, Kind, Count, Ms) ->
    ok = hawser_attacked:until(fun() -> lists:sum(refusals(Attacked, Kind)) >= Count end),
    Lines = refusals(Attacked, Kind),
    {Count, true} = {lists:sum(Lines), length(Lines) =< 3 + Ms div 1000}.

refusals(Attacked, Kind) ->
    [case re:run(Text, "refused (\\d+) more", [{capture, all_but_first, list}]) of
        {match, [More]} -> list_to_integer(More);
        nomatch -> 1
     end || #{text := Text} <- hawser_test_nodes:logs(hawser_attacked:victim(Attacked)),
            string:find(Text, "refused") =/= nomatch, string:find(Text, Kind) =/= nomatch].
