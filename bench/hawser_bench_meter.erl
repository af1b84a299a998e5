%% What the operating system says about a pair of nodes: processor time (utime + stime of /proc/PID/stat) and resident
%% memory, present and peak. The kernel keeps the peak, so nothing is sampled while a workload runs. Called by
%% hawser_bench_trial and the demo from the controlling VM. Linux only.
-module(hawser_bench_meter).

-export([usable/0, reset_peak/1, read/1, growth/2, cpu_us/2]).
-export_type([reading/0]).

-type sides() :: #{sender := integer(), receiver := integer()}.
-type reading() :: #{sender := one(), receiver := one()}.
-type one() :: #{cpu_us := non_neg_integer(), rss := non_neg_integer(), peak := non_neg_integer()}.

%% Linux counts processor time for /proc in hundredths of a second, whatever the kernel's own tick is.
-define(TICK_US, 10000).

-spec usable() -> boolean().
usable() ->
    filelib:is_regular("/proc/self/stat").

%% From here on the peak is the peak since now.
-spec reset_peak(hawser_bench_nodes:pair()) -> ok.
reset_peak(#{sender := #{os_pid := S}, receiver := #{os_pid := R}}) ->
    [ok = file:write_file(proc(P, "clear_refs"), "5") || P <- [S, R]],
    ok.

-spec read(hawser_bench_nodes:pair()) -> reading().
read(#{sender := #{os_pid := S}, receiver := #{os_pid := R}}) ->
    #{sender => one(S), receiver => one(R)}.

%% Bytes by which each node's peak in Later is above its resident memory in Earlier.
-spec growth(reading(), reading()) -> sides().
growth(Earlier, Later) ->
    each(fun(#{rss := Base}, #{peak := Peak}) -> max(0, Peak - Base) end, Earlier, Later).

%% Processor time of each node between two readings, in microseconds.
-spec cpu_us(reading(), reading()) -> sides().
cpu_us(Earlier, Later) ->
    each(fun(#{cpu_us := Before}, #{cpu_us := After}) -> After - Before end, Earlier, Later).

each(Fun, Earlier, Later) ->
    maps:from_list([{Side, Fun(maps:get(Side, Earlier), maps:get(Side, Later))} || Side <- [sender, receiver]]).

one(OsPid) ->
    {ok, Status} = file:read_file(proc(OsPid, "status")),
    #{cpu_us => cpu(OsPid), rss => kilobytes(<<"VmRSS">>, Status), peak => kilobytes(<<"VmHWM">>, Status)}.

%% The name in brackets may hold anything, so fields are counted from its end: utime and stime are the 12th and 13th.
cpu(OsPid) ->
    {ok, Stat} = file:read_file(proc(OsPid, "stat")),
    [_ | _] = Parts = binary:split(Stat, <<") ">>, [global]),
    Fields = binary:split(lists:last(Parts), <<" ">>, [global]),
    ?TICK_US * (binary_to_integer(lists:nth(12, Fields)) + binary_to_integer(lists:nth(13, Fields))).

kilobytes(Key, Status) ->
    {match, [Number]} = re:run(Status, [Key, ":\\s+(\\d+) kB"], [{capture, all_but_first, list}]),
    1024 * list_to_integer(Number).

proc(OsPid, File) ->
    filename:join(["/proc", OsPid, File]).
