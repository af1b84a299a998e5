%% The demo's entry: three acts with the control records of this machine's installed packages. They are streamed from
%% one node to another, looked up on another node, and asked of several nodes of which one is stopped half way. Called
%% by bench/demo.sh. Ends with 1 unless every record and every answer was verified. The acts print their own tables.
-module(hawser_demo).

-export([main/0]).
-export_type([options/0]).

-define(STATUS_FILE, "/var/lib/dpkg/status").
-define(ACTS, [hawser_demo_act_one, hawser_demo_act_two, hawser_demo_act_three]).

%% `seconds` is the length of act one over each path; the others follow from it.
-type options() :: #{seconds := pos_integer(), pairs := pos_integer(), file := file:filename()}.

-spec main() -> no_return().
main() ->
    case options(init:get_plain_arguments(), #{seconds => 15, pairs => 1000, file => ?STATUS_FILE}) of
        {ok, Options} -> halt(run(Options));
        {error, Text} -> hawser_demo_screen:say("~s", [Text]), halt(2)
    end.

-spec options([string()], options()) -> {ok, options()} | {error, iolist()}.
options(["--seconds", N | Rest], Options) -> options(Rest, Options#{seconds := list_to_integer(N)});
options(["--pairs", N | Rest], Options) -> options(Rest, Options#{pairs := list_to_integer(N)});
options(["--file", File | Rest], Options) -> options(Rest, Options#{file := filename:absname(File)});
options([], #{file := File} = Options) ->
    case {filelib:is_regular(File), hawser_bench_meter:usable()} of
        {true, true} ->
            {ok, Options};
        {false, _} ->
            {error, [File, " is not there. The demo's data is the package list of a Debian or Ubuntu machine; "
                     "elsewhere name a file of the same form (for example a Packages file of a Debian mirror): "
                     "bench/demo.sh --file FILE"]};
        {_, false} ->
            {error, "The demo reads /proc and runs on Linux only."}
    end;
options(_, _Options) ->
    {error, "bench/demo.sh [--seconds N] [--pairs N] [--file FILE]   (15, 1000, " ?STATUS_FILE ")"}.

run(Options) ->
    case lists:append([Act:run(Options) || Act <- ?ACTS]) of
        [] ->
            hawser_demo_screen:say("~nAll three acts: everything arrived and was verified.", []),
            0;
        Complaints ->
            hawser_demo_screen:say("", []),
            [hawser_demo_screen:say("FAILED ~ts", [Text]) || Text <- Complaints],
            1
    end.
