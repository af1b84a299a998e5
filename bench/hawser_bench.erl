%% The benchmark's entry: reads the options, runs the cases in interleaved rounds, prints the tables, writes the
%% files, judges on request. Called by bench/run.sh. Measures nothing itself.
-module(hawser_bench).

-export([main/0]).

-spec main() -> no_return().
main() ->
    case hawser_bench_plan:parse(init:get_plain_arguments()) of
        {ok, Options} ->
            case hawser_bench_meter:usable() of
                true -> halt(run(Options));
                false -> refuse("the benchmark reads /proc and runs on Linux only")
            end;
        help ->
            io:put_chars(hawser_bench_plan:usage()),
            halt(0);
        {error, Text} ->
            refuse(Text ++ " (bench/run.sh --help lists the options)")
    end.

-spec refuse(string()) -> no_return().
refuse(Text) ->
    io:put_chars(standard_error, [Text, $\n]),
    halt(2).

run(#{only := Only, out := Out, assert := Assert} = Options0) ->
    {Options, PoolText} = pool(paths(Options0)),
    Head = hawser_bench_report:head(Options, PoolText),
    io:put_chars(Head),
    {Tables, Entries} = lists:unzip([section(Section, Options) || Section <- Only]),
    All = lists:append(Entries),
    {Verdict, Pass} = verdict(Assert, Only, All),
    io:put_chars(Verdict),
    ok = filelib:ensure_dir(filename:join(Out, "x")),
    ok = file:write_file(filename:join(Out, "latest.csv"), hawser_bench_report:csv(All)),
    ok = file:write_file(filename:join(Out, "latest.txt"), [Head, Tables, Verdict]),
    io:format("~nEach measurement: ~s; these tables: ~s~n",
              [filename:join(Out, File) || File <- ["latest.csv", "latest.txt"]]),
    exit_code(Pass).

exit_code(true) -> 0;
exit_code(false) -> 1.

verdict(false, _Only, _Entries) ->
    {"", true};
verdict(true, Only, Entries) ->
    {Lines, Pass} = hawser_bench_verdict:judge(Only, Entries),
    {["\nFigures to reach\n", Lines], Pass}.

section(codec, Options) ->
    Text = hawser_bench_report:codec(hawser_bench_codec:run(maps:get(nodes, settings(codec, Options)))),
    io:put_chars(Text),
    {Text, []};
section(Section, Options) ->
    Paths = taking_part(Section, Options),
    Entries = lists:append([run_case(Case, Options) || Case <- hawser_bench_plan:cases(Options#{only := [Section]})]),
    Text = hawser_bench_report:table(Section, Paths, Entries),
    io:put_chars(Text),
    {Text, Entries}.

taking_part(Section, #{paths := Paths}) ->
    [Path || Path <- Paths, hawser_bench_path:offers(Path, hawser_bench_plan:operation(Section))].

%% Paths in turn inside a round, and each round begins with another path. The idle caller's paths share their nodes.
run_case(#{section := idle, key := Key, rounds := Rounds, workload := Workload}, Options) ->
    Entries = lists:append([idle(Key, Round, Workload, Options) || Round <- lists:seq(1, Rounds)]),
    progress(""),
    Entries;
run_case(#{section := Section, key := Key, rounds := Rounds, workload := Workload}, Options) ->
    Paths = taking_part(Section, Options),
    Entries = [#{section => Section, key => Key, path => Path, round => Round,
                 outcome => trial(Section, Key, Path, Round, Workload, Options)}
               || Round <- lists:seq(1, Rounds), Path <- rotate(Round - 1, Paths)],
    progress(""),
    Entries.

trial(Section, Key, Path, Round, Workload, Options) ->
    progress(io_lib:format("~s ~w, round ~w, ~s", [Section, Key, Round, Path:title()])),
    hawser_bench_trial:run(Path, Workload, settings(Section, Options)).

idle(Key, Round, Workload, Options) ->
    progress(io_lib:format("idle, round ~w", [Round])),
    Outcomes = hawser_bench_idle:run(taking_part(idle, Options), Workload, settings(idle, Options)),
    [#{section => idle, key => Key, path => Path, round => Round, outcome => Outcome} || {Path, Outcome} <- Outcomes].

rotate(_N, []) ->
    [];
rotate(N, List) ->
    {Front, Back} = lists:split(N rem length(List), List),
    Back ++ Front.

%% On standard error and only if somebody looks: the tables stay clean when they are redirected.
progress(Text) ->
    case os:getenv("HAWSER_BENCH_TTY") of
        "1" -> io:put_chars(standard_error, ["\r\e[K", Text]);
        _ -> ok
    end.

settings(Section, #{schedulers := S, erl := Erl, env := Env, pool := Pool, prototype := Prototype}) ->
    #{nodes => #{schedulers => S, erl => Erl, paths => code_paths(Prototype), os_env => os_env(Prototype)},
      path => #{pool => size(kind(Section), Pool), env => Env}}.

kind(Section) ->
    case hawser_bench_plan:operation(Section) of
        send -> message;
        _ -> request
    end.

size(_Kind, Size) when is_integer(Size) -> Size;
size(Kind, Sizes) -> maps:get(Kind, Sizes, 1).

code_paths(undefined) -> [filename:absname(Path) || Path <- string:lexemes(os:getenv("HAWSER_BENCH_PATHS", ""), ":")];
code_paths(Prototype) -> [Prototype | code_paths(undefined)].

os_env(undefined) -> [];
os_env(Prototype) -> [{"PROTO_DIR", Prototype}].

paths(#{prototype := undefined} = Options) -> Options;
paths(#{paths := Paths} = Options) -> Options#{paths := Paths ++ [hawser_bench_prototype]}.

%% The pool's size makes its figures: the best of a few is taken, by the product of the rates at 10, 100 and 10,000; one
%% size for messages and one for requests.
pool(#{pool := auto, paths := Paths, only := Only} = Options) ->
    Kinds = case lists:member(hawser_bench_pool, Paths) of
        true -> lists:usort([kind(Section) || Section <- Only, Section =/= codec]);
        false -> []
    end,
    {Sizes, Texts} = lists:unzip([best(Kind, Options) || Kind <- Kinds]),
    {Options#{pool := maps:from_list(Sizes)}, case Texts of [] -> "not run"; _ -> lists:join("; ", Texts) end};
pool(#{pool := Size} = Options) ->
    {Options, io_lib:format("~w proxies, as asked", [Size])}.

best(Kind, #{schedulers := S} = Options) ->
    Sizes = hawser_bench_pool:candidates(S),
    {_, Best} = lists:max([{score(Kind, Options#{pool := Size, paths := [hawser_bench_pool]}), Size} || Size <- Sizes]),
    {{Kind, Best}, io_lib:format("~w proxies for ~ws, the best of ~w", [Best, Kind, Sizes])}.

score(Kind, Options) ->
    Entries = lists:append([run_case(Case, Options) || Case <- hawser_bench_plan:tuning(Kind, Options)]),
    Rates = [Rate || #{outcome := {ok, #{rate := Rate}}} <- Entries],
    lists:foldl(fun(Rate, Product) -> Product * Rate end, 1.0, Rates).
