%% Starts, stops and questions the nodes that the suites need. Every node is
%% controlled over standard_io, so that control survives whatever is done to
%% the network between the nodes. A node remembers its hawser log events, so
%% that a test can wait for one instead of sleeping. Test code only.
-module(hawser_test_nodes).

-export([start_node/0, start_node/1, stop/1, kill/1, freeze/1, thaw/1, call/4, call/5]).
-export([start_hawser/1, start_hawser/2, stop_hawser/1]).
-export([await_session/2, await_session/3, await_end/2, await_log/3, forget_logs/1, logs/1]).
-export([name/1]).
%% Run on the nodes themselves.
-export([log/2, node_start_log/0, node_await_log/2, node_logs/0, node_forget_logs/0]).

-export_type([options/0, peer/0, entry/0]).

-type peer() :: pid().
-type options() :: #{
    name => string(),          % first part of the node's name, made unique; an atom with @ is taken as it is
    full_name => node(),       % the whole name, as it is (to restart a node under the same name)
    alive => boolean(),        % false: started as nonode@nohost
    hawser => boolean(),       % false: the application is not started
    env => #{atom() => term()},% the application's environment
    args => [string()],        % more arguments of the emulator
    link => boolean()          % false: the node is not stopped when the process that started it ends
}.
%% What the logger got from hawser on a node, without payloads.
-type entry() :: #{level := logger:level(), report := map() | undefined, text := unicode:chardata()}.

-define(CALL_MS, 30000).
-define(COOKIE, "hawser_test").

-spec start_node() -> {peer(), node()}.
start_node() ->
    start_node(#{}).

%% The node's name is unique unless `full_name` says otherwise, its
%% distribution listens on the loopback address, its code path is the caller's.
-spec start_node(options()) -> {peer(), node()}.
start_node(Opts) ->
    Common = #{connection => standard_io, wait_boot => ?CALL_MS,
               args => emulator_arguments() ++ maps:get(args, Opts, [])},
    Named = case maps:get(alive, Opts, true) of
        true ->
            [Name, Host] = string:split(atom_to_list(full_name(Opts)), "@"),
            Common#{name => Name, host => Host, longnames => true};
        false ->
            Common
    end,
    {ok, Peer, _} = peer:start(Named),
    _ = [stop_with(self(), Peer) || maps:get(link, Opts, true)],
    ok = call(Peer, ?MODULE, node_start_log, []),
    case maps:get(hawser, Opts, true) of
        true -> ok = start_hawser(Peer, maps:get(env, Opts, #{}));
        false -> set_env(Peer, maps:get(env, Opts, #{}))
    end,
    {Peer, call(Peer, erlang, node, [])}.

%% Not a link: a test that fails would take the node down as a crash, with reports.
stop_with(Starter, Peer) ->
    spawn(fun() ->
        Monitor = monitor(process, Starter),
        Gone = monitor(process, Peer),
        receive
            {'DOWN', Monitor, process, Starter, _} -> peer:stop(Peer);
            {'DOWN', Gone, process, Peer, _} -> ok
        end
    end).

%% A node name nobody else has, for start_node(#{full_name => name("a")}).
-spec name(string()) -> node().
name(Prefix) ->
    list_to_atom(peer:random_name(Prefix) ++ "@127.0.0.1").

full_name(#{full_name := Name}) -> Name;
full_name(Opts) -> name(maps:get(name, Opts, "hawser")).

emulator_arguments() ->
    Root = code:lib_dir(),
    Own = [filename:absname(Dir) || Dir <- code:get_path(), Dir =/= ".",
                                    string:prefix(filename:absname(Dir), Root) =:= nomatch],
    ["-setcookie", ?COOKIE, "-kernel", "inet_dist_use_interface", "{127,0,0,1}", "-pa" | Own].

-spec stop(peer()) -> ok.
stop(Peer) ->
    peer:stop(Peer).

%% As kill -9 by the operating system: nothing on the node gets to clean up.
-spec kill(peer()) -> ok.
kill(Peer) ->
    Monitor = monitor(process, Peer),
    OsPid = call(Peer, os, getpid, []),
    _ = os:cmd("kill -9 " ++ OsPid),
    receive {'DOWN', Monitor, process, Peer, _} -> ok end.

%% Stopped by the operating system, sockets and all, until it is thawed or the process that asked for it ends.
-spec freeze(peer()) -> Frozen :: pid().
freeze(Peer) ->
    OsPid = call(Peer, os, getpid, []),
    Caller = self(),
    "" = os:cmd("kill -STOP " ++ OsPid),
    ok = all_stopped(OsPid),
    spawn(fun() ->
        Monitor = monitor(process, Caller),
        receive
            {thaw, Caller} -> "" = os:cmd("kill -CONT " ++ OsPid), Caller ! {self(), thawed};
            {'DOWN', Monitor, process, Caller, _} -> os:cmd("kill -CONT " ++ OsPid)
        end
    end).

%% The signal reaches a thread that runs on another core a little later.
all_stopped(OsPid) ->
    Tasks = filelib:wildcard("/proc/" ++ OsPid ++ "/task/*/stat"),
    case [Task || Task <- Tasks, not is_stopped(file:read_file(Task))] of
        [] when Tasks =/= [] -> ok;
        _ -> erlang:yield(), all_stopped(OsPid)
    end.

%% The state stands behind the name, which may hold anything; a thread that has ended meanwhile is no matter.
is_stopped({ok, Stat}) -> binary:part(lists:last(binary:split(Stat, <<") ">>, [global])), 0, 1) =:= <<"T">>;
is_stopped({error, _}) -> true.

-spec thaw(Frozen :: pid()) -> ok.
thaw(Frozen) ->
    Frozen ! {thaw, self()},
    receive {Frozen, thawed} -> ok end.

-spec call(peer(), module(), atom(), [term()]) -> term().
call(Peer, M, F, A) ->
    call(Peer, M, F, A, ?CALL_MS).

-spec call(peer(), module(), atom(), [term()], timeout()) -> term().
call(Peer, M, F, A, Timeout) ->
    peer:call(Peer, M, F, A, Timeout).

-spec start_hawser(peer()) -> ok.
start_hawser(Peer) ->
    start_hawser(Peer, #{}).

-spec start_hawser(peer(), #{atom() => term()}) -> ok.
start_hawser(Peer, Env) ->
    set_env(Peer, Env),
    {ok, _} = call(Peer, application, ensure_all_started, [hawser]),
    ok.

-spec stop_hawser(peer()) -> ok.
stop_hawser(Peer) ->
    call(Peer, application, stop, [hawser]).

set_env(Peer, Env) ->
    _ = call(Peer, application, load, [hawser]),
    maps:foreach(
        fun(Key, Value) -> ok = call(Peer, application, set_env, [hawser, Key, Value]) end, Env).

%% Both ends have the session when this returns.
-spec await_session(peer() | {peer(), node()}, peer() | {peer(), node()}) -> ok.
await_session(A, B) ->
    await_session(A, B, ?CALL_MS).

-spec await_session(peer() | {peer(), node()}, peer() | {peer(), node()}, pos_integer()) -> ok.
await_session({A, NodeA}, {B, NodeB}, Ms) ->
    ok = call(A, hawser_directory, await, [NodeB, Ms], Ms + 5000),
    ok = call(B, hawser_directory, await, [NodeA, Ms], Ms + 5000);
await_session(A, B, Ms) ->
    await_session(with_node(A), with_node(B), Ms).

with_node({Peer, Node}) -> {Peer, Node};
with_node(Peer) -> {Peer, call(Peer, erlang, node, [])}.

%% The reason with which the (oldest remembered) session with Node ended.
-spec await_end(peer(), node()) -> term().
await_end(Peer, Node) ->
    #{report := #{reason := Reason}} =
        await_log(Peer, fun(#{report := #{what := session_ended, node := N}}) -> N =:= Node;
                           (_) -> false end, ?CALL_MS),
    Reason.

%% The first remembered or coming entry for which Wanted holds.
-spec await_log(peer(), fun((entry()) -> boolean()), pos_integer()) -> entry().
await_log(Peer, Wanted, Ms) ->
    call(Peer, ?MODULE, node_await_log, [Wanted, Ms], Ms + 5000).

-spec logs(peer()) -> [entry()].
logs(Peer) ->
    call(Peer, ?MODULE, node_logs, []).

-spec forget_logs(peer()) -> ok.
forget_logs(Peer) ->
    call(Peer, ?MODULE, node_forget_logs, []).

%% ---- on the node ----

-spec node_start_log() -> ok.
node_start_log() ->
    Starter = self(),
    Keeper = spawn(fun() ->
        register(?MODULE, self()),
        Starter ! {self(), ready},
        keep([], [])
    end),
    receive {Keeper, ready} -> ok end,
    ok = logger:set_primary_config(level, info),
    ok = logger:set_handler_config(default, level, warning),
    logger:add_handler(?MODULE, ?MODULE, #{}).

%% The logger's callback.
-spec log(logger:log_event(), map()) -> ok.
log(#{level := Level, msg := Msg, meta := #{domain := [hawser | _]}}, _) ->
    Entry = case Msg of
        {report, #{} = Report} -> #{level => Level, report => Report, text => ""};
        {string, Text} -> #{level => Level, report => undefined, text => Text};
        {Format, Args} -> #{level => Level, report => undefined, text => io_lib:format(Format, Args)}
    end,
    _ = [?MODULE ! {entry, Entry} || whereis(?MODULE) =/= undefined],
    ok;
log(_, _) ->
    ok.

-spec node_await_log(fun((entry()) -> boolean()), pos_integer()) -> entry().
node_await_log(Wanted, Ms) ->
    Monitor = monitor(process, ?MODULE),
    ?MODULE ! {await, self(), Monitor, Wanted},
    receive
        {Monitor, Entry} -> demonitor(Monitor, [flush]), Entry
    after Ms ->
        error({no_such_log_entry, node_logs()})
    end.

-spec node_logs() -> [entry()].
node_logs() ->
    ask(logs).

-spec node_forget_logs() -> ok.
node_forget_logs() ->
    ask(forget).

ask(Question) ->
    Ref = make_ref(),
    ?MODULE ! {Question, self(), Ref},
    receive {Ref, Answer} -> Answer end.

keep(Entries, Waiting) ->
    receive
        {entry, Entry} ->
            {Served, Left} = lists:partition(fun({_, _, Wanted}) -> Wanted(Entry) end, Waiting),
            _ = [Pid ! {Ref, Entry} || {Pid, Ref, _} <- Served],
            keep([Entry | Entries], Left);
        {await, Pid, Ref, Wanted} ->
            case lists:filter(Wanted, lists:reverse(Entries)) of
                [Entry | _] -> Pid ! {Ref, Entry}, keep(Entries, Waiting);
                [] -> keep(Entries, [{Pid, Ref, Wanted} | Waiting])
            end;
        {logs, Pid, Ref} ->
            Pid ! {Ref, lists:reverse(Entries)},
            keep(Entries, Waiting);
        {forget, Pid, Ref} ->
            Pid ! {Ref, ok},
            keep([], Waiting)
    end.
