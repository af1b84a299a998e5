%% The bytes of an established connection, written and read in Erlang from the
%% diagram in native/hawser_core/src/wire.rs and from nothing else: an
%% independent second implementation for tests. Writes well-formed records;
%% suites break them. Never uses hawser's own codec. Test code only.
-module(hawser_raw_wire).

-export([record/3, batch/4, batch/5, batch_at/3, tick/1, close/3, announcement/2, frame/3]).
-export([to_pid/2, to_name/2, to_alias/2, cast/1, call/3, answer/2, pid_fields/1, plain/1]).
-export([dictionary/1, term/3]).
-export([read/1, atoms/2, message/3]).

-export_type([ends/0, dictionary/0, frame/0, item/0]).

%% {node of the sender, its creation}, {node of the receiver, its creation}.
-type ends() :: {{node(), non_neg_integer()}, {node(), non_neg_integer()}}.
-type dictionary() :: #{atom() => 0..65535}.
%% A name as it is, any other destination as its bytes.
-type frame() :: {Kind :: byte(), Destination :: binary(), Term :: binary()}.
-type item() ::
    {batch, Ack :: non_neg_integer(), Number :: pos_integer(), Announced :: #{0..65535 => binary()}, [frame()]}
    | {tick, Ack :: non_neg_integer()}
    | {close, Ack :: non_neg_integer(), Reason :: 0..65535, Text :: binary()}.

-define(PLAIN, 16#40).

%% ---- records ----

%% Any record: the length in front is the true one.
-spec record(byte(), non_neg_integer(), iodata()) -> binary().
record(Kind, Ack, Body) ->
    Rest = iolist_to_binary(Body),
    <<(10 + byte_size(Rest)):32, Kind, 0, Ack:64, Rest/binary>>.

-spec batch(non_neg_integer(), non_neg_integer(), [binary()], iodata()) -> binary().
batch(Number, Ack, Announcements, Frames) ->
    batch(Number, Ack, length(Announcements), Announcements, Frames).

%% With a count of announcements that need not be true.
-spec batch(non_neg_integer(), non_neg_integer(), 0..65535, iodata(), iodata()) -> binary().
batch(Number, Ack, Count, Announcements, Frames) ->
    record(1, Ack, [<<Number:64, 0:32, Count:16>>, Announcements, Frames]).

%% Sent when the sender's clock stands there; announces and acknowledges nothing.
-spec batch_at(ClockMs :: 0..16#FFFFFFFF, non_neg_integer(), iodata()) -> binary().
batch_at(ClockMs, Number, Frames) ->
    record(1, 0, [<<Number:64, ClockMs:32, 0:16>>, Frames]).

-spec tick(non_neg_integer()) -> binary().
tick(Ack) ->
    record(2, Ack, []).

-spec close(non_neg_integer(), 0..65535, binary()) -> binary().
close(Ack, Reason, Text) ->
    record(3, Ack, [<<Reason:16>>, Text]).

-spec announcement(0..65535, binary()) -> binary().
announcement(Id, Name) ->
    <<Id:16, (byte_size(Name)):16, Name/binary>>.

%% ---- frames ----

%% Any frame: the length is the true one.
-spec frame(byte(), iodata(), iodata()) -> binary().
frame(Kind, Destination, Term) ->
    Content = iolist_to_binary([Destination, Term]),
    <<Kind, (byte_size(Content)):32, Content/binary>>.

%% Term: hawser's form, or {plain, Binary}.
-spec to_pid(pid(), iodata() | {plain, binary()}) -> binary().
to_pid(Pid, Term) ->
    {Id, Serial, Creation} = pid_fields(Pid),
    framed(1, <<Creation:32, Id:32, Serial:32>>, Term).

%% Name: an id of the dictionary, or text.
-spec to_name(0..65535 | binary(), iodata() | {plain, binary()}) -> binary().
to_name(Id, Term) when is_integer(Id) ->
    framed(2, <<$R, Id:16>>, Term);
to_name(Name, Term) ->
    framed(2, atom_text(Name), Term).

-spec to_alias(reference() | binary(), iodata() | {plain, binary()}) -> binary().
to_alias(Alias, Term) when is_reference(Alias) ->
    <<131, Bytes/binary>> = term_to_binary(Alias),
    to_alias(Bytes, Term);
to_alias(Bytes, Term) ->
    framed(3, <<(byte_size(Bytes)):16, Bytes/binary>>, Term).

%% A request that nobody waits for.
-spec cast(iodata() | {plain, binary()}) -> binary().
cast(Term) ->
    framed(4, <<>>, Term).

%% Deadline: on the clock of the batches.
-spec call(non_neg_integer(), none | 0..16#FFFFFFFF, iodata() | {plain, binary()}) -> binary().
call(Id, none, Term) ->
    framed(5, <<Id:64, 0, 0:32>>, Term);
call(Id, Deadline, Term) ->
    framed(5, <<Id:64, 1, Deadline:32>>, Term).

-spec answer(non_neg_integer(), iodata() | {plain, binary()}) -> binary().
answer(Id, Term) ->
    framed(6, <<Id:64>>, Term).

framed(Kind, Destination, {plain, Bytes}) -> frame(Kind bor ?PLAIN, Destination, Bytes);
framed(Kind, Destination, Term) -> frame(Kind, Destination, Term).

%% Id, serial and creation end a pid in external term format.
-spec pid_fields(pid()) -> {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
pid_fields(Pid) ->
    Bytes = term_to_binary(Pid),
    <<Id:32, Serial:32, Creation:32>> = binary:part(Bytes, byte_size(Bytes), -12),
    {Id, Serial, Creation}.

-spec plain(term()) -> {plain, binary()}.
plain(Term) ->
    {plain, term_to_binary(Term)}.

%% ---- terms, written ----

%% Ids for atoms, and their announcements.
-spec dictionary([atom()]) -> {dictionary(), [binary()]}.
dictionary(Atoms) ->
    Numbered = lists:zip(Atoms, lists:seq(0, length(Atoms) - 1)),
    {maps:from_list(Numbered), [announcement(Id, atom_to_binary(Atom)) || {Atom, Id} <- Numbered]}.

%% A term in hawser's form: atoms of the dictionary by id, others as text.
-spec term(term(), dictionary(), ends()) -> iodata().
term(Atom, Dictionary, _) when is_atom(Atom) ->
    case Dictionary of
        #{Atom := Id} -> <<$R, Id:16>>;
        _ -> atom_text(atom_to_binary(Atom))
    end;
term(Pid, _, {{Sender, SenderCreation}, {Receiver, ReceiverCreation}}) when is_pid(Pid) ->
    case {node(Pid), pid_fields(Pid)} of
        {Sender, {Id, Serial, SenderCreation}} -> <<$S, Id:32, Serial:32>>;
        {Receiver, {Id, Serial, ReceiverCreation}} -> <<$D, Id:32, Serial:32>>;
        _ -> embedded(Pid)
    end;
term(Tuple, Dictionary, Ends) when is_tuple(Tuple) ->
    Elements = [term(Element, Dictionary, Ends) || Element <- tuple_to_list(Tuple)],
    case tuple_size(Tuple) of
        Small when Small < 256 -> [<<104, Small>> | Elements];
        Large -> [<<105, Large:32>> | Elements]
    end;
term(Map, Dictionary, Ends) when is_map(Map) ->
    Pairs = [[term(Key, Dictionary, Ends), term(Value, Dictionary, Ends)] || {Key, Value} <- maps:to_list(Map)],
    [<<116, (map_size(Map)):32>> | Pairs];
term([_ | _] = List, Dictionary, Ends) ->
    {Elements, Tail} = cells(List, []),
    [<<108, (length(Elements)):32>>, [term(Element, Dictionary, Ends) || Element <- Elements],
     term(Tail, Dictionary, Ends)];
term(Float, _, _) when is_float(Float) ->
    <<70, Float:64/float>>;
term(Other, _, _) when is_integer(Other), Other >= -(1 bsl 31), Other < 1 bsl 31; is_binary(Other); Other =:= [] ->
    <<131, Bytes/binary>> = term_to_binary(Other),
    Bytes;
term(Other, _, _) ->
    embedded(Other).

embedded(Term) ->
    Bytes = term_to_binary(Term),
    <<$E, (byte_size(Bytes)):32, Bytes/binary>>.

cells([Head | Tail], Heads) -> cells(Tail, [Head | Heads]);
cells(Tail, Heads) -> {lists:reverse(Heads), Tail}.

atom_text(Name) when byte_size(Name) < 256 -> <<119, (byte_size(Name)), Name/binary>>;
atom_text(Name) -> <<118, (byte_size(Name)):16, Name/binary>>.

%% ---- records, read ----

%% A record without its length field.
-spec read(binary()) -> item().
read(<<1, 0, Ack:64, Number:64, _Clock:32, Count:16, Rest/binary>>) ->
    {Announced, Frames} = announced(Count, Rest, #{}),
    {batch, Ack, Number, Announced, frames(Frames)};
read(<<2, 0, Ack:64>>) ->
    {tick, Ack};
read(<<3, 0, Ack:64, Reason:16, Text/binary>>) ->
    {close, Ack, Reason, Text}.

announced(0, Rest, Announced) ->
    {Announced, Rest};
announced(Count, <<Id:16, Length:16, Name:Length/binary, Rest/binary>>, Announced) ->
    announced(Count - 1, Rest, Announced#{Id => Name}).

frames(<<>>) ->
    [];
frames(<<Kind, Length:32, Content:Length/binary, Rest/binary>>) ->
    {Destination, Term} = destination(Kind band 16#3F, Content),
    [{Kind, Destination, Term} | frames(Rest)].

destination(1, <<Pid:12/binary, Term/binary>>) -> {Pid, Term};
destination(2, <<$R, Id:2/binary, Term/binary>>) -> {<<$R, Id/binary>>, Term};
destination(2, <<119, Length, Name:Length/binary, Term/binary>>) -> {Name, Term};
destination(2, <<118, Length:16, Name:Length/binary, Term/binary>>) -> {Name, Term};
destination(3, <<Length:16, Reference:Length/binary, Term/binary>>) -> {Reference, Term};
destination(4, Term) -> {<<>>, Term};
destination(5, <<Call:13/binary, Term/binary>>) -> {Call, Term};
destination(6, <<Id:8/binary, Term/binary>>) -> {Id, Term}.

%% What the ids of a batch mean, beside those that were known before.
-spec atoms(item(), #{0..65535 => binary()}) -> #{0..65535 => binary()}.
atoms({batch, _, _, Announced, _}, Known) -> maps:merge(Known, Announced);
atoms(_, Known) -> Known.

%% The message of a frame.
-spec message(frame(), #{0..65535 => binary()}, ends()) -> term().
message({Kind, _, Term}, _, _) when Kind band ?PLAIN =/= 0 ->
    binary_to_term(Term);
message({_, _, Term}, Atoms, Ends) ->
    {Message, <<>>} = value(Term, Atoms, Ends),
    Message.

value(<<$R, Id:16, Rest/binary>>, Atoms, _) ->
    {binary_to_atom(maps:get(Id, Atoms)), Rest};
value(<<$S, Id:32, Serial:32, Rest/binary>>, _, {Sender, _}) ->
    {pid_of(Sender, Id, Serial), Rest};
value(<<$D, Id:32, Serial:32, Rest/binary>>, _, {_, Receiver}) ->
    {pid_of(Receiver, Id, Serial), Rest};
value(<<$E, Length:32, Bytes:Length/binary, Rest/binary>>, _, _) ->
    {binary_to_term(Bytes), Rest};
value(<<104, Arity, Rest/binary>>, Atoms, Ends) ->
    {Elements, Behind} = values(Arity, Rest, Atoms, Ends),
    {list_to_tuple(Elements), Behind};
value(<<105, Arity:32, Rest/binary>>, Atoms, Ends) ->
    {Elements, Behind} = values(Arity, Rest, Atoms, Ends),
    {list_to_tuple(Elements), Behind};
value(<<116, Size:32, Rest/binary>>, Atoms, Ends) ->
    {Flat, Behind} = values(2 * Size, Rest, Atoms, Ends),
    {maps:from_list(pairs(Flat)), Behind};
value(<<108, Count:32, Rest/binary>>, Atoms, Ends) ->
    {Elements, AtTail} = values(Count, Rest, Atoms, Ends),
    {Tail, Behind} = value(AtTail, Atoms, Ends),
    {lists:foldr(fun(Head, Cells) -> [Head | Cells] end, Tail, Elements), Behind};
value(Bytes, _, _) ->
    {Value, Used} = binary_to_term(<<131, Bytes/binary>>, [used]),
    {Value, binary:part(Bytes, Used - 1, byte_size(Bytes) - Used + 1)}.

values(0, Rest, _, _) ->
    {[], Rest};
values(Count, Bytes, Atoms, Ends) ->
    {Value, Rest} = value(Bytes, Atoms, Ends),
    {Values, Behind} = values(Count - 1, Rest, Atoms, Ends),
    {[Value | Values], Behind}.

pairs([Key, Value | Rest]) -> [{Key, Value} | pairs(Rest)];
pairs([]) -> [].

pid_of({Node, Creation}, Id, Serial) ->
    binary_to_term(<<131, 88, (atom_text(atom_to_binary(Node)))/binary, Id:32, Serial:32, Creation:32>>).
