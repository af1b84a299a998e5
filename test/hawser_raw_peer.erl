%% A peer that speaks hawser's protocol without hawser: it asks a node's
%% directory for an invitation, authenticates with gen_tcp and crypto, and
%% then sends and receives raw records. Written from the diagram in
%% native/hawser_core/src/handshake.rs. invite/2 and directory/2 run on a
%% distributed node that does not run hawser; the rest runs anywhere, each
%% socket in the process that opened it. Test code only.
-module(hawser_raw_peer).

-export([connect/2, invite/2, dial/1, dial/2]).
-export([send_batch/3, raw/2, recv_record/1, recv_frames/2, recv_frames/3, recv_until_closed/1, close/1, ends/2]).
%% The handshake in pieces, for those who break it.
-export([open/1, hello/3, challenge/4, proof/3, accept/0, handshake_frame/1, refusal/1, nonce/0]).
%% The accepting end.
-export([directory/2, answer_hello/3]).

-export_type([invitation/0, conn/0]).

%% What the other node's directory answered, and who we are (or, of one that
%% we gave out, who we are and who dials).
-type invitation() :: #{
    id := <<_:128>>, secret := <<_:256>>, shards := 1..64,
    dialer := party(), acceptor := party(), host := string(), port := inet:port_number()
}.
-type party() :: {Name :: binary(), Creation :: non_neg_integer(), Incarnation :: <<_:128>>}.

%% One shard. `number` is that of the next batch, `ends` are this end and the other.
-type conn() :: #{socket := gen_tcp:socket(), number := pos_integer(), ends := hawser_raw_wire:ends()}.

-define(ANSWER_MS, 10000).

%% ---- an invitation, over distribution ----

%% A session of one shard with Node.
-spec connect(node(), #{atom() => term()}) -> conn().
connect(Node, Opts) ->
    hd(dial(invite(Node, Opts))).

%% Asks as a hawser would. Opts are terms that differ from the usual ones.
-spec invite(node(), #{atom() => term()}) -> invitation().
invite(Node, Opts) ->
    Local = {atom_to_binary(node()), erlang:system_info(creation), incarnation()},
    Terms = maps:merge(#{shards => 1, heartbeat_interval_ms => 600000, max_message_bytes => 16#7FFFFFFF,
                         max_unacked_bytes => 16#7FFFFFFF, ack_every_bytes => 16#0FFFFFFF}, Opts),
    Wish = {invite, 1, #{party => Local, terms => Terms}},
    {ok, Answer} = gen_server:call({hawser_directory, Node}, Wish, ?ANSWER_MS),
    #{id := Id, secret := Secret, party := Remote, terms := #{shards := Shards}, host := Host, port := Port} = Answer,
    #{id => Id, secret => Secret, shards => Shards, dialer => Local, acceptor => Remote,
      host => binary_to_list(Host), port => Port}.

%% One for the life of this node, as a hawser that was not restarted.
incarnation() ->
    crypto:hash(md5, term_to_binary({node(), erlang:system_info(creation)})).

%% ---- the dialing end ----

-spec dial(invitation()) -> [conn()].
dial(#{shards := Shards} = Invitation) ->
    [dial(Invitation, Index) || Index <- lists:seq(0, Shards - 1)].

%% Connects and authenticates one shard.
-spec dial(invitation(), non_neg_integer()) -> conn().
dial(Invitation, Index) ->
    Socket = open(Invitation),
    Hello = hello(Invitation, Index, nonce()),
    ok = gen_tcp:send(Socket, Hello),
    <<Head:41/binary, Mac:32/binary>> = handshake_frame(Socket),
    Mac = mac(<<"hawser handshake: acceptor", 0>>, Invitation, Hello, Head),
    ok = gen_tcp:send(Socket, proof(Invitation, Hello, Head)),
    <<1:16, 4>> = handshake_frame(Socket),
    #{socket => Socket, number => 1, ends => ends(Invitation, dialer)}.

-spec open(#{host := string(), port := inet:port_number(), _ => _}) -> gen_tcp:socket().
open(#{host := Host, port := Port}) ->
    {ok, Socket} = gen_tcp:connect(Host, Port, [binary, {active, false}, {nodelay, true}], ?ANSWER_MS),
    Socket.

-spec nonce() -> <<_:256>>.
nonce() ->
    crypto:strong_rand_bytes(32).

%% Of version 1, or of the version in the invitation.
-spec hello(invitation() | map(), non_neg_integer(), <<_:256>>) -> binary().
hello(#{id := Id, shards := Shards} = Invitation, Index, Nonce) ->
    Version = maps:get(version, Invitation, 1),
    Capabilities = maps:get(capabilities, Invitation, 0),
    <<63:16, 1, "HWSR", Version:16, Capabilities:32, Id/binary, Index:16, Shards:16, Nonce/binary>>.

%% Head: the Challenge up to its mac.
-spec proof(invitation(), binary(), binary()) -> binary().
proof(Invitation, Hello, Head) ->
    <<33:16, 3, (mac(<<"hawser handshake: dialer", 0>>, Invitation, Hello, Head))/binary>>.

mac(Label, #{secret := Secret, dialer := Dialer, acceptor := Acceptor}, Hello, Head) ->
    crypto:mac(hmac, sha256, Secret,
        [Label, string(Hello), string(Head), party(Dialer), party(Acceptor), string(<<>>)]).

string(Bytes) ->
    <<(byte_size(Bytes)):64, Bytes/binary>>.

party({Name, Creation, Incarnation}) ->
    [string(Name), <<Creation:32>>, Incarnation].

%% The next handshake frame with its length field; `closed` when there is none.
-spec handshake_frame(gen_tcp:socket()) -> binary() | closed.
handshake_frame(Socket) ->
    case gen_tcp:recv(Socket, 2, ?ANSWER_MS) of
        {ok, <<Length:16>>} ->
            {ok, Frame} = gen_tcp:recv(Socket, Length, ?ANSWER_MS),
            <<Length:16, Frame/binary>>;
        {error, Reason} when Reason =:= closed; Reason =:= econnreset ->
            closed
    end.

%% How the other end ended the handshake: the code of its Refuse frame, or closed.
-spec refusal(gen_tcp:socket()) -> byte() | closed.
refusal(Socket) ->
    case handshake_frame(Socket) of
        <<_:16, 5, Code, _/binary>> ->
            closed = handshake_frame(Socket),
            Code;
        closed ->
            closed
    end.

%% ---- the accepting end ----

%% On the node itself, for its life: gives Dialer's hawser this invitation (an
%% id, a secret, a port) as often as it asks. Other nodes, which the kernel
%% connects too, are told to wait.
-spec directory(node(), #{id := <<_:128>>, secret := <<_:256>>, port := inet:port_number()}) -> {pid(), party()}.
directory(Dialer, Invitation) ->
    Local = {atom_to_binary(node()), erlang:system_info(creation), incarnation()},
    Caller = self(),
    Pid = spawn(fun() ->
        true = register(hawser_directory, self()),
        Caller ! {self(), ready},
        directory_loop(Dialer, Invitation#{party => Local, host => <<"127.0.0.1">>, family => inet})
    end),
    receive {Pid, ready} -> {Pid, Local} end.

directory_loop(Dialer, Answer) ->
    receive
        {'$gen_call', {Pid, _} = From, {invite, 1, #{terms := Terms}}} when node(Pid) =:= Dialer ->
            gen_server:reply(From, {ok, Answer#{terms => Terms#{shards => 1}}});
        {'$gen_call', From, {invite, 1, _}} ->
            gen_server:reply(From, {error, dialing});
        {'$gen_call', From, _} ->
            gen_server:reply(From, ok)
    end,
    directory_loop(Dialer, Answer).

%% A Challenge with its mac, of the version and with the nonce given.
-spec challenge(invitation(), binary(), non_neg_integer(), <<_:256>>) -> {Head :: binary(), Whole :: binary()}.
challenge(Invitation, Hello, Version, Nonce) ->
    Head = <<71:16, 2, Version:16, 0:32, Nonce/binary>>,
    {Head, <<Head/binary, (mac(<<"hawser handshake: acceptor", 0>>, Invitation, Hello, Head))/binary>>}.

-spec accept() -> binary().
accept() ->
    <<1:16, 4>>.

%% Takes a dialer whose Hello has been read through to the session.
-spec answer_hello(gen_tcp:socket(), invitation(), binary()) -> conn().
answer_hello(Socket, Invitation, Hello) ->
    {Head, Challenge} = challenge(Invitation, Hello, 1, nonce()),
    ok = gen_tcp:send(Socket, Challenge),
    Proof = proof(Invitation, Hello, Head),
    Proof = handshake_frame(Socket),
    ok = gen_tcp:send(Socket, accept()),
    #{socket => Socket, number => 1, ends => ends(Invitation, acceptor)}.

%% ---- the session ----

%% This end and the other.
-spec ends(invitation(), dialer | acceptor) -> hawser_raw_wire:ends().
ends(#{dialer := {Dialer, DialerCreation, _}, acceptor := {Acceptor, AcceptorCreation, _}}, Role) ->
    Dials = {binary_to_atom(Dialer), DialerCreation},
    Accepts = {binary_to_atom(Acceptor), AcceptorCreation},
    case Role of dialer -> {Dials, Accepts}; acceptor -> {Accepts, Dials} end.

%% Sends the next batch; acknowledges nothing.
-spec send_batch(conn(), [binary()], iodata()) -> conn().
send_batch(#{number := Number} = Conn, Announcements, Frames) ->
    ok = raw(Conn, hawser_raw_wire:batch(Number, 0, Announcements, Frames)),
    Conn#{number => Number + 1}.

-spec raw(conn(), iodata()) -> ok | {error, term()}.
raw(#{socket := Socket}, Bytes) ->
    gen_tcp:send(Socket, Bytes).

%% The next record that the other end sends.
-spec recv_record(conn()) -> hawser_raw_wire:item() | closed.
recv_record(#{socket := Socket}) ->
    case gen_tcp:recv(Socket, 4, ?ANSWER_MS) of
        {ok, <<Length:32>>} ->
            {ok, Record} = gen_tcp:recv(Socket, Length, ?ANSWER_MS),
            hawser_raw_wire:read(Record);
        {error, Reason} when Reason =:= closed; Reason =:= econnreset ->
            closed
    end.

%% The next frames, so many of them or more, with their messages; acknowledges nothing.
-spec recv_frames(conn(), pos_integer()) -> [{hawser_raw_wire:frame(), Message :: term()}].
recv_frames(Conn, Count) ->
    {Frames, _} = recv_frames(Conn, Count, #{}),
    Frames.

%% The same, the ids of these atoms being known already, and those that are known then.
-spec recv_frames(conn(), integer(), Known) -> {[{hawser_raw_wire:frame(), Message :: term()}], Known}
    when Known :: #{0..65535 => binary()}.
recv_frames(_, Count, Known) when Count =< 0 ->
    {[], Known};
recv_frames(#{ends := {Here, There}} = Conn, Count, Known) ->
    Record = recv_record(Conn),
    Atoms = hawser_raw_wire:atoms(Record, Known),
    Frames = case Record of
        {batch, _, _, _, Got} -> [{Frame, hawser_raw_wire:message(Frame, Atoms, {There, Here})} || Frame <- Got];
        {tick, _} -> []
    end,
    {Rest, AtLast} = recv_frames(Conn, Count - length(Frames), Atoms),
    {Frames ++ Rest, AtLast}.

%% Waits until the other end has closed; what it still sends is thrown away.
-spec recv_until_closed(conn()) -> ok.
recv_until_closed(#{socket := Socket} = Conn) ->
    case gen_tcp:recv(Socket, 0, ?ANSWER_MS) of
        {ok, _} -> recv_until_closed(Conn);
        {error, Reason} when Reason =/= timeout -> gen_tcp:close(Socket)
    end.

-spec close(conn()) -> ok.
close(#{socket := Socket}) ->
    gen_tcp:close(Socket).
