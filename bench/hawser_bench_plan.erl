%% Which measurements a run consists of: options of the command line in, cases out. Called by hawser_bench. Pure.
-module(hawser_bench_plan).

-export([parse/1, cases/1, operation/1, tuning/2, usage/0]).
-export_type([options/0, 'case'/0, section/0]).

-type section() :: codec | flood | one | saturated | consumer | paced | large | cast | call | idle | saturated_call.
-type options() :: #{only := [section()], rounds := pos_integer(), idle_rounds := pos_integer(),
                     writers := [pos_integer()], total := pos_integer(), requests := pos_integer(),
                     rate := pos_integer(), window_ms := pos_integer(), paths := [module()],
                     pool := auto | pos_integer() | #{message | request => pos_integer()}, assert := boolean(),
                     schedulers := pos_integer(), erl := [string()], env := [{atom(), term()}],
                     prototype := undefined | file:filename(), out := file:filename()}.
%% `key` tells the cases of a section apart: writers, or the bytes of a message.
-type 'case'() :: #{section := section(), key := pos_integer(), rounds := pos_integer(), workload := map()}.

-define(SECTIONS, [codec, flood, one, saturated, consumer, paced, large, cast, call, idle, saturated_call]).
-define(DEADLINE_MS, 60000).
-define(BUSY, 200).
%% Bytes of large binaries for each message of a flood: 400,000 of them make 512 MiB.
-define(LARGE_BYTES_EACH, 1342).
-define(IDLE_CALLS, 2000).

-spec usage() -> string().
usage() ->
    "bench/run.sh [options]\n"
    "  --only S,S,..      of codec,flood,one,saturated,consumer,paced,large,cast,call,idle,saturated_call   (all)\n"
    "  --rounds N         rounds of which the median is taken                 (5; in other sections than flood, one,\n"
    "                                                                          cast and call at most 3)\n"
    "  --idle-rounds N    rounds of idle                                      (21)\n"
    "  --writers N,N,..   writers of flood and paced, callers of cast, call   (10,100,1000,10000)\n"
    "  --total N          messages of all writers in a flood                  (400000)\n"
    "  --requests N       requests of all callers in cast and call            (200000)\n"
    "  --rate N           messages per second of all writers when paced       (50000)\n"
    "  --window MS        counted time when saturated                         (3000)\n"
    "  --paths P,P,..     modules; hawser_bench_ can be left out              (plain,erpc,pool,hawser,hawser_erpc)\n"
    "  --pool N           proxies of the pool, instead of trying which is best\n"
    "  --schedulers N     of each node                                        (the machine's)\n"
    "  --erl ARGS         further arguments of both nodes' erl\n"
    "  --env KEY=TERM     application env of hawser, may be repeated\n"
    "  --prototype DIR    one more path: a transport of your own, module proto in DIR\n"
    "  --quick            one round (idle: 3), 150000 messages, 50000 requests, window 1000\n"
    "  --assert           PASS or MISS for each figure to reach; exit code 1 if one is missed\n"
    "  --out DIR          where latest.csv and latest.txt go                  (_build/bench)\n".

-spec parse([string()]) -> {ok, options()} | help | {error, string()}.
parse(["--help"]) ->
    help;
parse(Args) ->
    Defaults = #{only => ?SECTIONS, rounds => 5, idle_rounds => 21, writers => [10, 100, 1000, 10000], total => 400000,
                 requests => 200000, rate => 50000, window_ms => 3000, paths => hawser_bench_path:shipped(),
                 pool => auto, assert => false, schedulers => hawser_bench_nodes:cores(), erl => [], env => [],
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
parse(["--idle-rounds", V | T], O) -> parse(T, O#{idle_rounds := positive(V)});
parse(["--writers", V | T], O) -> parse(T, O#{writers := [positive(N) || N <- words(V)]});
parse(["--total", V | T], O) -> parse(T, O#{total := positive(V)});
parse(["--requests", V | T], O) -> parse(T, O#{requests := positive(V)});
parse(["--rate", V | T], O) -> parse(T, O#{rate := positive(V)});
parse(["--window", V | T], O) -> parse(T, O#{window_ms := positive(V)});
parse(["--paths", V | T], O) -> parse(T, O#{paths := [path(P) || P <- words(V)]});
parse(["--pool", V | T], O) -> parse(T, O#{pool := positive(V)});
parse(["--schedulers", V | T], O) -> parse(T, O#{schedulers := positive(V)});
parse(["--erl", V | T], O) -> parse(T, O#{erl := string:lexemes(V, " ")});
parse(["--env", V | T], #{env := Env} = O) -> parse(T, O#{env := Env ++ [env(V)]});
parse(["--prototype", V | T], O) -> parse(T, O#{prototype := filename:absname(V)});
parse(["--quick" | T], O) -> 
    parse(T, O#{rounds := 1, idle_rounds := 3, total := 150000, requests := 50000, window_ms := 1000});
parse(["--assert" | T], O) -> parse(T, O#{assert := true});
parse(["--out", V | T], O) -> parse(T, O#{out := V});
parse([Other | _], _Options) -> throw("unknown option, or option without its value: " ++ Other).

-spec cases(options()) -> ['case'()].
cases(#{only := Only} = Options) ->
    lists:append([section(Section, Options) || Section <- Only]).

%% What the paths of a section are asked for; it says who takes part.
-spec operation(section()) -> hawser_bench_path:operation().
operation(cast) -> cast;
operation(Section) when Section =:= call; Section =:= idle; Section =:= saturated_call -> call;
operation(_Section) -> send.

%% The measurements by which the size of the pool is chosen, for messages or for requests.
-spec tuning(message | request, options()) -> ['case'()].
tuning(Kind, Options) ->
    Section = case Kind of message -> flood; request -> call end,
    [Case#{rounds := 1} || Case <- section(Section, Options#{writers := [10, 100, 10000]})].

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
    [#{section => paced, key => N, rounds => min(3, R),
       workload => (flood(N, Options#{total := Total div 3}))#{pace := {paced, Rate}}}
     || N <- Writers];
section(large, #{rounds := R, total := Total} = Options) ->
    [#{section => large, key => Bytes, rounds => min(3, R),
       workload => (flood(10, Options#{total := Total * ?LARGE_BYTES_EACH div Bytes}))#{payload := {binary, Bytes}}}
     || Bytes <- [65536, 1048576]];
section(Section, #{rounds := R, writers := Writers, requests := Requests} = Options)
  when Section =:= cast; Section =:= call ->
    [#{section => Section, key => N, rounds => R,
       workload => (flood(N, Options#{total := Requests}))#{operation := operation(Section)}}
     || N <- Writers];
section(idle, #{idle_rounds := R}) ->
    [#{section => idle, key => 1, rounds => R, workload => #{calls => ?IDLE_CALLS, deadline_ms => ?DEADLINE_MS}}];
section(saturated_call, Options) ->
    [timed(saturated_call, {?BUSY, ?BUSY}, Options)].

flood(N, #{total := Total}) ->
    #{operation => send, writers => N, count => max(1, Total div N), pace => flood, payload => atoms, busy => {0, 0},
      deadline_ms => ?DEADLINE_MS}.

timed(Section, Busy, #{rounds := R, window_ms := WindowMs} = Options) ->
    #{section => Section, key => 100, rounds => min(3, R),
      workload => (flood(100, Options#{total := 80000}))#{operation := operation(Section), busy := Busy,
                                                          pace := {timed, 1000, WindowMs}}}.

section(Name) ->
    case [Section || Section <- ?SECTIONS, atom_to_list(Section) =:= Name] of
        [Section] -> Section;
        [] -> throw("no such section: " ++ Name)
    end.

path("hawser_bench_" ++ _ = Module) -> list_to_atom(Module);
path(Name) ->
    case lists:member(Name, ["plain", "erpc", "pool", "hawser", "hawser_erpc", "prototype"]) of
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
