%% A pair of fresh nodes on this machine: a sending and a receiving one, controlled over standard I/O so that nothing of
%% the control travels on what is measured. Called by the benchmark and the demo; the caller stops the pair. The
%% controlling VM itself is not distributed, and idle while a pair works.
-module(hawser_bench_nodes).

-export([start/1, stop/1, call/5, cores/0]).
-export_type([pair/0, side/0, options/0]).

-type side() :: #{control := pid(), node := node(), os_pid := string()}.
-type pair() :: #{sender := side(), receiver := side()}.
%% `erl`: further arguments of both VMs; `paths`: code paths in front of the controlling VM's own.
-type options() :: #{schedulers := pos_integer(), erl := [string()], paths := [file:filename()], os_env := [{string(), string()}]}.

-define(HOST, "127.0.0.1").
-define(BOOT_MS, 30000).

-spec start(options()) -> pair().
start(Options) ->
    Cookie = "hawser" ++ integer_to_list(rand:uniform(1 bsl 60)),
    Sender = boot("sender", Cookie, Options),
    try
        #{sender => Sender, receiver => boot("receiver", Cookie, Options)}
    catch
        Class:Reason:Stack ->
            halt_node(Sender),
            erlang:raise(Class, Reason, Stack)
    end.

-spec stop(pair()) -> ok.
stop(#{sender := Sender, receiver := Receiver}) ->
    halt_node(Sender),
    halt_node(Receiver).

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

boot(Role, Cookie, #{schedulers := S, erl := Extra, paths := Paths, os_env := Env}) ->
    Schedulers = integer_to_list(S),
    Args = ["-setcookie", Cookie, "+S", Schedulers ++ ":" ++ Schedulers, "+P", "1000000", "-kernel", "logger_level", "error"]
        ++ lists:append([["-pa", Path] || Path <- Paths]) ++ Extra,
    {ok, Control, Node} = peer:start(#{name => peer:random_name("bench_" ++ Role), host => ?HOST, longnames => true,
                                       connection => standard_io, args => Args, env => Env, wait_boot => ?BOOT_MS}),
    #{control => Control, node => Node, os_pid => peer:call(Control, os, getpid, [])}.

%% Ended from outside: a node whose schedulers compute without end, or with a gigabyte queued, would take its time.
halt_node(#{control := Control, os_pid := OsPid}) ->
    _ = os:cmd("kill -9 " ++ OsPid),
    Monitor = monitor(process, Control),
    receive
        {'DOWN', Monitor, process, Control, _} -> ok
    end.
