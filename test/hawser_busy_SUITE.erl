%% A node whose schedulers have more to do than they can: hawser's own processes keep their share of them, so that
%% sessions stay up and messages go through.
-module(hawser_busy_SUITE).

-export([suite/0, all/0]).
-export([computing_200/1, computing_10000/1]).
%% Run on the nodes.
-export([director/0, under_load/3]).

-import(hawser_test_nodes, [start_node/1, call/4, call/5, await_session/2, logs/1]).

-define(RECEIVERS, 16).
-define(PLAN, #{count => 500, forms => [pid, name, alias], payload => {bytes, 100}}).
%% For one round of streams, whatever else runs.
-define(ROUND_MS, 20000).
%% Longer than the four heartbeats after which a silent peer is given up.
-define(QUIET_MS, 22000).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [computing_200, computing_10000].

computing_200(_) -> computing(200, 0).

%% Through the streams, and then through a time in which nothing but heartbeats passes.
computing_10000(_) -> computing(10000, ?QUIET_MS).

computing(Computing, QuietMs) ->
    [{A, _}, {B, _}] = Nodes = [start_node(#{}) || _ <- [a, b]],
    ok = await_session(hd(Nodes), lists:last(Nodes)),
    5000 = call(A, hawser_config, get, [heartbeat_interval_ms]),
    Director = call(B, ?MODULE, director, []),
    Times = call(A, ?MODULE, under_load, [Director, Computing, QuietMs], 110000),
    ct:comment("ms of each round: ~w", [Times]),
    [] = [Entry || #{report := #{what := session_ended}} = Entry <- logs(A) ++ logs(B)].

%% ---- on the nodes ----

%% Puts the load on both nodes, lets streams through, nothing for a while, streams again, and takes the load off. The
%% priority is for the one who measures: what is measured has the normal one.
under_load(Director, Computing, QuietMs) ->
    process_flag(priority, high),
    Receivers = ask(Director, receivers),
    ok = ask(Director, {compute, Computing}),
    Load = compute(Computing),
    Before = [round_of_streams(Director, Receivers, Round) || Round <- [1, 2, 3]],
    receive after QuietMs -> ok end,
    Behind = round_of_streams(Director, Receivers, 4),
    _ = [exit(Pid, kill) || Pid <- Load],
    ok = ask(Director, stop),
    Before ++ [Behind].

round_of_streams(Director, Receivers, Round) ->
    Begin = erlang:monotonic_time(millisecond),
    [] = hawser_stream:run(hawser_stream:senders(Receivers, ?PLAN)),
    ok = ask(Director, {whole, Round}),
    Ms = erlang:monotonic_time(millisecond) - Begin,
    true = Ms < ?ROUND_MS,
    Ms.

ask(Director, Question) ->
    Ref = make_ref(),
    _ = hawser:send(Director, {Question, self(), Ref}),
    receive {Ref, Answer} -> Answer end.

%% The other node's half of it.
director() ->
    spawn_opt(fun() -> direct(hawser_stream:receivers(?RECEIVERS), []) end, [{priority, high}]).

direct(Receivers, Load) ->
    receive {Question, From, Ref} ->
        {Answer, Then} = case Question of
            receivers -> {Receivers, Load};
            {compute, N} -> {ok, compute(N)};
            {whole, Round} -> {whole(Receivers, Round), Load};
            stop -> _ = [exit(Pid, kill) || Pid <- Load], {ok, []}
        end,
        _ = hawser:send(From, {Ref, Answer}),
        direct(Receivers, Then)
    end.

%% One stream more has ended at each receiver, and nothing was wrong with any.
whole(Receivers, Round) ->
    case lists:usort([hawser_stream:await(Receiver, Round, ?ROUND_MS) || Receiver <- Receivers]) of
        [ok] -> ok;
        Others -> Others
    end.

compute(N) ->
    [spawn(fun Compute() -> Compute() end) || _ <- lists:seq(1, N)].
