%% Path pooled: batching over the distribution, written from the published description of ecall. A hash of the caller
%% picks a proxy; a proxy takes what lies in its mailbox, at most 1,000 elements, as one batch and sends it with `!`
%% to its worker on the other node. The worker replays the batch: a message with `!`, a cast and a call by spawning a
%% process. An answer goes the same way in the other direction, so both legs are batched. Both sides keep their
%% mailboxes off heap. Nothing brakes the callers but the price of a send: that is how the peer is described.
-module(hawser_bench_pool).
-behaviour(hawser_bench_path).
-behaviour(hawser_bench_requests).

-export([title/0, available/0, open/3, send/2, cast/4, call/4, intact/1, candidates/1]).
-export([connect/1]).

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

%% Workers on both nodes first; the sending node then connects either way.
-spec open(receiver | sender, node(), hawser_bench_path:settings()) -> ok.
open(Role, Peer, #{pool := Size}) ->
    persistent_term:put(?WORKERS, [off_heap(fun worker/0) || _ <- lists:seq(1, Size)]),
    case Role of
        receiver ->
            ok;
        sender ->
            true = net_kernel:connect_node(Peer),
            ok = connect(Peer),
            ok = erpc:call(Peer, ?MODULE, connect, [node()])
    end.

%% Starts a proxy for each of Peer's workers.
-spec connect(node()) -> ok.
connect(Peer) ->
    Workers = erpc:call(Peer, persistent_term, get, [?WORKERS]),
    persistent_term:put(?PROXIES, list_to_tuple([off_heap(fun() -> proxy(Worker) end) || Worker <- Workers])).

-spec send(pid(), term()) -> term().
send(Dest, Message) ->
    my_proxy() ! {Dest, Message}.

-spec cast(node(), module(), atom(), [term()]) -> ok.
cast(_Node, M, F, A) ->
    my_proxy() ! {cast, M, F, A},
    ok.

-spec call(node(), module(), atom(), [term()]) -> term().
call(_Node, M, F, A) ->
    Proxy = my_proxy(),
    Ref = monitor(process, Proxy),
    Proxy ! {call, Ref, self(), M, F, A},
    receive
        {Ref, {value, Value}} ->
            demonitor(Ref, [flush]),
            Value;
        {Ref, {crashed, Reason}} ->
            demonitor(Ref, [flush]),
            error(Reason);
        {'DOWN', Ref, process, Proxy, Reason} ->
            error(Reason)
    end.

-spec intact(node()) -> boolean().
intact(Peer) ->
    lists:member(Peer, nodes()).

my_proxy() ->
    Proxies = persistent_term:get(?PROXIES),
    element(erlang:phash2(self(), tuple_size(Proxies)) + 1, Proxies).

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
replay([{cast, M, F, A} | Rest]) ->
    spawn(M, F, A),
    replay(Rest);
replay([{call, Ref, Caller, M, F, A} | Rest]) ->
    spawn(fun() -> send(Caller, {Ref, outcome(M, F, A)}) end),
    replay(Rest);
replay([]) ->
    ok.

outcome(M, F, A) ->
    try apply(M, F, A) of
        Value -> {value, Value}
    catch
        _:Reason -> {crashed, Reason}
    end.
