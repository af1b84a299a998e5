%% A path is one way for a message from a process on the sending node to a process on the receiving node.
%% Owns the behaviour and the list of the paths that ship with the benchmark; a further path is one module that
%% implements it, named with `--path Module`. Called by hawser_bench and hawser_bench_trial. Never measures anything.
-module(hawser_bench_path).

-export([shipped/0, available/1]).
-export_type([settings/0]).

%% What a path may need to know: `pool` (proxies of the pool), `env` (application env of hawser).
-type settings() :: #{pool := pos_integer(), env := [{atom(), term()}]}.

%% How the path is called in tables.
-callback title() -> string().

%% Asked on a freshly started node, before open/3.
-callback available() -> ok | {error, string()}.

%% Called once per node, on the receiving node first. What it starts lives until the node ends.
-callback open(Role :: receiver | sender, Peer :: node(), settings()) -> ok.

%% Called by each writer for each message.
-callback send(Dest :: pid(), Message :: term()) -> term().

%% Asked on the sending node after the workload: whether the path is still the one that was opened.
-callback intact(Peer :: node()) -> boolean().

%% The first one is what all others are compared with.
-spec shipped() -> [module()].
shipped() ->
    [hawser_bench_plain, hawser_bench_pool, hawser_bench_hawser].

%% Whether the path's own modules can be found, then what the path itself says.
-spec available(module()) -> ok | {error, string()}.
available(Path) ->
    case code:ensure_loaded(Path) of
        {module, Path} -> Path:available();
        {error, Reason} -> {error, lists:flatten(io_lib:format("module ~s: ~p", [Path, Reason]))}
    end.
