%% Path `!`: the Erlang distribution as it is. The yardstick of every ratio.
-module(hawser_bench_plain).
-behaviour(hawser_bench_path).

-export([title/0, available/0, open/3, send/2, intact/1]).

-spec title() -> string().
title() -> "!".

-spec available() -> ok.
available() -> ok.

-spec open(receiver | sender, node(), hawser_bench_path:settings()) -> ok.
open(_Role, Peer, _Settings) ->
    true = net_kernel:connect_node(Peer),
    ok.

-spec send(pid(), term()) -> term().
send(Dest, Message) ->
    Dest ! Message.

-spec intact(node()) -> boolean().
intact(Peer) ->
    lists:member(Peer, nodes()).
