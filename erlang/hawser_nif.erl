%% @private
%% @doc The stub of the NIF library, and nothing else: exports, specs, loading.
%%
%% Whoever calls: `hawser' (push), `hawser_flusher', `hawser_reader', the owner of a session and the owner of the
%% control plane. What each function promises stands with its Rust definition in native/hawser_nif/src. This module
%% never decides anything.
-module(hawser_nif).

-export([push/3, push_plain/3, encode_once/1, push_encoded/3, answer/4, answer_plain/4, forget_call/2]).
-export([flush/1, crowded/1, recv/2, cast_refused/1, shard_descriptor/1, shard_release/1, shard_room/1, shard_finish/1, shard_bind/3]).
-export([session_open/5, session_up/1, session_down/1, session_close/1, session_tick/4, session_info/1]).
-export([dictionary_limit/1]).
-export([runtime_start/2, runtime_stop/0, listen/2, invite/4, dial/9, forget/1, events/0, incarnation/0]).
-export([codec_encode/2, codec_decode/3, codec_bench/2]).

-export_type([
    session/0, shard/0, socket/0, party/0, end_point/0, limits/0, event/0, invitation_id/0, secret/0, destination/0, call_id/0, request/0, encoded/0
]).

-on_load(load/0).

%% Number of the interface; the library refuses to load under another one.
-define(ABI, 2).

-opaque session() :: reference().
-opaque shard() :: reference().
-opaque socket() :: reference().
%% A term encoded once, for any number of pushes.
-opaque encoded() :: reference().
-type call_id() :: non_neg_integer().
%% A request's destination; its message is a {@type request()}.
-type destination() :: pid() | atom() | reference() | {cast} | {call, Alias :: reference(), TimeoutMs :: timeout()}.
-type request() :: {GroupLeader :: pid(), module(), Function :: atom(), Args :: [term()]}.
-type end_point() :: {NodeName :: binary(), Creation :: non_neg_integer()}.
-type party() :: {NodeName :: binary(), Creation :: non_neg_integer(), Incarnation :: <<_:128>>}.
-type invitation_id() :: <<_:128>>.
-type secret() :: <<_:256>>.
-type limits() :: #{
    max_message_bytes := pos_integer(),
    max_queue_bytes := pos_integer(),
    reply_reserve_bytes := non_neg_integer(),
    max_unacked_bytes := pos_integer(),
    ack_every_bytes := pos_integer()
}.
%% What a reader is to deliver; a binary holds external term format.
-type delivery() ::
    nonempty_improper_list(pid() | reference(), term())
    | {pid() | reference(), binary()}
    | {cast, request()}
    | {cast_plain, binary()}
    | {call, call_id(), request()}
    | {call_plain, call_id(), binary()}
    | {answer_plain, Alias :: reference(), binary()}.
-type event() ::
    {established, invitation_id(), dialer | acceptor, [socket()]}
    | {failed, invitation_id(), Reason :: binary()}
    | {log, error | warning | info | debug, Text :: binary()}.

-spec load() -> ok | {error, term()}.
load() ->
    erlang:load_nif(filename:join(priv_dir(), "libhawser_nif"), {?ABI, samples()}).

priv_dir() ->
    case code:priv_dir(hawser) of
        {error, bad_name} ->
            filename:join(filename:dirname(filename:dirname(code:which(?MODULE))), "priv");
        Dir ->
            Dir
    end.

%% Terms of every type, the edges of the immediate ones included, for the codec's self check.
samples() ->
    SmallMax = (1 bsl 59) - 1,
    [
        '', hawser, undefined, binary_to_atom(<<"\x{4e16}\x{754c}"/utf8>>, utf8), [],
        0, 1, -1, SmallMax, -SmallMax - 1, SmallMax + 1, -SmallMax - 2, 1 bsl 200, 1.5,
        self(), {}, {1}, [1], #{}, #{a => 1}, <<>>, <<1>>, <<1:1>>, make_ref(), fun erlang:self/0
        | lists:sublist(erlang:ports(), 1)
    ] ++ lists:sublist(erlang:processes(), 20).

%% Hot path.

-spec push(node(), destination(), term()) ->
    ok | call_id() | noroute | plain | system_limit | {busy, Flusher :: pid()}.
push(_Node, _To, _Message) -> erlang:nif_error(not_loaded).

-spec push_plain(node(), destination(), binary()) ->
    ok | call_id() | noroute | system_limit | {busy, Flusher :: pid()}.
push_plain(_Node, _To, _Plain) -> erlang:nif_error(not_loaded).

-spec encode_once(term()) -> encoded() | plain.
encode_once(_Term) -> erlang:nif_error(not_loaded).

-spec push_encoded(node(), destination(), encoded()) ->
    ok | call_id() | noroute | system_limit | {busy, Flusher :: pid()}.
push_encoded(_Node, _To, _Encoded) -> erlang:nif_error(not_loaded).

-spec answer(shard(), From :: pid(), call_id(), term()) ->
    ok | noroute | plain | system_limit | {busy, Flusher :: pid()}.
answer(_Shard, _From, _Call, _Outcome) -> erlang:nif_error(not_loaded).

-spec answer_plain(shard(), From :: pid(), call_id(), binary()) ->
    ok | noroute | system_limit | {busy, Flusher :: pid()}.
answer_plain(_Shard, _From, _Call, _Plain) -> erlang:nif_error(not_loaded).

-spec forget_call(node(), call_id()) -> ok.
forget_call(_Node, _Call) -> erlang:nif_error(not_loaded).

-spec flush(shard()) -> idle | more | wait | finished | {lost, Reason :: binary() | closed}.
flush(_Shard) -> erlang:nif_error(not_loaded).

%% Whether processes of this node wait long for their turn.
-spec crowded(boolean()) -> ok.
crowded(_Crowded) -> erlang:nif_error(not_loaded).

-spec recv(shard(), Given :: binary() | none) ->
    [delivery()] | again | closed | {lost, Reason :: binary() | closed} | {malformed, Reason :: binary()}.
recv(_Shard, _Given) -> erlang:nif_error(not_loaded).

-spec shard_descriptor(shard()) -> {ok, Descriptor :: integer()} | {error, Sentence :: binary()}.
shard_descriptor(_Shard) -> erlang:nif_error(not_loaded).

-spec shard_release(shard()) -> ok.
shard_release(_Shard) -> erlang:nif_error(not_loaded).

%% The process table is full.
-spec cast_refused(shard()) -> ok.
cast_refused(_Shard) -> erlang:nif_error(not_loaded).

-spec shard_room(shard()) -> Bytes :: non_neg_integer().
shard_room(_Shard) -> erlang:nif_error(not_loaded).

-spec shard_finish(shard()) -> ok.
shard_finish(_Shard) -> erlang:nif_error(not_loaded).

-spec shard_bind(shard(), Flusher :: pid(), Reader :: pid()) -> ok | closed.
shard_bind(_Shard, _Flusher, _Reader) -> erlang:nif_error(not_loaded).

%% A session's owner.

-spec session_open(node(), Own :: end_point(), Peer :: end_point(), [socket()], limits()) ->
    {ok, session(), [shard()]} | {error, Sentence :: binary()}.
session_open(_Node, _Own, _Peer, _Sockets, _Limits) -> erlang:nif_error(not_loaded).

-spec session_up(session()) -> ok | closed.
session_up(_Session) -> erlang:nif_error(not_loaded).

-spec session_down(session()) -> ok.
session_down(_Session) -> erlang:nif_error(not_loaded).

%% The aliases of those who still wait for an answer.
-spec session_close(session()) -> [reference()].
session_close(_Session) -> erlang:nif_error(not_loaded).

-spec session_tick(session(), NowMs :: integer(), IntervalMs :: pos_integer(), Arrived :: [non_neg_integer()]) ->
    ok | {dead, Shard :: non_neg_integer(), SilentMs :: non_neg_integer()}.
session_tick(_Session, _NowMs, _IntervalMs, _Arrived) -> erlang:nif_error(not_loaded).

-spec session_info(session()) -> #{atom() => term()}.
session_info(_Session) -> erlang:nif_error(not_loaded).

-spec dictionary_limit(non_neg_integer()) -> ok.
dictionary_limit(_Atoms) -> erlang:nif_error(not_loaded).

%% Control plane.

-spec runtime_start(Owner :: pid(), MaxHalfOpen :: pos_integer()) -> ok | {error, already_started | binary()}.
runtime_start(_Owner, _MaxHalfOpen) -> erlang:nif_error(not_loaded).

-spec runtime_stop() -> ok.
runtime_stop() -> erlang:nif_error(not_loaded).

-spec listen(Ip :: binary(), inet:port_number()) -> {ok, inet:port_number()} | {error, Sentence :: binary()}.
listen(_Ip, _Port) -> erlang:nif_error(not_loaded).

-spec invite(Local :: party(), Remote :: party(), Shards :: 1..64, ValidMs :: pos_integer()) ->
    {invitation_id(), secret()} | {error, not_listening | busy | Sentence :: binary()}.
invite(_Local, _Remote, _Shards, _ValidMs) -> erlang:nif_error(not_loaded).

-spec dial(
    invitation_id(), secret(), Local :: party(), Remote :: party(), Host :: binary(), inet | inet6,
    inet:port_number(), Shards :: 1..64, TimeoutMs :: pos_integer()
) -> ok | {error, not_running | busy}.
dial(_Id, _Secret, _Local, _Remote, _Host, _Family, _Port, _Shards, _TimeoutMs) -> erlang:nif_error(not_loaded).

-spec forget(invitation_id()) -> ok.
forget(_Id) -> erlang:nif_error(not_loaded).

-spec events() -> [event()].
events() -> erlang:nif_error(not_loaded).

-spec incarnation() -> <<_:128>>.
incarnation() -> erlang:nif_error(not_loaded).

%% The codec by itself, for tests and benchmarks.

-spec codec_encode(term(), {Sender :: end_point(), Receiver :: end_point()}) ->
    {Bytes :: binary(), Announcements :: binary()} | plain.
codec_encode(_Term, _Ends) -> erlang:nif_error(not_loaded).

-spec codec_decode(Bytes :: binary(), Announcements :: binary(), {Sender :: end_point(), Receiver :: end_point()}) ->
    {ok, term()} | {error, Sentence :: binary()}.
codec_decode(_Bytes, _Announcements, _Ends) -> erlang:nif_error(not_loaded).

-spec codec_bench(term(), Times :: pos_integer()) ->
    {EncodeNs :: non_neg_integer(), DecodeNs :: non_neg_integer(), Bytes :: non_neg_integer()} | plain.
codec_bench(_Term, _Times) -> erlang:nif_error(not_loaded).
