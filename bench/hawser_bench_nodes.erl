%% Fresh nodes on this machine, a sending and a receiving one for the benchmark, controlled over standard I/O so that
%% nothing of the control travels on what is measured. Called by the benchmark and the demo; the caller stops the nodes.
%% The controlling VM itself is not distributed, and idle while they work.
-module(hawser_bench_nodes).

-export([start/1, start/2, stop/1, kill/1, call/5, cores/0]).
-export_type([pair/0, side/0, options/0]).

-type side() :: #{control := pid(), node := node(), os_pid := string()}.
-type pair() :: #{sender := side(), receiver := side()}.
%% `erl`: further arguments of both VMs; `paths`: code paths in front of the controlling VM's own.
-type options() :: #{schedulers := pos_integer(), erl := [string()], paths := [file:filename()],
                     os_env := [{string(), string()}]}.

-define(HOST, "127.0.0.1").
-define(BOOT_MS, 30000).

-spec start(options()) -> pair().
start(Options) ->
    [Sender, Receiver] = start(["sender", "receiver"], Options),
    #{sender => Sender, receiver => Receiver}.

%% A node for each name; all of them or none.
-spec start([string()], options()) -> [side()].
start(Names, Options) ->
    start(Names, "hawser" ++ integer_to_list(rand:uniform(1 bsl 60)), Options, []).

start([], _Cookie, _Options, Started) ->
    lists:reverse(Started);
start([Name | Names], Cookie, Options, Started) ->
    try boot(Name, Cookie, Options) of
        Side -> start(Names, Cookie, Options, [Side | Started])
    catch
        Class:Reason:Stack ->
            lists:foreach(fun kill/1, Started),
            erlang:raise(Class, Reason, Stack)
    end.

-spec stop(pair()) -> ok.
stop(#{sender := Sender, receiver := Receiver}) ->
    kill(Sender),
    kill(Receiver).

%% Ends the node from outside, with SIGKILL: one whose schedulers compute without end, or with a gigabyte queued, would
%% take its time. It is gone when this returns, also if it was before.
-spec kill(side()) -> ok.
kill(#{control := Control, os_pid := OsPid}) ->
    Monitor = monitor(process, Control),
    _ = [os:cmd("kill -9 " ++ OsPid) || is_process_alive(Control)],
    receive
        {'DOWN', Monitor, process, Control, _} -> ok
    end.

%% Runs M:F(A...) on the node; an exception there is an exception here.
-spec call(side(), module(), atom(), [term()], timeout()) -> term().
call(#{control := Control}, M, F, A, Timeout) ->
    peer:call(Control, M, F, A, Timeout).

%% What this machine lets its nodes use.
-spec cores() -> pos_integer().
cores() ->
    case erlang:system_info(logical_processors_available) of
        unknown -> erlang:system_info(logical_processors);
        Cores -> Cores
    end.

boot(Name, Cookie, #{schedulers := S, erl := Extra, paths := Paths, os_env := Env}) ->
    Schedulers = integer_to_list(S),
    Args = ["-setcookie", Cookie, "+S", Schedulers ++ ":" ++ Schedulers, "+P", "1000000"]
        ++ ["-kernel", "logger_level", "error"]
        ++ lists:append([["-pa", Path] || Path <- Paths]) ++ Extra,
    {ok, Control, Node} = peer:start(#{name => peer:random_name("bench_" ++ Name), host => ?HOST, longnames => true,
                                       connection => standard_io, args => Args, env => Env, wait_boot => ?BOOT_MS}),
    #{control => Control, node => Node, os_pid => peer:call(Control, os, getpid, [])}.
