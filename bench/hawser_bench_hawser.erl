%% Path hawser: send/2, cast/4 and call/4 of hawser with the application as a user starts it. Called by
%% hawser_bench_trial and the demo. What would fall back to the distribution is not measured: open/3 fails when no
%% session comes up.
-module(hawser_bench_hawser).
-behaviour(hawser_bench_path).
-behaviour(hawser_bench_requests).

-export([title/0, available/0, open/3, send/2, cast/4, call/4, intact/1]).

-define(AWAIT_MS, 10000).

-spec title() -> string().
title() -> "hawser".

-spec available() -> ok | {error, string()}.
available() ->
    case code:ensure_loaded(hawser) of
        {module, hawser} -> ok;
        {error, Reason} -> {error, lists:flatten(io_lib:format("not built (~p); `make compile` first", [Reason]))}
    end.

-spec open(receiver | sender, node(), hawser_bench_path:settings()) -> ok.
open(Role, Peer, #{env := Env}) ->
    %% Loading sets the environment: what is set before would be gone. Path hawser_erpc may have been opened already.
    case application:load(hawser) of
        ok -> ok;
        {error, {already_loaded, hawser}} -> ok
    end,
    [ok = application:set_env(hawser, Key, Value) || {Key, Value} <- Env],
    {ok, _} = application:ensure_all_started(hawser),
    await(Role, Peer).

-spec send(pid(), term()) -> term().
send(Dest, Message) ->
    hawser:send(Dest, Message).

-spec cast(node(), module(), atom(), [term()]) -> ok.
cast(Node, M, F, A) ->
    hawser:cast(Node, M, F, A).

-spec call(node(), module(), atom(), [term()]) -> term().
call(Node, M, F, A) ->
    {ok, Value} = hawser:call(Node, M, F, A),
    Value.

-spec intact(node()) -> boolean().
intact(Peer) ->
    lists:member(Peer, hawser:nodes()).

await(receiver, _Peer) ->
    ok;
await(sender, Peer) ->
    true = net_kernel:connect_node(Peer),
    ok = hawser:await(Peer, ?AWAIT_MS).
