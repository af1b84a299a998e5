%% Reads the records of an established connection as they are drawn in native/hawser_core/src/wire.rs, independently of
%% the library: written from the drawing alone. Raises for what is not drawn there. Used by suites to look at bytes.
-module(hawser_wire).

-export([records/1, announcements/1]).

-export_type([wire_record/0, frame/0, announcement/0]).

-type announcement() :: {Id :: 0..65535, Name :: binary()}.
-type frame() :: #{
    to := {pid, Creation :: non_neg_integer(), Id :: non_neg_integer(), Serial :: non_neg_integer()}
        | {name, Id :: 0..65535 | binary()} | {alias, binary()}
        | cast | {call, Id :: non_neg_integer(), Deadline :: non_neg_integer() | none}
        | {answer, Id :: non_neg_integer()}
        | skipped,
    plain := boolean(),
    term := binary()
}.
-type wire_record() :: #{
    kind := batch | tick | close | skipped,
    ack := non_neg_integer(),
    number => pos_integer(), clock_ms => non_neg_integer(), announcements => [announcement()], frames => [frame()],
    reason => finished | non_neg_integer(), text => binary()
}.

-define(FINISHED, 1).

%% All of a stream's records.
-spec records(binary()) -> [wire_record()].
records(<<Length:32, Record:Length/binary, Rest/binary>>) ->
    <<Kind, 0, Ack:64, Body/binary>> = Record,
    [maps:put(ack, Ack, record(Kind, Body)) | records(Rest)];
records(<<>>) ->
    [].

record(1, <<Number:64, Clock:32, Count:16, Rest/binary>>) ->
    {Announcements, Frames} = announcements(Count, Rest, []),
    #{kind => batch, number => Number, clock_ms => Clock, announcements => Announcements, frames => frames(Frames)};
record(2, <<>>) ->
    #{kind => tick};
record(3, <<?FINISHED:16, Text/binary>>) ->
    #{kind => close, reason => finished, text => Text};
record(3, <<Reason:16, Text/binary>>) ->
    #{kind => close, reason => Reason, text => Text};
record(Kind, _) when Kind band 16#80 =/= 0 ->
    #{kind => skipped}.

%% Announcements one after the other, and nothing behind them.
-spec announcements(binary()) -> [announcement()].
announcements(<<Id:16, Length:16, Name:Length/binary, Rest/binary>>) ->
    [{Id, Name} | announcements(Rest)];
announcements(<<>>) ->
    [].

announcements(0, Rest, Announced) ->
    {lists:reverse(Announced), Rest};
announcements(Count, <<Id:16, Length:16, Name:Length/binary, Rest/binary>>, Announced) ->
    announcements(Count - 1, Rest, [{Id, Name} | Announced]).

frames(<<Kind, Length:32, Content:Length/binary, Rest/binary>>) ->
    {To, Term} = destination(Kind band (bnot 16#40), Content),
    [#{to => To, plain => Kind band 16#40 =/= 0, term => Term} | frames(Rest)];
frames(<<>>) ->
    [].

destination(1, <<Creation:32, Id:32, Serial:32, Term/binary>>) -> {{pid, Creation, Id, Serial}, Term};
destination(2, <<$R, Id:16, Term/binary>>) -> {{name, Id}, Term};
destination(2, <<119, Length, Name:Length/binary, Term/binary>>) -> {{name, Name}, Term};
destination(2, <<118, Length:16, Name:Length/binary, Term/binary>>) -> {{name, Name}, Term};
destination(3, <<Length:16, Reference:Length/binary, Term/binary>>) -> {{alias, Reference}, Term};
destination(4, Term) -> {cast, Term};
destination(5, <<Id:64, 0, 0:32, Term/binary>>) -> {{call, Id, none}, Term};
destination(5, <<Id:64, 1, Deadline:32, Term/binary>>) -> {{call, Id, Deadline}, Term};
destination(6, <<Id:64, Term/binary>>) -> {{answer, Id}, Term};
destination(Kind, Content) when Kind band 16#80 =/= 0 -> {skipped, Content}.
