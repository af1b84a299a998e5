%% Tables and files of a run: a section's table as text, and every measurement as a line of CSV. Called by hawser_bench.
%% Computes nothing but what hawser_bench_results says.
-module(hawser_bench_report).

-export([head/2, table/3, codec/1, csv/1]).

-define(FIGURES, [messages, seconds, rate, cpu, cpu_sender, cpu_receiver, grow_sender, grow_receiver, p50, p99,
                  queue_median, queue_max]).

%% What ran on what.
-spec head(hawser_bench_plan:options(), string()) -> iolist().
head(#{schedulers := S, rounds := R, erl := Erl, env := Env}, PoolText) ->
    [line("Two nodes on one machine of ~w cores, +S ~w each, OTP ~s; medians of interleaved rounds (--rounds ~w), "
          "each on fresh nodes.", [hawser_bench_nodes:cores(), S, erlang:system_info(otp_release), R]),
     [line("Further erl arguments: ~s", [lists:join($\s, Erl)]) || Erl =/= []],
     [line("hawser env: ~0p", [Env]) || Env =/= []],
     line("Pooled: ~s.", [PoolText]),
     line("CPU: utime + stime of both nodes' VMs. Memory: peak resident above what the node had before the warm-up.",
          [])].

-spec table(hawser_bench_plan:section(), [module()], hawser_bench_results:entries()) -> iolist().
table(Section, Paths, Entries) ->
    Columns = columns(Section),
    [$\n, title(Section), $\n,
     row([{Name, Width} || {Name, Width, _} <- Columns]),
     [[[row([{Value(Key, Path, Entries), Width} || {_, Width, Value} <- Columns])
        || Path <- Paths, hawser_bench_results:median(Section, Key, {Path, rate}, Entries) =/= undefined],
       [line("  ~s: ~s", [Path:title(), reason(Reason)])
        || {Path, Reason} <- hawser_bench_results:failures(Section, Key, Entries)]]
      || Key <- hawser_bench_results:keys(Section, Entries)]].

-spec codec([hawser_bench_codec:row()]) -> iolist().
codec(Rows) ->
    Widths = [36, 14, 14, 8, 14, 14, 8],
    Cells = fun(Texts) -> row(lists:zip(Texts, Widths)) end,
    ["\nCodec alone, ns per term and bytes "
     "(hawser: around N calls inside the NIF; the VM's: an Erlang loop around N calls)\n",
     Cells(["term", "hawser encode", "decode", "bytes", "VM encode", "decode", "bytes"]),
     [Cells([Term] ++ cost(Hawser) ++ cost(Vm)) || #{term := Term, hawser := Hawser, vm := Vm} <- Rows]].

-spec csv(hawser_bench_results:entries()) -> iolist().
csv(Entries) ->
    [lists:join($,, ["section,key,path,round" | [atom_to_list(F) || F <- ?FIGURES]]), ",error\n",
     [[io_lib:format("~s,~w,~s,~w", [S, K, Path, Round]), fields(Outcome), $\n]
      || #{section := S, key := K, path := Path, round := Round, outcome := Outcome} <- Entries]].

title(flood) -> "Flood: N writers, one receiver each, three maps of ten atom fields";
title(one) -> "One writer alone, flood";
title(saturated) ->
    "Saturated: 200 processes that compute without end on each node, 100 writers; delivered inside the window";
title(consumer) ->
    "Saturated consumers: 200 computing processes on the receiving node only, 100 writers; "
    "messages waiting at a consumer";
title(paced) -> "Paced: all writers together at a fixed rate; time from send to receipt in microseconds";
title(large) -> "Large binaries, 10 writers (informational)";
title(cast) ->
    "Casts: N callers; the body is erlang:send to the caller's counting process, three maps of ten atom fields";
title(call) ->
    "Calls: N callers, each waits for each answer; the body is the casts', so that the message travels both ways";
title(idle) ->
    "One caller on idle nodes: microseconds of a call; ratios are medians of each round's own";
title(saturated_call) ->
    "Saturated: 200 computing processes on each node, 100 callers; answered inside the window".

columns(Section) ->
    [{key_name(Section), 9, fun(Key, _, _) -> integer_to_list(Key) end},
     {"path", 11, fun(_, Path, _) -> Path:title() end}]
        ++ figures(Section).

figures(idle) ->
    lists:append([[figure(idle, Name ++ " us", 9, Figure, 1),
                   {against(idle, "x "), 8, fun(Key, Path, E) -> paired(idle, Key, Path, Figure, E) end}]
                  || {Name, Figure} <- [{"p50", p50}, {"p99", p99}]]);
figures(Section) ->
    rate(Section) ++ own(Section) ++ memory(Section).

key_name(large) -> "bytes";
key_name(Section) ->
    case hawser_bench_plan:operation(Section) of
        send -> "writers";
        _ -> "callers"
    end.

unit(Section) ->
    case hawser_bench_plan:operation(Section) of
        send -> "msg";
        Request -> atom_to_list(Request)
    end.

reference(Section) ->
    hawser_bench_path:reference(hawser_bench_plan:operation(Section)).

against(Section, Text) ->
    Text ++ (reference(Section)):title().

rate(large) ->
    [{"MB/s", 9, fun(Bytes, Path, E) -> number(Bytes / 1.0e6 * median(large, Bytes, Path, rate, E), 0) end},
     {against(large, "x "), 7, fun(Key, Path, E) -> ratio(large, Key, Path, rate, E) end}];
rate(S) ->
    [{unit(S) ++ "/s", 9, fun(Key, Path, E) -> number(median(S, Key, Path, rate, E), 0) end},
     {"(min-max)", 17, fun(Key, Path, E) -> range(hawser_bench_results:range(S, Key, {Path, rate}, E)) end},
     {against(S, "x "), 7, fun(Key, Path, E) -> ratio(S, Key, Path, rate, E) end},
     {"x pooled", 9, fun(Key, Path, E) -> ratio(S, Key, {Path, hawser_bench_pool}, rate, E) end}].

own(S) when S =:= saturated; S =:= consumer ->
    [figure(S, "queue p50", 10, queue_median, 0), figure(S, "max", 8, queue_max, 0)];
own(saturated_call) ->
    [];
own(paced) ->
    [figure(paced, "p50 us", 9, p50, 0), figure(paced, "p99 us", 9, p99, 0)] ++ cpu(paced);
own(S) ->
    cpu(S).

cpu(S) ->
    [figure(S, "CPU us/" ++ unit(S), 11, cpu, 2), figure(S, "sender", 9, cpu_sender, 2),
     figure(S, "receiver", 9, cpu_receiver, 2),
     {against(S, "CPU of "), 11, fun(Key, Path, E) -> ratio(S, Key, Path, cpu, E) end}].

memory(S) ->
    [{Name, 12, fun(Key, Path, E) -> number(median(S, Key, Path, Figure, E) / 1048576, 0) end}
     || {Name, Figure} <- [{"sender +MiB", grow_sender}, {"recv +MiB", grow_receiver}]].

figure(Section, Name, Width, Figure, Decimals) ->
    {Name, Width, fun(Key, Path, E) -> number(median(Section, Key, Path, Figure, E), Decimals) end}.

median(Section, Key, Path, Figure, Entries) ->
    hawser_bench_results:median(Section, Key, {Path, Figure}, Entries).

ratio(Section, Key, {_Path, _Other} = Paths, Figure, Entries) ->
    number(hawser_bench_results:ratio(Section, Key, Paths, Figure, Entries), 2);
ratio(Section, Key, Path, Figure, Entries) ->
    ratio(Section, Key, {Path, reference(Section)}, Figure, Entries).

paired(Section, Key, Path, Figure, Entries) ->
    {Value, _Rounds} = hawser_bench_results:paired(Section, Key, {Path, reference(Section)}, Figure, Entries),
    number(Value, 2).

range(undefined) -> "";
range({Min, Max}) -> [number(Min, 0), $-, number(Max, 0)].

cost(undefined) -> ["-", "-", "-"];
cost({Encode, Decode, Bytes}) -> [number(Encode, 0), number(Decode, 0), number(Bytes, 0)].

number(undefined, _Decimals) -> "-";
number(Value, Decimals) -> float_to_list(float(Value), [{decimals, Decimals}]).

fields({ok, Figures}) -> [[$,, csv_value(maps:get(Figure, Figures, ""))] || Figure <- ?FIGURES] ++ ",";
fields({error, Reason}) -> [[$, || _ <- ?FIGURES], $,, $", [C || C <- reason(Reason), C =/= $"], $"].

csv_value(Value) when is_float(Value) -> float_to_list(Value, [{decimals, 3}]);
csv_value(Value) when is_integer(Value) -> integer_to_list(Value);
csv_value(Text) -> Text.

reason({unavailable, Why}) -> "skipped: " ++ Why;
reason(Reason) -> "failed: " ++ lists:sublist(lists:flatten(io_lib:format("~0p", [Reason])), 400).

row(Cells) ->
    [[[string:pad(Text, Width, leading), $\s] || {Text, Width} <- Cells], $\n].

line(Format, Args) ->
    [io_lib:format(Format, Args), $\n].
