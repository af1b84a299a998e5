%% What is told of a connection that is given up, from what the kernel said of real ones: test/golden/tcp_info.hex.
-module(hawser_diagnosis_SUITE).

-export([all/0]).
-export([silent/1, stuck/1, progress/1, this_system/1, anything/1]).

all() ->
    [silent, stuck, progress, this_system, anything].

%% A stopped VM, a broken path and one that loses large packets look different to the side that hears nothing.
silent(_) ->
    Causes = [{Name, Cause} || Name <- [stopped, stopped_full, down, deaf_back, mtu_receiver_tail],
                               {Cause, _} <- [apply(hawser_diagnosis, silent, samples(Name))]],
    [{stopped, stopped}, {stopped_full, stopped}, {down, unreachable}, {deaf_back, unreachable}, {mtu_receiver_tail, torn}] =
        Causes.

%% And to the side that hears something, but whose own packets are lost.
stuck(_) ->
    [{torn, Sure}, {torn, Likely}] = [apply(hawser_diagnosis, stuck, samples(Name)) || Name <- [mtu_sender_tail, mtu_sender]],
    true = Sure =/= Likely,
    _ = [{match, _} = re:run(Sentence, "MTU") || Sentence <- [Sure, Likely]].

%% Bytes move while all is well. Sent again is only what is lost, not what a peer does not take.
progress(_) ->
    [Before, Now] = [hawser_diagnosis:progress(Sample) || Sample <- samples(healthy)],
    {Few, false} = Before,
    {Many, false} = Now,
    true = Many > Few,
    [{stopped, false}, {stopped_full, false}, {down, true}, {mtu_sender, true}] =
        [{Name, element(2, hawser_diagnosis:progress(lists:last(samples(Name))))} || Name <- [stopped, stopped_full, down, mtu_sender]].

%% A port of this system's own answers what is asked for, and counts.
this_system(_) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, Port} = inet:port(Listen),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    {ok, Accepted} = gen_tcp:accept(Listen),
    Acked = fun() ->
        {ok, [{raw, _, _, Bytes}]} = inet:getopts(Socket, [hawser_diagnosis:option()]),
        {Count, false} = hawser_diagnosis:progress(hawser_diagnosis:sample(Bytes)),
        Count
    end,
    Before = Acked(),
    ok = gen_tcp:send(Socket, binary:copy(<<1>>, 1000)),
    {ok, _} = gen_tcp:recv(Accepted, 1000),
    ok = gen_tcp:send(Accepted, <<2>>),
    %% The answer brings the acknowledgement.
    {ok, _} = gen_tcp:recv(Socket, 1),
    1000 = Acked() - Before.

%% An older system, and one without the option, tell nothing.
anything(_) ->
    _ = [begin
        Sample = hawser_diagnosis:sample(Bytes),
        {0, false} = hawser_diagnosis:progress(Sample),
        {unknown, _} = hawser_diagnosis:silent(Sample, Sample),
        {unknown, _} = hawser_diagnosis:stuck(Sample, Sample)
    end || Bytes <- [none, <<>>, <<0:(104 * 8)>>]],
    ok.

samples(Name) ->
    {ok, Text} = file:read_file(filename:join([filename:dirname(?FILE), "golden", "tcp_info.hex"])),
    Lines = [string:split(Line, " ", all) || Line <- string:split(Text, "\n", all)],
    Wanted = atom_to_binary(Name),
    [[Then, Now]] = [Hex || [First | Hex] <- Lines, First =:= Wanted],
    [hawser_diagnosis:sample(binary:decode_hex(Hex)) || Hex <- [Then, Now]].
