%% Path pooled: batching over the distribution, written from the published description of ecall. A hash of the caller
%% picks a proxy; a proxy takes what lies in its mailbox, at most 1,000 messages, as one batch and sends it with `!` to
%% its worker on the other node; the worker replays the messages with `!`. Both sides keep their mailboxes off heap.
%% Nothing brakes the callers but the price of a send: that is how the peer is described.
-module(hawser_bench_pool).
-behaviour(hawser_bench_path).

-export([title/0, available/0, open/3, send/2, intact/1, candidates/1]).

-define(BATCH, 1000).
-define(PROXIES, {?MODULE, proxies}).
-define(WORKERS, {?MODULE, workers}).

-spec title() -> string().
title() -> "pooled".

-spec available() -> ok.
available() -> ok.

%% Pool sizes that are worth trying on nodes with so many schedulers.
-spec candidates(pos_integer()) -> [pos_integer()].
candidates(Schedulers) ->
    lists:usort([4 * Schedulers, 10, 100]).

-spec open(receiver | sender, node(), hawser_bench_path:settings()) -> ok.
open(receiver, _Peer, #{pool := Size}) ->
    persistent_term:put(?WORKERS, [off_heap(fun worker/0) || _ <- lists:seq(1, Size)]);
open(sender, Peer, #{pool := _}) ->
    true = net_kernel:connect_node(Peer),
    Workers = erpc:call(Peer, persistent_term, get, [?WORKERS]),
    persistent_term:put(?PROXIES, list_to_tuple([off_heap(fun() -> proxy(Worker) end) || Worker <- Workers])).

-spec send(pid(), term()) -> term().
send(Dest, Message) ->
    Proxies = persistent_term:get(?PROXIES),
    element(erlang:phash2(self(), tuple_size(Proxies)) + 1, Proxies) ! {Dest, Message}.

-spec intact(node()) -> boolean().
intact(Peer) ->
    lists:member(Peer, nodes()).

off_heap(Body) ->
    spawn_opt(Body, [{message_queue_data, off_heap}]).

proxy(Worker) ->
    receive
        First -> Worker ! lists:reverse(take(?BATCH - 1, [First]))
    end,
    proxy(Worker).

take(0, Batch) ->
    Batch;
take(Room, Batch) ->
    receive
        Next -> take(Room - 1, [Next | Batch])
    after 0 ->
        Batch
    end.

worker() ->
    receive
        Batch -> replay(Batch)
    end,
    worker().

replay([{Dest, Message} | Rest]) ->
    Dest ! Message,
    replay(Rest);
replay([]) ->
    ok.
