%% One pass of an act over one path: fresh nodes, the path opened between them, the act's processes let go and stopped
%% again, a line that says how far it is, and what the pass took. Called by the acts that compare paths; what runs on
%% the nodes is a module of this behaviour. Judges nothing.
-module(hawser_demo_pass).

-export([run/4, node_options/0, open/4]).
-export_type([figures/0, corpus/0]).

-type corpus() :: {Records :: non_neg_integer(), TextBytes :: non_neg_integer(), ChecksumUs :: float()}.
%% The act's own tally, and: `unreported` processes that said nothing in time, whether the path was `intact` at the end,
%% microseconds of `cpu` of each node, their peaks of resident memory in bytes.
-type figures() :: #{unreported := non_neg_integer(), intact := boolean(), corpus := corpus(), seconds := float(),
                     cpu := #{sender := integer(), receiver := integer()}, peak_sender := integer(),
                     peak_receiver := integer(), verified := non_neg_integer(), atom() => term()}.

%% What the line says is verified.
-callback noun() -> string().

%% The node on which seen/0 and outcome/1 are called.
-callback judged_at() -> sender | receiver.

%% Called on both nodes, on the sending one last, whose answer counts.
-callback load(sender | receiver, file:filename()) -> corpus().

%% On the sending node: everything is started and waits. Then go/0, which answers the system time in microseconds, and
%% at the end stop/0.
-callback arm(Path :: module(), Peer :: node(), Processes :: pos_integer()) -> ok.
-callback go() -> integer().
-callback stop() -> ok.

%% Verified up to now, or nearly so.
-callback seen() -> non_neg_integer().

%% Sums over all processes when each has reported; what there is when they have not in time. `finished` is the system
%% time in microseconds of the last one's end.
-callback outcome(TimeoutMs :: pos_integer()) -> {ok, Tally} | {error, {Unreported :: pos_integer(), Tally}} when
    Tally :: #{finished := integer(), verified := non_neg_integer(), atom() => term()}.

-define(CONTROL_MS, 60000).
-define(DRAIN_MS, 30000).

-spec run(module(), module(), Seconds :: pos_integer(), hawser_demo:options()) -> {ok, figures()} | {error, iolist()}.
run(Act, Path, Seconds, Options) ->
    Pair = hawser_bench_nodes:start(node_options()),
    try
        measure(Act, Path, Pair, Seconds, Options)
    catch
        throw:Text -> {error, Text};
        Class:Reason -> {error, io_lib:format("~0p", [{Class, Reason}])}
    after
        hawser_bench_nodes:stop(Pair)
    end.

%% How the demo's nodes are started.
-spec node_options() -> hawser_bench_nodes:options().
node_options() ->
    Paths = [filename:absname(Path) || Path <- string:lexemes(os:getenv("HAWSER_BENCH_PATHS", ""), ":")],
    #{schedulers => hawser_bench_nodes:cores(), erl => [], paths => Paths, os_env => []}.

%% Throws a text when the path cannot be had there.
-spec open(module(), sender | receiver, hawser_bench_nodes:side(), node()) -> ok.
open(Path, Role, Side, Peer) ->
    case call(Side, hawser_bench_path, available, [Path]) of
        ok -> ok = call(Side, Path, open, [Role, Peer, #{pool => 1, env => []}]);
        {error, Why} -> throw(Why)
    end.

measure(Act, Path, #{sender := #{node := From} = Sender, receiver := #{node := To} = Receiver} = Pair, Seconds,
        #{pairs := Processes, file := File}) ->
    ok = open(Path, receiver, Receiver, From),
    ok = open(Path, sender, Sender, To),
    _ = call(Receiver, Act, load, [receiver, File]),
    Corpus = call(Sender, Act, load, [sender, File]),
    element(1, Corpus) > 0 orelse throw([File, " holds no records"]),
    ok = call(Sender, Act, arm, [Path, To, Processes]),
    ok = hawser_bench_meter:reset_peak(Pair),
    Before = hawser_bench_meter:read(Pair),
    Start = call(Sender, Act, go, []),
    watch(Act, Path, Pair, Before, Start, Start + Seconds * 1000000, 0),
    ok = call(Sender, Act, stop, []),
    Judging = maps:get(Act:judged_at(), Pair),
    Outcome = hawser_bench_nodes:call(Judging, Act, outcome, [?DRAIN_MS], ?CONTROL_MS + ?DRAIN_MS),
    After = hawser_bench_meter:read(Pair),
    hawser_demo_screen:progress_end(),
    Intact = call(Sender, Path, intact, [To]),
    figures(Outcome, Intact, Corpus, Start, hawser_bench_meter:cpu_us(Before, After), After).

figures(Outcome, Intact, Corpus, Start, Cpu, #{sender := #{peak := PeakS}, receiver := #{peak := PeakR}}) ->
    {Unreported, #{finished := End} = Tally} = tally(Outcome),
    {ok, Tally#{unreported => Unreported, intact => Intact, corpus => Corpus, seconds => max(1, End - Start) / 1.0e6,
                cpu => Cpu, peak_sender => PeakS, peak_receiver => PeakR}}.

tally({ok, Tally}) -> {0, Tally};
tally({error, {Unreported, Tally}}) -> {Unreported, Tally}.

%% A look every half second at what was verified and at what the nodes use.
watch(Act, Path, Pair, Before, Start, End, Line) ->
    case os:system_time(microsecond) of
        Now when Now >= End ->
            ok;
        Now ->
            Seen = call(maps:get(Act:judged_at(), Pair), Act, seen, []),
            progress(Line, Act, Path, Seen, max(1, Now - Start) / 1.0e6, Before, hawser_bench_meter:read(Pair)),
            receive
            after 500 -> watch(Act, Path, Pair, Before, Start, End, Line + 1)
            end
    end.

progress(Line, Act, Path, Seen, Seconds, Before, Now) ->
    #{sender := CpuS, receiver := CpuR} = hawser_bench_meter:cpu_us(Before, Now),
    #{sender := #{rss := RssS}, receiver := #{rss := RssR}} = Now,
    Text = io_lib:format("~-6s ~5.1f s ~10w ~s verified ~8w /s   CPU ~5.1f s   memory ~w + ~w MiB",
                         [Path:title(), Seconds, Seen, Act:noun(), round(Seen / Seconds), (CpuS + CpuR) / 1.0e6,
                          RssS bsr 20, RssR bsr 20]),
    hawser_demo_screen:progress(Line, Text).

call(Side, M, F, A) ->
    hawser_bench_nodes:call(Side, M, F, A, ?CONTROL_MS).
