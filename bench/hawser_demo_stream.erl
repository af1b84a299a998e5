%% Act one on its nodes: senders that stream the records, and receivers that verify each of them. Called by
%% hawser_demo_pass; receivers/1 by the sending node. A receiver checks three things: the number of a record is the next
%% one, its checksum is right, and none is missing at the end.
-module(hawser_demo_stream).
-behaviour(hawser_demo_pass).

-export([noun/0, judged_at/0, load/2, arm/3, go/0, stop/0, seen/0, outcome/1, receivers/1]).
-export_type([tally/0]).

%% `verified`: right checksum and in its place. `finished`: system time in microseconds of the last receiver's end.
-type tally() :: #{verified := non_neg_integer(), bytes := non_neg_integer(), wrong_checksum := non_neg_integer(),
                   wrong_place := non_neg_integer(), sent := non_neg_integer(), finished := integer()}.

-define(STRIDE, 32).
-define(CORPUS, {?MODULE, corpus}).
-define(COUNTER, {?MODULE, counter}).
-define(NO_TALLY, #{verified => 0, bytes => 0, wrong_checksum => 0, wrong_place => 0, sent => 0, finished => 0}).

-spec noun() -> string().
noun() -> "records".

-spec judged_at() -> receiver.
judged_at() -> receiver.

%% The corpus is kept once for all senders. Receivers need none: every record carries its checksum.
-spec load(sender | receiver, file:filename()) -> hawser_demo_pass:corpus().
load(receiver, _File) ->
    {0, 0, 0.0};
load(sender, File) ->
    Items = hawser_demo_records:read(File),
    ok = persistent_term:put(?CORPUS, list_to_tuple(Items)),
    {length(Items), lists:sum([Bytes || {_, Bytes, _} <- Items]), checksum_us(Items)}.

checksum_us([]) ->
    0.0;
checksum_us(Items) ->
    Check = fun() -> [hawser_demo_records:checksum(Record) || {_, _, Record} <- Items] end,
    _ = Check(),
    {Micros, _} = timer:tc(Check),
    Micros / length(Items).

%% Pairs senders with as many receivers on Peer; nothing is sent yet.
-spec arm(module(), node(), pos_integer()) -> ok.
arm(Path, Peer, Pairs) ->
    Receivers = erpc:call(Peer, ?MODULE, receivers, [Pairs]),
    Ended = atomics:new(1, []),
    Size = tuple_size(persistent_term:get(?CORPUS)),
    Senders = [spawn(fun() -> sender(Path, Dest, Ended, (I * 7919) rem Size) end)
               || {I, Dest} <- lists:enumerate(Receivers)],
    persistent_term:put(?MODULE, {Senders, Ended}).

%% System time in microseconds of the start.
-spec go() -> integer().
go() ->
    {Senders, _} = persistent_term:get(?MODULE),
    Start = os:system_time(microsecond),
    [Sender ! go || Sender <- Senders],
    Start.

%% Each sender sends the record it is at, then how many there were.
-spec stop() -> ok.
stop() ->
    {_, Ended} = persistent_term:get(?MODULE),
    atomics:put(Ended, 1, 1).

%% Records verified up to now, to some thousands.
-spec seen() -> non_neg_integer().
seen() ->
    counters:get(persistent_term:get(?COUNTER), 1).

%% The receivers' sums, when each has reported; what there is when they have not in time.
-spec outcome(timeout()) -> {ok, tally()} | {error, {Missing :: pos_integer(), tally()}}.
outcome(TimeoutMs) ->
    Judge = persistent_term:get(?MODULE),
    Ref = make_ref(),
    Judge ! {outcome, self(), Ref, TimeoutMs},
    receive
        {Ref, Outcome} -> Outcome
    end.

-spec receivers(pos_integer()) -> [pid()].
receivers(Pairs) ->
    Counter = counters:new(1, [write_concurrency]),
    ok = persistent_term:put(?COUNTER, Counter),
    Judge = spawn(fun() -> judge(Pairs) end),
    ok = persistent_term:put(?MODULE, Judge),
    %% As a process does that many talk to: what waits is not copied with its heap.
    [spawn_opt(fun() -> receiver(Judge, Counter, 1, ?NO_TALLY) end, [{message_queue_data, off_heap}])
     || _ <- lists:seq(1, Pairs)].

sender(Path, Dest, Ended, Index) ->
    receive
        go -> stream(Path, Dest, Ended, persistent_term:get(?CORPUS), Index, 1, 0)
    end.

stream(Path, Dest, Ended, Corpus, Index, Number, Bytes) ->
    {Checksum, TextBytes, Record} = element(Index + 1, Corpus),
    Path:send(Dest, {record, Number, Checksum, Record}),
    case atomics:get(Ended, 1) of
        0 -> stream(Path, Dest, Ended, Corpus, (Index + 1) rem tuple_size(Corpus), Number + 1, Bytes + TextBytes);
        1 -> Path:send(Dest, {last, Number, Bytes + TextBytes})
    end.

receiver(Judge, Counter, Next, Tally) ->
    receive
        {record, Number, Checksum, Record} ->
            Right = hawser_demo_records:checksum(Record) =:= Checksum,
            receiver(Judge, Counter, Number + 1, tell(Counter, verdict(Right, Number =:= Next, Tally)));
        {last, Sent, Bytes} ->
            Judge ! {tally, Tally#{sent := Sent, bytes := Bytes, finished := os:system_time(microsecond)}}
    end.

verdict(true, true, #{verified := N} = Tally) -> Tally#{verified := N + 1};
verdict(false, _, #{wrong_checksum := N} = Tally) -> Tally#{wrong_checksum := N + 1};
verdict(true, false, #{wrong_place := N} = Tally) -> Tally#{wrong_place := N + 1}.

tell(Counter, #{verified := N} = Tally) when N rem ?STRIDE =:= 0 ->
    counters:add(Counter, 1, ?STRIDE),
    Tally;
tell(_Counter, Tally) ->
    Tally.

judge(Pairs) ->
    receive
        {outcome, From, Ref, TimeoutMs} ->
            Deadline = erlang:monotonic_time(millisecond) + TimeoutMs,
            From ! {Ref, gather(Pairs, Deadline, ?NO_TALLY)}
    end.

gather(0, _Deadline, Sum) ->
    {ok, Sum};
gather(Left, Deadline, Sum) ->
    receive
        {tally, Tally} ->
            gather(Left - 1, Deadline, maps:map(fun(Key, Value) -> join(Key, Value, maps:get(Key, Tally)) end, Sum))
    after max(0, Deadline - erlang:monotonic_time(millisecond)) ->
        {error, {Left, Sum}}
    end.

join(finished, A, B) -> max(A, B);
join(_Sum, A, B) -> A + B.
