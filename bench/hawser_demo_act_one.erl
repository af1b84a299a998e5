%% Act one: processes on one node stream records to as many on the other, first over `!`, then over hawser. Called by
%% hawser_demo. What runs on the nodes is in hawser_demo_stream.
-module(hawser_demo_act_one).

-export([run/1]).

-import(hawser_demo_screen, [say/2, row/2, fixed/2]).

-define(PATHS, [hawser_bench_plain, hawser_bench_hawser]).

%% What went wrong, a line each.
-spec run(hawser_demo:options()) -> [iolist()].
run(#{pairs := Pairs, seconds := Seconds} = Options) ->
    say("Act one. Two nodes on this machine (OTP ~s, ~w cores): ~w processes on one stream package records to ~w on",
        [erlang:system_info(otp_release), hawser_bench_nodes:cores(), Pairs, Pairs]),
    say("the other, ~w s over each path, over and over again; each receiver verifies number and checksum of every "
        "record.", [Seconds]),
    Passes = [{Path, hawser_demo_pass:run(hawser_demo_stream, Path, Seconds, Options)} || Path <- ?PATHS],
    table([{Path, Figures} || {Path, {ok, Figures}} <- Passes]),
    [["act one, ", Path:title(), ": ", Why] || {Path, Result} <- Passes, Why <- complaints(Result)].

table(Good) ->
    say("", []),
    row("", [Path:title() || {Path, _} <- Good]),
    [row(Name, [Value(Figures) || {_, Figures} <- Good]) || {Name, Value} <- rows()],
    [say("~nThe data: ~w records, ~w bytes of text. Verification is part of the receiver's CPU on either path: about "
         "~.1f us per record.", [Records, Bytes, Us])
     || {_, #{corpus := {Records, Bytes, Us}}} <- lists:sublist(Good, 1)],
    say("CPU: utime + stime of both VMs, with making and checking the records. Memory: peak resident size.", []),
    say("What arrives faster than it is checked waits in the receivers' mailboxes: neither path brakes for a slow process.", []).

rows() ->
    [{"records verified", fun(#{verified := N}) -> integer_to_list(N) end},
     {"seconds", fun(#{seconds := S}) -> fixed(S, 1) end},
     {"records/s", fun(#{verified := N, seconds := S}) -> fixed(N / S, 0) end},
     {"MB/s of record text", fun(#{bytes := B, seconds := S}) -> fixed(B / S / 1.0e6, 1) end},
     {"CPU seconds, sending node", fun(#{cpu := #{sender := Us}}) -> fixed(Us / 1.0e6, 1) end},
     {"CPU seconds, receiving node", fun(#{cpu := #{receiver := Us}}) -> fixed(Us / 1.0e6, 1) end},
     {"CPU us per record, both nodes",
      fun(#{verified := N, cpu := #{sender := S, receiver := R}}) -> fixed((S + R) / max(1, N), 2) end},
     {"peak memory, sending node, MiB", fun(#{peak_sender := B}) -> fixed(B / 1048576, 0) end},
     {"peak memory, receiving node, MiB", fun(#{peak_receiver := B}) -> fixed(B / 1048576, 0) end},
     {"records with a wrong checksum", fun(#{wrong_checksum := N}) -> integer_to_list(N) end},
     {"records out of place", fun(#{wrong_place := N}) -> integer_to_list(N) end},
     {"records missing", fun(Figures) -> missing(Figures) end}].

missing(#{unreported := 0, sent := Sent, verified := V, wrong_checksum := C, wrong_place := P}) ->
    integer_to_list(Sent - V - C - P);
missing(#{unreported := Receivers}) ->
    io_lib:format("~w receivers got no end", [Receivers]).

complaints({error, Text}) -> [Text];
complaints({ok, #{unreported := 0, intact := true, sent := N, verified := N}}) when N > 0 -> [];
complaints({ok, #{intact := false}}) -> ["the path was lost while it was used"];
complaints({ok, _Figures}) -> ["not every record was verified (the table says how many)"].
