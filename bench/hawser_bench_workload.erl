%% What is sent: the types of a workload, its messages, and what a path is asked to do with one. Used by the writers
%% (hawser_bench_source), the receivers (hawser_bench_sink) and the codec figures. Starts no process.
-module(hawser_bench_workload).

-export([payload/1, emit/4, now_us/1, warmup/1, stamped/1, percentile/2]).
-export_type([spec/0, payload/0, pace/0]).

-type payload() :: atoms | {binary, Bytes :: pos_integer()}.

%% flood: as fast as the path takes it. {paced, Rate}: Rate messages per second of all writers together, each message
%% with the time of its sending. {timed, SettleMs, WindowMs}: flood without end, counted inside the window only.
-type pace() ::
    flood | {paced, Rate :: pos_integer()} | {timed, SettleMs :: non_neg_integer(), WindowMs :: pos_integer()}.

%% `operation`: whether writers send their messages, cast that they be sent over there, or call for it and wait for
%% each answer. `count` is per writer, and ignored when timed. `busy`: processes that compute without end, on the
%% sending and on the receiving node. `epoch` is a system time in microseconds near to now, so that a stamp is a small
%% integer.
-type spec() :: #{path := module(), peer := node(), operation := hawser_bench_path:operation(),
                  writers := pos_integer(), count := pos_integer(), pace := pace(), payload := payload(),
                  busy := {non_neg_integer(), non_neg_integer()}, epoch := integer(), deadline_ms := pos_integer()}.

%% Three maps of ten fields, keys and values atoms: some 530 bytes of external term format.
-spec payload(payload()) -> term().
payload(atoms) ->
    #{one => fields("a"), two => fields("b"), three => fields("c")};
payload({binary, Bytes}) ->
    binary:copy(<<16#a5>>, Bytes).

%% Brings Message to Dest. A call answers what its body returned, and must.
-spec emit(hawser_bench_path:operation(), module(), pid(), Message :: {term(), term()}) -> term().
emit(send, Path, Dest, Message) ->
    Path:send(Dest, Message);
emit(cast, Path, Dest, Message) ->
    Path:cast(node(Dest), erlang, send, [Dest, Message]);
emit(call, Path, Dest, {Stamp, _} = Message) ->
    {Stamp, _} = Path:call(node(Dest), erlang, send, [Dest, Message]).

%% Both nodes run on one machine, so system time is one clock for both.
-spec now_us(Epoch :: integer()) -> integer().
now_us(Epoch) ->
    os:system_time(microsecond) - Epoch.

%% The same workload, an eighth of it, as a flood, with nothing beside it.
-spec warmup(spec()) -> spec().
warmup(#{count := Count} = Spec) ->
    Spec#{pace := flood, count := max(1, Count div 8), busy := {0, 0}}.

-spec stamped(pace()) -> boolean().
stamped({paced, _Rate}) -> true;
stamped(_Pace) -> false.

%% Of a sorted list; 0 of an empty one.
-spec percentile([number()], 1..100) -> number().
percentile([], _Percent) -> 0;
percentile(Sorted, Percent) -> lists:nth(max(1, ceil(length(Sorted) * Percent / 100)), Sorted).

fields(Letter) ->
    maps:from_list([{atom("field_", Letter, I), atom("v", "", I)} || I <- lists:seq(1, 10)]).

atom(Prefix, Letter, I) ->
    list_to_atom(Prefix ++ Letter ++ integer_to_list(I)).
