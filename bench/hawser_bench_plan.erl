%% Which measurements a run consists of: options of the command line in, cases out. Called by hawser_bench. Pure.
-module(hawser_bench_plan).

-export([parse/1, cases/1, tuning/1, usage/0]).
-export_type([options/0, 'case'/0, section/0]).

-type section() :: codec | flood | one | saturated | consumer | paced | large.
-type options() :: #{only := [section()], rounds := pos_integer(), writers := [pos_integer()], total := pos_integer(),
                     rate := pos_integer(), window_ms := pos_integer(), paths := [module()], pool := auto | pos_integer(),
                     assert := boolean(), schedulers := pos_integer(), erl := [string()], env := [{atom(), term()}],
                     prototype := undefined | file:filename(), out := file:filename()}.
%% `key` tells the cases of a section apart: writers, or the bytes of a message.
-type 'case'() :: #{section := section(), key := pos_integer(), rounds := pos_integer(), workload := map()}.

-define(DEADLINE_MS, 60000).
-define(BUSY, 200).
%% Bytes of large binaries for each message of a flood: 400,000 of them make 512 MiB.
-define(LARGE_BYTES_EACH, 1342).

-spec usage() -> string().
usage() ->
    "bench/run.sh [options]\n"
    "  --only S,S,..      of codec,flood,one,saturated,consumer,paced,large   (all)\n"
    "  --rounds N         rounds of which the median is taken                 (5; at most 3 outside flood and one)\n"
    "  --writers N,N,..   writers of flood and paced                          (10,100,1000,10000)\n"
    "  --total N          messages of all writers in a flood                  (400000)\n"
    "  --rate N           messages per second of all writers when paced       (50000)\n"
    "  --window MS        counted time when saturated                         (3000)\n"
    "  --paths P,P,..     modules; hawser_bench_ can be left out              (plain,pool,hawser)\n"
    "  --pool N           proxies of the pool, instead of trying which is best\n"
    "  --schedulers N     of each node                                        (the machine's)\n"
    "  --erl ARGS         further arguments of both nodes' erl\n"
    "  --env KEY=TERM     application env of hawser, may be repeated\n"
    "  --prototype DIR    one more path: a transport of your own, module proto in DIR\n"
    "  --quick            one round, 150000 messages, window 1000\n"
    "  --assert           PASS or MISS for each figure to reach; exit code 1 if one is missed\n"
    "  --out DIR          where latest.csv and latest.txt go                  (_build/bench)\n".

-spec parse([string()]) -> {ok, options()} | help | {error, string()}.
parse(["--help"]) ->
    help;
parse(Args) ->
    Defaults = #{only => [codec, flood, one, saturated, consumer, paced, large], rounds => 5, writers => [10, 100, 1000, 10000],
                 total => 400000, rate => 50000, window_ms => 3000, paths => hawser_bench_path:shipped(), pool => auto,
                 assert => false, schedulers => hawser_bench_nodes:cores(), erl => [], env => [],
                 prototype => undefined, out => "_build/bench"},
    try
        {ok, parse(Args, Defaults)}
    catch
        throw:Text -> {error, Text};
        error:_ -> {error, lists:flatten(["cannot read the options: ", lists:join($\s, Args)])}
    end.

parse([], Options) -> Options;
parse(["--only", V | T], O) -> parse(T, O#{only := [section(S) || S <- words(V)]});
parse(["--rounds", V | T], O) -> parse(T, O#{rounds := positive(V)});
parse(["--writers", V | T], O) -> parse(T, O#{writers := [positive(N) || N <- words(V)]});
parse(["--total", V | T], O) -> parse(T, O#{total := positive(V)});
parse(["--rate", V | T], O) -> parse(T, O#{rate := positive(V)});
parse(["--window", V | T], O) -> parse(T, O#{window_ms := positive(V)});
parse(["--paths", V | T], O) -> parse(T, O#{paths := [path(P) || P <- words(V)]});
parse(["--pool", V | T], O) -> parse(T, O#{pool := positive(V)});
parse(["--schedulers", V | T], O) -> parse(T, O#{schedulers := positive(V)});
parse(["--erl", V | T], O) -> parse(T, O#{erl := string:lexemes(V, " ")});
parse(["--env", V | T], #{env := Env} = O) -> parse(T, O#{env := Env ++ [env(V)]});
parse(["--prototype", V | T], O) -> parse(T, O#{prototype := filename:absname(V)});
parse(["--quick" | T], O) -> parse(T, O#{rounds := 1, total := 150000, window_ms := 1000});
parse(["--assert" | T], O) -> parse(T, O#{assert := true});
parse(["--out", V | T], O) -> parse(T, O#{out := V});
parse([Other | _], _Options) -> throw("unknown option, or option without its value: " ++ Other).

-spec cases(options()) -> ['case'()].
cases(#{only := Only} = Options) ->
    lists:append([section(Section, Options) || Section <- Only]).

%% The floods by which the size of the pool is chosen.
-spec tuning(options()) -> ['case'()].
tuning(Options) ->
    [Case#{rounds := 1} || Case <- section(flood, Options#{writers := [10, 100, 10000]})].

section(codec, _Options) ->
    [];
section(flood, #{rounds := R, writers := Writers} = Options) ->
    [#{section => flood, key => N, rounds => R, workload => flood(N, Options)} || N <- Writers];
section(one, #{rounds := R, total := Total} = Options) ->
    [#{section => one, key => 1, rounds => R, workload => flood(1, Options#{total := Total div 2})}];
section(saturated, Options) ->
    [timed(saturated, {?BUSY, ?BUSY}, Options)];
section(consumer, Options) ->
    [timed(consumer, {0, ?BUSY}, Options)];
section(paced, #{rounds := R, writers := Writers, rate := Rate, total := Total} = Options) ->
    [#{section => paced, key => N, rounds => min(3, R), workload => (flood(N, Options#{total := Total div 3}))#{pace := {paced, Rate}}}
     || N <- Writers];
section(large, #{rounds := R, total := Total} = Options) ->
    [#{section => large, key => Bytes, rounds => min(3, R),
       workload => (flood(10, Options#{total := Total * ?LARGE_BYTES_EACH div Bytes}))#{payload := {binary, Bytes}}}
     || Bytes <- [65536, 1048576]].

flood(N, #{total := Total}) ->
    #{writers => N, count => max(1, Total div N), pace => flood, payload => atoms, busy => {0, 0}, deadline_ms => ?DEADLINE_MS}.

timed(Section, Busy, #{rounds := R, window_ms := WindowMs} = Options) ->
    #{section => Section, key => 100, rounds => min(3, R),
      workload => (flood(100, Options#{total := 80000}))#{pace := {timed, 1000, WindowMs}, busy := Busy}}.

section(Name) ->
    case lists:member(Name, ["codec", "flood", "one", "saturated", "consumer", "paced", "large"]) of
        true -> list_to_atom(Name);
        false -> throw("no such section: " ++ Name)
    end.

path("hawser_bench_" ++ _ = Module) -> list_to_atom(Module);
path(Name) ->
    case lists:member(Name, ["plain", "pool", "hawser", "prototype"]) of
        true -> list_to_atom("hawser_bench_" ++ Name);
        false -> list_to_atom(Name)
    end.

env(Text) ->
    case string:split(Text, "=") of
        [Key, Value] ->
            {ok, Tokens, _} = erl_scan:string(Value ++ "."),
            {ok, Term} = erl_parse:parse_term(Tokens),
            {list_to_atom(Key), Term};
        _ ->
            throw("--env wants KEY=TERM, not " ++ Text)
    end.

positive(Text) ->
    case string:to_integer(Text) of
        {N, ""} when N > 0 -> N;
        _ -> throw("not a positive number: " ++ Text)
    end.

words(Text) ->
    string:lexemes(Text, ",").
