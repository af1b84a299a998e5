%% Well-formed traffic with everything in it that a peer may send: all kinds
%% of records, frames, destinations and terms. One suite sends it as it is, in
%% odd pieces, another one breaks it at random. Test code only.
-module(hawser_raw_traffic).

-export([records/3, mutated/4]).

-import(hawser_raw_wire, [
    batch/4, tick/1, record/3, frame/3, to_pid/2, to_name/2, to_alias/2, cast/1, call/3, answer/2, plain/1, term/3
]).

-type sink() :: #{pid := pid(), name := binary(), alias := reference(), _ => _}.

%% Two batches from this number on, other records between them, and the messages that the sink gets of them. The
%% requests among the frames start processes that do nothing, and answer calls that nobody made.
-spec records(hawser_raw_peer:conn(), sink(), pos_integer()) -> {binary(), [term()]}.
records(#{ends := Ends}, #{pid := Pid, name := Name, alias := Alias}, Number) ->
    {Dictionary, Announcements} = dictionary(Name),
    Id = maps:get(binary_to_atom(Name), Dictionary),
    Messages = [
        {ok, Number, [error, 1.5]}, #{error => Pid}, <<"name">>, [alias | Alias], {plain, Number}, fun erlang:self/0
    ],
    [A, B, C, D, E, F] = Messages,
    Form = fun(Term) -> term(Term, Dictionary, Ends) end,
    Request = {Pid, erlang, self, []},
    First = batch(Number, 0, Announcements, [
        to_pid(Pid, Form(A)), cast(Form(Request)), to_name(Id, Form(B)), frame(16#84, <<"later">>, <<>>),
        call(Number, none, Form(Request)), to_name(Name, Form(C)), answer(Number, Form({return, ok}))
    ]),
    Second = batch(Number + 1, 0, [], [
        to_alias(Alias, Form(D)), call(Number + 1, 1000, plain(Request)), to_pid(Pid, plain(E)), cast(plain(Request)),
        to_pid(Pid, Form(F)), answer(Number + 1, plain({exit, normal}))
    ]),
    {<<First/binary, (tick(0))/binary, (record(16#90, 0, <<"later">>))/binary, Second/binary>>, Messages}.

dictionary(Name) ->
    hawser_raw_wire:dictionary([ok, error, binary_to_atom(Name)]).

%% Bytes for a fresh connection: well-formed batches, and so many mutations in
%% them. Half of them keep the framing, so that they reach what lies inside.
%% Draws from the process's random numbers.
-spec mutated(hawser_raw_peer:conn(), sink(), Batches :: pos_integer(), Mutations :: pos_integer()) -> binary().
mutated(#{ends := Ends}, #{name := Name} = Sink, Batches, Mutations) ->
    {Dictionary, Announcements} = dictionary(Name),
    Form = fun(Term) -> iolist_to_binary(term(Term, Dictionary, Ends)) end,
    Inside = [rand:uniform(Batches) || _ <- lists:seq(1, Mutations div 2)],
    Records = [iolist_to_binary([
        batch(Number, 0, [A || Number =:= 1, A <- Announcements],
            framed(frames(Sink, Dictionary, Form), length([N || N <- Inside, N =:= Number]))),
        pick([<<>>, tick(0), record(16#84, 0, <<"later">>)])
    ]) || Number <- lists:seq(1, Batches)],
    Shuffled = case rand:uniform(8) of
        1 -> [pick(Records) || _ <- Records];
        _ -> Records
    end,
    times(Mutations - length(Inside), fun mutate/1, iolist_to_binary(Shuffled)).

%% Destination and term of each frame, without framing.
frames(#{pid := Pid, name := Name, alias := Alias}, Dictionary, Form) ->
    {Id, Serial, Creation} = hawser_raw_wire:pid_fields(Pid),
    <<131, Reference/binary>> = term_to_binary(Alias),
    Destinations = [
        {1, <<Creation:32, Id:32, Serial:32>>},
        {2, <<$R, (maps:get(binary_to_atom(Name), Dictionary)):16>>},
        {2, <<119, (byte_size(Name)), Name/binary>>},
        {3, <<(byte_size(Reference)):16, Reference/binary>>}
    ],
    [begin
        {Kind, To, Term} = case rand:uniform(3) of
            1 -> pick(requests(Pid));
            _ -> erlang:append_element(pick(Destinations), pick(values(Pid, Alias)))
        end,
        %% Only short terms may have hawser's own form.
        case is_binary(Term) andalso byte_size(Term) > 100000 orelse rand:uniform(3) =:= 1 of
            true -> {Kind bor 16#40, To, term_to_binary(Term)};
            false -> {Kind, To, Form(Term)}
        end
    end || _ <- lists:seq(1, 6)].

%% What they run does nothing, whatever becomes of its arguments.
requests(Pid) ->
    Request = pick([{Pid, erlang, self, []}, {Pid, erlang, is_atom, [ok]}, {Pid, lists, append, [[error], [ok | ok]]}]),
    [
        {4, <<>>, Request}, {5, <<(rand:uniform(100)):64, 0, 0:32>>, Request}, {5, <<0:64, 1, 1000:32>>, Request},
        {6, <<(rand:uniform(1 bsl 60)):64>>, pick([{return, ok}, {error, ok, []}, {system, timeout}])}
    ].

values(Pid, Alias) ->
    [
        ok, {ok, [error, 1.5, -7, 1 bsl 40, 1 bsl 90]}, #{error => Pid, ok => [1, 2 | 3]}, <<"binary">>, <<5:3>>,
        maps:from_list([{N, [N]} || N <- lists:seq(1, 40)]), list_to_tuple(lists:seq(1, 300)), "string",
        fun erlang:self/0, make_ref(), Alias, {{{{{{[[[[#{ok => {}}]]]]}}}}}}, [], {}, #{}, 0.0,
        [ok, error, 'not announced'], binary:copy(<<7>>, 140000)
    ].

framed(Frames, Mutations) ->
    [frame(Kind, To, Term) || {Kind, To, Term} <- times(Mutations, fun mutate_one/1, Frames)].

mutate_one(Frames) ->
    {Before, [{Kind, To, Term} | Behind]} = lists:split(rand:uniform(length(Frames)) - 1, Frames),
    Mutated = case rand:uniform(10) of
        1 -> {Kind, mutate(To), Term};
        2 -> {Kind bxor (1 bsl (rand:uniform(8) - 1)), To, Term};
        _ -> {Kind, To, mutate(Term)}
    end,
    Before ++ [Mutated | Behind].

%% One change somewhere.
mutate(<<>>) ->
    rand:bytes(rand:uniform(8));
mutate(Bytes) ->
    At = rand:uniform(byte_size(Bytes)) - 1,
    <<Head:At/binary, Byte, Tail/binary>> = Bytes,
    case rand:uniform(9) of
        1 -> <<Head/binary, (Byte bxor (1 bsl (rand:uniform(8) - 1))), Tail/binary>>;
        2 -> <<Head/binary, (pick([0, 1, 127, 128, 255])), Tail/binary>>;
        3 -> <<Head/binary, (pick("RSDEFPZabhijklmntwv")), Tail/binary>>;
        4 -> <<Head/binary, (rand:bytes(rand:uniform(6)))/binary, Byte, Tail/binary>>;
        5 -> <<Head/binary, (skipped(rand:uniform(6) - 1, Tail))/binary>>;
        6 -> Head;
        7 ->
            Slice = binary:part(Tail, 0, min(byte_size(Tail), rand:uniform(40))),
            <<Head/binary, Byte, Slice/binary, Tail/binary>>;
        8 -> <<Head/binary, (pick([16#FFFFFFFF, 16#7FFFFFFF, 0, 1, 16#10000])):32, (skipped(3, Tail))/binary>>;
        9 -> <<Head/binary, (pick([16#FFFF, 0, 1])):16, (skipped(1, Tail))/binary>>
    end.

skipped(Count, Bytes) ->
    binary:part(Bytes, min(Count, byte_size(Bytes)), max(0, byte_size(Bytes) - Count)).

times(0, _, Value) -> Value;
times(Count, Fun, Value) -> times(Count - 1, Fun, Fun(Value)).

pick(List) ->
    lists:nth(rand:uniform(length(List)), List).
