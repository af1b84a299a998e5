%% The demo's entry: streams the control records of all installed packages from one node to another, first over `!`,
%% then over hawser, and puts both side by side. Called by bench/demo.sh. Ends with 1 unless every record of both
%% passes was verified. What runs on the nodes is in hawser_demo_stream.
-module(hawser_demo).

-export([main/0]).

-define(STATUS_FILE, "/var/lib/dpkg/status").
-define(PATHS, [hawser_bench_plain, hawser_bench_hawser]).
-define(CONTROL_MS, 60000).
-define(DRAIN_MS, 30000).

-type options() :: #{seconds := pos_integer(), pairs := pos_integer(), file := file:filename()}.

-spec main() -> no_return().
main() ->
    case options(init:get_plain_arguments(), #{seconds => 15, pairs => 1000, file => ?STATUS_FILE}) of
        {ok, Options} -> halt(run(Options));
        {error, Text} -> say("~s", [Text]), halt(2)
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
            {error, [File, " is not there. The demo's data is the package list of a Debian or Ubuntu machine; elsewhere name a "
                     "file of the same form (for example a Packages file of a Debian mirror): bench/demo.sh --file FILE"]};
        {_, false} ->
            {error, "The demo reads /proc and runs on Linux only."}
    end;
options(_, _Options) ->
    {error, "bench/demo.sh [--seconds N] [--pairs N] [--file FILE]   (15, 1000, " ?STATUS_FILE ")"}.

run(#{pairs := Pairs, seconds := Seconds} = Options) ->
    say("Two nodes on this machine (OTP ~s, ~w cores): ~w processes on one stream package records to ~w on the other,",
        [erlang:system_info(otp_release), hawser_bench_nodes:cores(), Pairs, Pairs]),
    say("~w s over each path, over and over again; each receiver verifies number and checksum of every record.", [Seconds]),
    Passes = [{Path, pass(Path, Options)} || Path <- ?PATHS],
    table(Passes),
    verdict(Passes).

pass(Path, Options) ->
    Pair = hawser_bench_nodes:start(#{schedulers => hawser_bench_nodes:cores(), erl => [], paths => code_paths(), os_env => []}),
    try
        stream(Path, Pair, Options)
    catch
        throw:Text -> {error, Text};
        Class:Reason -> {error, io_lib:format("~0p", [{Class, Reason}])}
    after
        hawser_bench_nodes:stop(Pair)
    end.

stream(Path, #{sender := #{node := From} = Sender, receiver := #{node := To} = Receiver} = Pair,
       #{seconds := Seconds, pairs := Pairs, file := File}) ->
    Settings = #{pool => 1, env => []},
    [case hawser_bench_nodes:call(Side, hawser_bench_path, available, [Path], ?CONTROL_MS) of
         ok -> ok = hawser_bench_nodes:call(Side, Path, open, [Role, Peer, Settings], ?CONTROL_MS);
         {error, Why} -> throw(Why)
     end || {Role, Side, Peer} <- [{receiver, Receiver, From}, {sender, Sender, To}]],
    Corpus = hawser_bench_nodes:call(Sender, hawser_demo_stream, load, [File], ?CONTROL_MS),
    element(1, Corpus) > 0 orelse throw([File, " holds no records"]),
    ok = hawser_bench_nodes:call(Sender, hawser_demo_stream, arm, [Path, To, Pairs], ?CONTROL_MS),
    ok = hawser_bench_meter:reset_peak(Pair),
    Before = hawser_bench_meter:read(Pair),
    Start = hawser_bench_nodes:call(Sender, hawser_demo_stream, go, [], ?CONTROL_MS),
    watch(Path, Pair, Before, Start, Start + Seconds * 1000000, 0),
    ok = hawser_bench_nodes:call(Sender, hawser_demo_stream, stop, [], ?CONTROL_MS),
    Outcome = hawser_bench_nodes:call(Receiver, hawser_demo_stream, outcome, [?DRAIN_MS], ?CONTROL_MS + ?DRAIN_MS),
    After = hawser_bench_meter:read(Pair),
    progress_end(),
    Intact = hawser_bench_nodes:call(Sender, Path, intact, [To], ?CONTROL_MS),
    figures(Outcome, Intact, Corpus, Start, hawser_bench_meter:cpu_us(Before, After), After).

figures(Outcome, Intact, Corpus, Start, Cpu, #{sender := #{peak := PeakS}, receiver := #{peak := PeakR}}) ->
    {Unreported, #{finished := End} = Tally} = tally(Outcome),
    {ok, Tally#{unreported => Unreported, intact => Intact, corpus => Corpus, seconds => max(1, End - Start) / 1.0e6,
                cpu => Cpu, peak_sender => PeakS, peak_receiver => PeakR}}.

tally({ok, Tally}) -> {0, Tally};
tally({error, {Unreported, Tally}}) -> {Unreported, Tally}.

%% A look every half second at what the receivers have verified and at what the nodes use.
watch(Path, #{receiver := Receiver} = Pair, Before, Start, End, Line) ->
    case os:system_time(microsecond) of
        Now when Now >= End ->
            ok;
        Now ->
            Seen = hawser_bench_nodes:call(Receiver, hawser_demo_stream, seen, [], ?CONTROL_MS),
            progress(Line, Path, Seen, max(1, Now - Start) / 1.0e6, Before, hawser_bench_meter:read(Pair)),
            receive
            after 500 -> watch(Path, Pair, Before, Start, End, Line + 1)
            end
    end.

%% On a terminal one line that is written over; elsewhere a line every two seconds.
progress(Line, Path, Seen, Seconds, Before, Now) ->
    #{sender := CpuS, receiver := CpuR} = hawser_bench_meter:cpu_us(Before, Now),
    #{sender := #{rss := RssS}, receiver := #{rss := RssR}} = Now,
    Text = io_lib:format("~-6s ~5.1f s ~10w records verified ~8w /s   CPU ~5.1f s   memory ~w + ~w MiB",
                         [Path:title(), Seconds, Seen, round(Seen / Seconds), (CpuS + CpuR) / 1.0e6, RssS bsr 20, RssR bsr 20]),
    case {tty(), Line rem 4} of
        {true, _} -> io:put_chars(["\r\e[K", Text]);
        {false, 0} when Line > 0 -> io:put_chars([Text, $\n]);
        {false, _} -> ok
    end.

progress_end() ->
    tty() andalso io:put_chars("\r\e[K").

tty() ->
    os:getenv("HAWSER_BENCH_TTY") =:= "1".

table(Passes) ->
    Good = [{Path, Figures} || {Path, {ok, Figures}} <- Passes],
    say("", []),
    row("", [Path:title() || {Path, _} <- Good]),
    [row(Name, [Value(Figures) || {_, Figures} <- Good]) || {Name, Value} <- rows()],
    [say("~nThe data: ~w records, ~w bytes of text. Verification is part of the receiver's CPU on either path: about ~.1f us per record.",
         [Records, Bytes, Us]) || {_, #{corpus := {Records, Bytes, Us}}} <- lists:sublist(Good, 1)],
    say("CPU: utime + stime of both VMs, with making and checking the records. Memory: peak resident size.", []).

rows() ->
    [{"records verified", fun(#{verified := N}) -> integer_to_list(N) end},
     {"seconds", fun(#{seconds := S}) -> fixed(S, 1) end},
     {"records/s", fun(#{verified := N, seconds := S}) -> fixed(N / S, 0) end},
     {"MB/s of record text", fun(#{bytes := B, seconds := S}) -> fixed(B / S / 1.0e6, 1) end},
     {"CPU seconds, sending node", fun(#{cpu := #{sender := Us}}) -> fixed(Us / 1.0e6, 1) end},
     {"CPU seconds, receiving node", fun(#{cpu := #{receiver := Us}}) -> fixed(Us / 1.0e6, 1) end},
     {"CPU us per record, both nodes", fun(#{verified := N, cpu := #{sender := S, receiver := R}}) -> fixed((S + R) / max(1, N), 2) end},
     {"peak memory, sending node, MiB", fun(#{peak_sender := B}) -> fixed(B / 1048576, 0) end},
     {"peak memory, receiving node, MiB", fun(#{peak_receiver := B}) -> fixed(B / 1048576, 0) end},
     {"records with a wrong checksum", fun(#{wrong_checksum := N}) -> integer_to_list(N) end},
     {"records out of place", fun(#{wrong_place := N}) -> integer_to_list(N) end},
     {"records missing", fun(Figures) -> missing(Figures) end}].

missing(#{unreported := 0, sent := Sent, verified := V, wrong_checksum := C, wrong_place := P}) -> integer_to_list(Sent - V - C - P);
missing(#{unreported := Receivers}) -> io_lib:format("~w receivers got no end", [Receivers]).

verdict(Passes) ->
    Bad = [[Path:title(), ": ", Why] || {Path, Result} <- Passes, Why <- complaints(Result)],
    case Bad of
        [] ->
            say("~nEvery record of both passes arrived once, in its place, with the right checksum.", []),
            0;
        _ ->
            [say("~nFAILED ~s", [Text]) || Text <- Bad],
            1
    end.

complaints({error, Text}) ->
    [Text];
complaints({ok, #{unreported := 0, intact := true, sent := N, verified := N}}) when N > 0 ->
    [];
complaints({ok, #{intact := false}}) ->
    ["the path was lost while it was used"];
complaints({ok, _Figures}) ->
    ["not every record was verified (the table says how many)"].

row(Name, Values) ->
    say("  ~-34s~s", [Name, [string:pad(Value, 14, leading) || Value <- Values]]).

fixed(Value, Decimals) ->
    float_to_list(float(Value), [{decimals, Decimals}]).

say(Format, Args) ->
    io:format(Format ++ "~n", Args).

code_paths() ->
    [filename:absname(Path) || Path <- string:lexemes(os:getenv("HAWSER_BENCH_PATHS", ""), ":")].
