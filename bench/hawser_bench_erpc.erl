%% Path erpc: OTP's own calls and casts, over the distribution as it is. The yardstick of every ratio of requests.
-module(hawser_bench_erpc).
-behaviour(hawser_bench_path).
-behaviour(hawser_bench_requests).

-export([title/0, available/0, open/3, cast/4, call/4, intact/1]).

-spec title() -> string().
title() -> "erpc".

-spec available() -> ok.
available() -> ok.

-spec open(receiver | sender, node(), hawser_bench_path:settings()) -> ok.
open(_Role, Peer, _Settings) ->
    true = net_kernel:connect_node(Peer),
    ok.

-spec cast(node(), module(), atom(), [term()]) -> ok.
cast(Node, M, F, A) ->
    erpc:cast(Node, M, F, A).

-spec call(node(), module(), atom(), [term()]) -> term().
call(Node, M, F, A) ->
    erpc:call(Node, M, F, A).

-spec intact(node()) -> boolean().
intact(Peer) ->
    lists:member(Peer, nodes()).
