%% Path hawser_erpc: hawser_erpc:call/4, which promises what erpc promises, over the same sessions as path hawser.
-module(hawser_bench_hawser_erpc).
-behaviour(hawser_bench_path).
-behaviour(hawser_bench_requests).

-export([title/0, available/0, open/3, call/4, intact/1]).

-spec title() -> string().
title() -> "hawser_erpc".

-spec available() -> ok | {error, string()}.
available() ->
    hawser_bench_hawser:available().

-spec open(receiver | sender, node(), hawser_bench_path:settings()) -> ok.
open(Role, Peer, Settings) ->
    hawser_bench_hawser:open(Role, Peer, Settings).

-spec call(node(), module(), atom(), [term()]) -> term().
call(Node, M, F, A) ->
    hawser_erpc:call(Node, M, F, A).

-spec intact(node()) -> boolean().
intact(Peer) ->
    hawser_bench_hawser:intact(Peer).
