%% A path is one way from processes on the sending node to the receiving node: for messages (`send`), for functions
%% that are to run there (`cast`, `call`), or for both. Owns the behaviour, the list of the paths that ship with the
%% benchmark and who takes part in what; a further path is one module that implements it, named with `--paths`. Called
%% by hawser_bench, hawser_bench_trial and the demo. Never measures anything.
-module(hawser_bench_path).

-export([shipped/0, available/1, offers/2, reference/1]).
-export_type([settings/0, operation/0]).

%% What a path may need to know: `pool` (proxies of the pool), `env` (application env of hawser).
-type settings() :: #{pool := pos_integer(), env := [{atom(), term()}]}.
-type operation() :: send | hawser_bench_requests:operation().

%% How the path is called in tables.
-callback title() -> string().

%% Asked on a freshly started node, before open/3.
-callback available() -> ok | {error, string()}.

%% Called once per node, on the receiving node first. What it starts lives until the node ends.
-callback open(Role :: receiver | sender, Peer :: node(), settings()) -> ok.

%% Called by each writer for each message. A path without it takes no part in what is measured with messages.
-callback send(Dest :: pid(), Message :: term()) -> term().

%% Asked on the sending node after the workload: whether the path is still the one that was opened.
-callback intact(Peer :: node()) -> boolean().

-optional_callbacks([send/2]).

-spec shipped() -> [module()].
shipped() ->
    [hawser_bench_plain, hawser_bench_erpc, hawser_bench_pool, hawser_bench_hawser, hawser_bench_hawser_erpc].

%% What all others are compared with.
-spec reference(operation()) -> module().
reference(send) -> hawser_bench_plain;
reference(_Request) -> hawser_bench_erpc.

-spec offers(module(), operation()) -> boolean().
offers(Path, Operation) ->
    _ = code:ensure_loaded(Path),
    erlang:function_exported(Path, Operation, case Operation of send -> 2; _ -> 4 end).

%% Whether the path's own modules can be found, then what the path itself says.
-spec available(module()) -> ok | {error, string()}.
available(Path) ->
    case code:ensure_loaded(Path) of
        {module, Path} -> Path:available();
        {error, Reason} -> {error, lists:flatten(io_lib:format("module ~s: ~p", [Path, Reason]))}
    end.
