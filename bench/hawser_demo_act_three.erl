%% Act three: one node asks two others by hawser's group functions, and one of the two is stopped with SIGKILL half way.
%% Called by hawser_demo. What runs on the asking node is in hawser_demo_group.
-module(hawser_demo_act_three).

-export([run/1]).

-import(hawser_demo_screen, [say/2, row/3]).

-define(PATH, hawser_bench_hawser).
-define(CALLERS, 25).
-define(CONTROL_MS, 60000).
-define(DRAIN_MS, 20000).
-define(NO_TALLY, #{answers => 0, by_node => #{}, rejected => 0, wrong => 0, example => none}).

%% What went wrong, a line each.
-spec run(hawser_demo:options()) -> [iolist()].
run(#{seconds := Seconds, file := File}) ->
    Half = max(1, Seconds div 4),
    say("~nAct three. Three nodes: a asks b and c for the same packages, ~w callers of each group function; after ~w s",
        [?CALLERS, Half]),
    say("node c is stopped with SIGKILL, and they go on for as long. Each answer is held against its promise.", []),
    Sides = [A, B, C] = hawser_bench_nodes:start(["a", "b", "c"], hawser_demo_pass:node_options()),
    try
        judge(play(A, B, C, Half, File), B, C)
    catch
        throw:Text -> [["act three: ", Text]];
        Class:Reason -> [io_lib:format("act three: ~0p", [{Class, Reason}])]
    after
        lists:foreach(fun hawser_bench_nodes:kill/1, Sides)
    end.

play(#{node := Asking} = A, #{node := First} = B, #{node := Second} = C, Half, File) ->
    [ok = hawser_demo_pass:open(?PATH, receiver, Side, Asking) || Side <- [B, C]],
    [ok = hawser_demo_pass:open(?PATH, sender, A, Peer) || Peer <- [First, Second]],
    _ = [call(Side, hawser_demo_lookup, load, [Role, File])
     || {Side, Role} <- [{A, sender}, {B, receiver}, {C, receiver}]],
    tuple_size(call(A, hawser_demo_lookup, names, [])) > 0 orelse throw([File, " holds no packages"]),
    ok = call(A, hawser_demo_group, arm, [[First, Second], ?CALLERS]),
    ok = call(A, hawser_demo_group, go, []),
    Lines = watch(A, "b and c up", Half, 0),
    ok = call(A, hawser_demo_group, stopping, []),
    ok = hawser_bench_nodes:kill(C),
    ok = call(A, hawser_demo_group, stopped, []),
    _ = watch(A, "c stopped", Half, Lines),
    ok = call(A, hawser_demo_group, stop, []),
    Outcome = hawser_bench_nodes:call(A, hawser_demo_group, outcome, [?DRAIN_MS], ?DRAIN_MS + ?CONTROL_MS),
    hawser_demo_screen:progress_end(),
    Outcome.

call(Side, M, F, A) ->
    hawser_bench_nodes:call(Side, M, F, A, ?CONTROL_MS).

%% A look every half second; answers the number of the next line.
watch(A, State, Seconds, Line) ->
    watch(A, State, erlang:monotonic_time(millisecond), Seconds * 1000, Line).

watch(A, State, Start, Ms, Line) ->
    case erlang:monotonic_time(millisecond) - Start of
        Past when Past >= Ms ->
            Line;
        Past ->
            Seen = call(A, hawser_demo_group, seen, []),
            hawser_demo_screen:progress(Line, io_lib:format("~-10s ~5.1f s ~10w answers", [State, Past / 1000, Seen])),
            receive
            after min(500, Ms - Past) -> watch(A, State, Start, Ms, Line + 1)
            end
    end.

judge(Outcome, #{node := B}, #{node := C}) ->
    {Unreported, Tallies} = case Outcome of {ok, Sum} -> {0, Sum}; {error, Some} -> Some end,
    table(Tallies, B, C),
    [io_lib:format("act three: ~w callers without an answer", [Unreported]) || Unreported > 0]
        ++ lists:append([wrong(Function, Tallies) ++ silent(Function, Tallies) || Function <- functions()]).

functions() ->
    [call_one, call_any, call_all, call_all_wait].

table(Tallies, B, C) ->
    say("", []),
    cells("", [{"b and c up", 29}, {"c stopped", 39}, {"between", 9}, {"not as", 9}]),
    cells("", [{"answers", 11}, {"b's", 9}, {"c's", 9}, {"answers", 12}, {"b's", 9}, {"c's", 9}, {"rejects", 9},
               {"", 9}, {"promised", 9}]),
    lists:foreach(fun(Function) ->
        [Before, Between, Later] = [tally(Function, Phase, Tallies) || Phase <- [before, between, later]],
        cells(atom_to_list(Function),
              [{number(answers, Before), 11}, {of_node(B, Before), 9}, {of_node(C, Before), 9},
               {number(answers, Later), 12}, {of_node(B, Later), 9}, {of_node(C, Later), 9},
               {number(rejected, Later), 9}, {number(answers, Between), 9},
               {integer_to_list(lists:sum([W || #{wrong := W} <- [Before, Between, Later]])), 9}])
    end, functions()),
    say("b's and c's: answers that hold that node's record. Rejects: call_all_wait names c, the others leave it out.",
        []),
    say("Between: answers to calls that began or ended while c was being stopped.", []).

cells(Name, Cells) ->
    row(Name, 14, Cells).

tally(Function, Phase, Tallies) ->
    maps:get({Function, Phase}, Tallies, ?NO_TALLY).

of_node(Node, #{by_node := ByNode}) ->
    integer_to_list(maps:get(Node, ByNode, 0)).

number(Key, Tally) ->
    integer_to_list(maps:get(Key, Tally)).

wrong(Function, Tallies) ->
    [io_lib:format("act three: ~s: ~w answers not as promised (~w), such as ~ts", [Function, W, Phase, short(Answer)])
     || Phase <- [before, between, later],
        #{wrong := W, example := {wrong, Answer}} <- [tally(Function, Phase, Tallies)]].

short(Answer) ->
    string:slice(io_lib:format("~0tP", [Answer, 20]), 0, 200).

%% A function without any answer in one of the two halves has shown nothing.
silent(Function, Tallies) ->
    [io_lib:format("act three: ~s: no answer while ~s", [Function, State])
     || {Phase, State} <- [{before, "both nodes were up"}, {later, "one node was stopped"}],
        #{answers := 0} <- [tally(Function, Phase, Tallies)]].
