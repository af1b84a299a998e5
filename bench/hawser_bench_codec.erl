%% What the codec alone costs per term, beside term_to_binary/1 and binary_to_term/1: the floor under every path's CPU
%% per message. hawser's part is timed inside the NIF around N calls, the VM's in an Erlang loop around N calls of the
%% BIF (a loop step costs some nanoseconds). Called by hawser_bench; run/1 runs on a node that has hawser.
-module(hawser_bench_codec).

-export([run/1, rows/1]).
-export_type([row/0]).

-type cost() :: {EncodeNs :: float(), DecodeNs :: float(), Bytes :: non_neg_integer()}.
-type row() :: #{term := string(), hawser := cost() | undefined, vm := cost()}.

-define(CALLS, 50000).
-define(ROUNDS, 5).

%% One row per term, each figure the median of a few rounds, measured on a fresh node.
-spec run(hawser_bench_nodes:options()) -> [row()].
run(Nodes) ->
    Pair = #{sender := Node} = hawser_bench_nodes:start(Nodes),
    try
        hawser_bench_nodes:call(Node, ?MODULE, rows, [?CALLS], 120000)
    after
        hawser_bench_nodes:stop(Pair)
    end.

-spec rows(pos_integer()) -> [row()].
rows(N) ->
    Rounds = [[{hawser(Term, N), vm(Term, N)} || {_Name, Term} <- terms()] || _ <- lists:seq(1, ?ROUNDS)],
    [#{term => Name, hawser => middle(Ours), vm => middle(Vm)}
     || {I, {Name, _Term}} <- lists:enumerate(terms()),
        {Ours, Vm} <- [lists:unzip([lists:nth(I, Round) || Round <- Rounds])]].

middle([undefined | _]) ->
    undefined;
middle(Costs) ->
    {Encodes, Decodes, [Bytes | _]} = lists:unzip3(Costs),
    {hawser_bench_results:median(Encodes), hawser_bench_results:median(Decodes), Bytes}.

terms() ->
    [{"three maps of ten atom fields", hawser_bench_workload:payload(atoms)},
     {"{temperature, 17.5, <<\"sensor-17\">>}", {temperature, 17.5, <<"sensor-17">>}},
     {"list of 100 integers", [I * 1000 || I <- lists:seq(1, 100)]},
     {"binary of 1 KiB", binary:copy(<<7>>, 1024)}].

hawser(Term, N) ->
    case code:ensure_loaded(hawser_nif) of
        {module, Module} ->
            _ = apply(Module, codec_bench, [Term, N div 10]),
            case apply(Module, codec_bench, [Term, N]) of
                {Encode, Decode, Bytes} -> {float(Encode), float(Decode), Bytes};
                plain -> undefined
            end;
        {error, _} ->
            undefined
    end.

vm(Term, N) ->
    Binary = term_to_binary(Term),
    _ = clean(fun() -> encode(Term, N div 10, none) end),
    Encode = clean(fun() -> encode(Term, N, none) end),
    Decode = clean(fun() -> decode(Binary, N, none) end),
    {Encode / N, Decode / N, byte_size(Binary)}.

%% Nanoseconds that Fun takes in a process of its own.
clean(Fun) ->
    Self = self(),
    Ref = make_ref(),
    _ = spawn_opt(fun() ->
        T0 = erlang:monotonic_time(nanosecond),
        _ = Fun(),
        Self ! {Ref, erlang:monotonic_time(nanosecond) - T0}
    end, [link, {min_heap_size, 100000}]),
    receive
        {Ref, Ns} -> Ns
    end.

%% The last result is returned, or the compiler would see that nobody wants it and leave the call out.
encode(_Term, 0, Last) -> Last;
encode(Term, Left, _) -> encode(Term, Left - 1, term_to_binary(Term)).

decode(_Binary, 0, Last) -> Last;
decode(Binary, Left, _) -> decode(Binary, Left - 1, binary_to_term(Binary)).
