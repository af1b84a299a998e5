%% Path prototype: another transport, from outside this repository, to be measured in the same sitting. `--prototype
%% DIR` names a folder with its compiled module `proto`: setup/2 (peer, sockets) connects, send/2 sends to a process
%% of the peer, and cast/4 and call/4 (`{ok, Value}`) run a function there, if it has them. The nodes find the folder
%% in the environment variable PROTO_DIR. Never part of an ordinary run.
-module(hawser_bench_prototype).
-behaviour(hawser_bench_path).
-behaviour(hawser_bench_requests).

-export([title/0, available/0, open/3, send/2, cast/4, call/4, intact/1]).

-define(SOCKETS, 2).

-spec title() -> string().
title() -> "prototype".

-spec available() -> ok | {error, string()}.
available() ->
    case code:ensure_loaded(proto) of
        {module, proto} -> ok;
        {error, Reason} -> {error, lists:flatten(io_lib:format("module proto: ~p", [Reason]))}
    end.

-spec open(receiver | sender, node(), hawser_bench_path:settings()) -> ok.
open(receiver, _Peer, _Settings) ->
    ok;
open(sender, Peer, _Settings) ->
    true = net_kernel:connect_node(Peer),
    _ = apply(proto, setup, [Peer, ?SOCKETS]),
    ok.

-spec send(pid(), term()) -> term().
send(Dest, Message) ->
    proto:send(Dest, Message).

-spec cast(node(), module(), atom(), [term()]) -> term().
cast(Node, M, F, A) ->
    proto:cast(Node, M, F, A).

-spec call(node(), module(), atom(), [term()]) -> term().
call(Node, M, F, A) ->
    {ok, Value} = proto:call(Node, M, F, A),
    Value.

-spec intact(node()) -> boolean().
intact(Peer) ->
    lists:member(Peer, nodes()).
