%% Valid traffic, broken at random: thousands of mutations, and the node under
%% attack neither dies nor grows nor lets its other sessions suffer, and a good
%% peer is served at the end. The seed is in the log; HAWSER_SEED repeats it.
-module(hawser_mutation_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([mutations/1]).

-define(SESSIONS, 250).
-define(SHARDS, 4).
-define(BATCHES, 4).
-define(MUTATIONS, 8).
%% What all of it together may cost the node's process at its worst.
-define(MEMORY_KIB, 131072).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [mutations].

init_per_suite(Config) ->
    [{attacked, hawser_attacked:start(#{max_message_bytes => 1048576, shards => ?SHARDS})} | Config].

end_per_suite(Config) ->
    hawser_attacked:stop(proplists:get_value(attacked, Config)).

%% Every session is four connections with eight mutations each; it ends by a reason that says what was wrong.
mutations(Config) ->
    Attacked = proplists:get_value(attacked, Config),
    Seed = seed(),
    ct:pal("HAWSER_SEED=~b: ~b mutations over ~b connections",
           [Seed, ?SESSIONS * ?SHARDS * ?MUTATIONS, ?SESSIONS * ?SHARDS]),
    Base = hawser_attacked:base(Attacked),
    Grown = hawser_attacked:peak_kib(Attacked, fun() ->
        Ends = [session(Attacked, Seed, N) || N <- lists:seq(1, ?SESSIONS)],
        ct:pal("~p", [counted(Ends)])
    end),
    Grown < ?MEMORY_KIB orelse error({memory, Grown}),
    ok = hawser_attacked:back_to(Base, Attacked),
    ok = hawser_attacked:unharmed(Attacked),
    _ = hawser_attacked:forget(Attacked),
    Conn = hawser_attacked:opened(Attacked),
    {Records, Messages} = hawser_raw_traffic:records(Conn, hawser_attacked:sink(Attacked), 1),
    ok = hawser_raw_peer:raw(Conn, Records),
    Messages = hawser_attacked:take(Attacked, length(Messages)),
    hawser_raw_peer:close(Conn).

seed() ->
    case os:getenv("HAWSER_SEED") of
        false -> erlang:unique_integer([positive]) bxor erlang:system_time();
        Text -> list_to_integer(Text)
    end.

%% One session, repeatable by its number.
session(Attacked, Seed, N) ->
    _ = rand:seed(exsss, {Seed, N, 0}),
    try
        Conns = hawser_attacked:session(Attacked, #{shards => ?SHARDS}),
        Sink = hawser_attacked:sink(Attacked),
        Sent = [{Conn, hawser_raw_traffic:mutated(Conn, Sink, ?BATCHES, ?MUTATIONS)} || Conn <- Conns],
        _ = [begin
            _ = hawser_raw_peer:raw(Conn, Bytes),
            gen_tcp:shutdown(maps:get(socket, Conn), write)
        end || {Conn, Bytes} <- Sent],
        _ = [ok = hawser_raw_peer:recv_until_closed(Conn) || Conn <- Conns],
        kind(hawser_attacked:ended(Attacked))
    catch
        Class:Reason:Stack -> error({{seed, Seed, session, N}, Class, Reason, Stack})
    end.

%% What the peer may be told off for, and nothing else.
kind({lost, _}) -> lost;
kind({malformed, {_, What}}) -> What;
kind(peer_closed) -> closed.

counted(Ends) ->
    lists:reverse(lists:keysort(2, maps:to_list(
        lists:foldl(fun(End, Counts) -> maps:update_with(End, fun(N) -> N + 1 end, 1, Counts) end, #{}, Ends)))).
