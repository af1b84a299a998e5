%% Numbered streams of messages between processes of two nodes, and the proof that each arrived whole and in order: a
%% receiver takes the streams of any number of senders and finds out the first message of each that is lost, out of its
%% turn, there twice or not what was sent. Runs on the nodes; asks nobody and sleeps never.
-module(hawser_stream).

-export([receivers/1, await/3, finished/2, messages/1]).
-export([senders/2, run/1, wait/1, stream/3, number/3]).

-export_type([receiver/0, plan/0]).

%% A process in all forms that a destination can have.
-type receiver() :: #{pid := pid(), name := {atom(), node()}, alias := reference()}.
-type plan() :: #{
    count := pos_integer(),                     % messages of each stream
    forms => [pid | name | alias],              % of the destination, in turn
    payload => none | mixed | {bytes, pos_integer()}   % mixed: 10 bytes to 1 MB
}.

%% ---- receivers ----

-spec receivers(pos_integer()) -> [receiver()].
receivers(N) ->
    [receiver() || _ <- lists:seq(1, N)].

receiver() ->
    Starter = self(),
    Pid = spawn(fun() ->
        Name = list_to_atom("hawser_stream_" ++ pid_to_list(self())),
        register(Name, self()),
        Starter ! {self(), #{pid => self(), name => {Name, node()}, alias => alias()}},
        collect(#{}, [], [], [])
    end),
    receive {Pid, Receiver} -> Receiver end.

%% Waits until so many streams have ended; what went wrong with any is a problem.
-spec await(receiver(), Streams :: pos_integer(), timeout()) -> ok | {problems, [term()]} | {unfinished, term()}.
await(#{pid := Pid}, Streams, Ms) ->
    Ref = make_ref(),
    Pid ! {await, self(), Ref, Streams},
    receive
        {Ref, Answer} -> Answer
    after Ms ->
        {unfinished, messages(Pid)}
    end.

%% The same for one stream to each of many receivers, within one deadline; only what is not ok.
-spec finished([receiver()], timeout()) -> [term()].
finished(Receivers, Ms) ->
    Deadline = erlang:monotonic_time(millisecond) + Ms,
    [{Receiver, Answer} || Receiver <- Receivers,
                           Answer <- [await(Receiver, 1, max(0, Deadline - erlang:monotonic_time(millisecond)))], Answer =/= ok].

%% The number of messages of each stream so far.
-spec messages(pid()) -> {#{term() => non_neg_integer()}, Ended :: [term()], Problems :: [term()]}.
messages(Pid) ->
    Ref = make_ref(),
    Pid ! {messages, self(), Ref},
    receive {Ref, Answer} -> Answer end.

collect(Streams, Ended, Problems, Waiting) ->
    receive
        {stream, Id, N, Payload, Made} ->
            Last = maps:get(Id, Streams, 0),
            Found = [{lost_or_late, Id, {after_number, Last}, {came, N}} || N =/= Last + 1]
                ++ [{changed, Id, N} || payload(Made, Id, N) =/= Payload]
                ++ [{after_end, Id, N} || lists:member(Id, Ended)],
            collect(Streams#{Id => N}, Ended, first(Problems, Found), Waiting);
        {stream_end, Id, Count} ->
            Found = [{ended_after, Id, maps:get(Id, Streams, 0), {of_all, Count}} || maps:get(Id, Streams, 0) =/= Count]
                ++ [{ended_twice, Id} || lists:member(Id, Ended)],
            answer(Streams, [Id | Ended], first(Problems, Found), Waiting);
        {await, From, Ref, Wanted} ->
            answer(Streams, Ended, Problems, [{From, Ref, Wanted} | Waiting]);
        {messages, From, Ref} ->
            From ! {Ref, {Streams, Ended, Problems}},
            collect(Streams, Ended, Problems, Waiting);
        Other ->
            collect(Streams, Ended, first(Problems, [{stranger, Other}]), Waiting)
    end.

%% The first few tell what is to be told.
first(Problems, _) when length(Problems) >= 5 -> Problems;
first(Problems, Found) -> Problems ++ Found.

answer(Streams, Ended, Problems, Waiting) ->
    Left = [Waiter || {From, Ref, Wanted} = Waiter <- Waiting, not answered(From, Ref, Wanted, Ended, Problems)],
    collect(Streams, Ended, Problems, Left).

answered(From, Ref, Wanted, Ended, []) when length(Ended) >= Wanted ->
    From ! {Ref, ok},
    true;
answered(_, _, _, _, []) ->
    false;
answered(From, Ref, _, _, Problems) ->
    From ! {Ref, {problems, Problems}},
    true.

%% ---- senders ----

%% One process for each receiver of the list (which may stand there often), ready to go.
-spec senders([receiver()], plan()) -> [{pid(), reference()}].
senders(Receivers, Plan) ->
    [spawn_monitor(fun() ->
        receive go -> stream({node(), self()}, Receiver, Plan) end
    end) || Receiver <- Receivers].

%% Lets them go and waits for their ends; the reasons that are not `normal`.
-spec run([{pid(), reference()}]) -> [term()].
run(Senders) ->
    _ = [Pid ! go || {Pid, _} <- Senders],
    wait(Senders).

%% Monitored by the caller; the reasons that are not `normal`.
-spec wait([{pid(), reference()}]) -> [term()].
wait(Processes) ->
    Reasons = [receive {'DOWN', Monitor, process, Pid, Reason} -> Reason end || {Pid, Monitor} <- Processes],
    [Reason || Reason <- Reasons, Reason =/= normal].

%% All messages of a stream and its end, from the calling process.
-spec stream(Id :: term(), receiver(), plan()) -> ok.
stream(Id, Receiver, #{count := Count} = Plan) ->
    Forms = [maps:get(Form, Receiver) || Form <- maps:get(forms, Plan, [pid])],
    numbers(1, Count, Id, Forms, Forms, maps:get(payload, Plan, none)),
    End = {stream_end, Id, Count},
    End = hawser:send(hd(Forms), End),
    ok.

numbers(N, Count, _, _, _, _) when N > Count ->
    ok;
numbers(N, Count, Id, [], Forms, Made) ->
    numbers(N, Count, Id, Forms, Forms, Made);
numbers(N, Count, Id, [To | Rest], Forms, Made) ->
    Message = number(Id, N, Made),
    Message = hawser:send(To, Message),
    numbers(N + 1, Count, Id, Rest, Forms, Made).

%% One message, for who sends it himself.
-spec number(Id :: term(), N :: pos_integer(), Made :: none | mixed | {bytes, pos_integer()}) -> term().
number(Id, N, Made) ->
    {stream, Id, N, payload(Made, Id, N), Made}.

%% Both ends can make it from the number.
payload(none, _, _) ->
    none;
payload({bytes, Bytes}, Id, N) ->
    bytes(Bytes, Id, N);
payload(mixed, Id, N) ->
    case erlang:phash2({Id, N}, 200) of
        Share when Share < 100 -> bytes(10, Id, N);
        Share when Share < 130 -> #{number => N, id => Id, list => lists:seq(N, N + Share), text => "some text"};
        Share when Share < 150 -> bytes(200 + Share, Id, N);
        Share when Share < 170 -> bytes(5000, Id, N);
        Share when Share < 180 -> bytes(65000 + 100 * (Share - 170), Id, N);
        Share when Share < 185 -> lists:seq(N, N + 20000);
        Share when Share < 189 -> {bits, <<(bytes(1000, Id, N))/binary, 1:1>>};
        Share when Share < 196 -> bytes(150000, Id, N);
        _ -> bytes(1 bsl 20, Id, N)
    end.

bytes(Bytes, Id, N) ->
    binary:part(binary:copy(<<(erlang:phash2(Id)):32, N:32>>, Bytes div 8 + 1), 0, Bytes).
