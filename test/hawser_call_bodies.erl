%% What the suites of calls run at the other node, what they ask of the calling node afterwards, and how they ask it.
-module(hawser_call_bodies).

-export([same/1, return/1, fail/1, hold/1, mark/2, numbered/3, leader/1, only_at/3, pause/2]).
-export([on/2, with/3, caught/2, sent/2]).
-export([waiting_calls/1, own_processes/0, mailbox/1, fill/2]).

-spec same(term()) -> term().
same(Term) ->
    Term.

%% What an ecall client's function answers.
-spec return(ok | error | plain) -> term().
return(ok) -> {ok, value};
return(error) -> {error, reason};
return(plain) -> value.

-spec fail(throw | exit | normal | error | killed | {signal, term()}) -> no_return().
fail(throw) -> throw(thrown);
fail(exit) -> exit(left);
fail(normal) -> exit(normal);
fail(error) -> error(failed);
fail(killed) -> exit(self(), kill), receive never -> ok end;
fail({signal, Reason}) -> exit(self(), Reason), receive never -> ok end.

%% Tells Watcher that it runs, and returns what it is told to.
-spec hold(pid()) -> term().
hold(Watcher) ->
    Watcher ! {body, self()},
    receive {return, Value} -> Value end.

%% Tells Watcher, over distribution, that it has run.
-spec mark(pid(), term()) -> term().
mark(Watcher, What) ->
    Watcher ! {ran, What},
    What.

%% Sends Count messages by hawser and returns; everything of about Bytes bytes.
-spec numbered(pid() | reference(), pos_integer(), non_neg_integer()) -> {done, binary()}.
numbered(To, Count, Bytes) ->
    Payload = binary:copy(<<7>>, Bytes),
    _ = [hawser:send(To, {part, N, Payload}) || N <- lists:seq(1, Count)],
    {done, Payload}.

-spec leader(pid()) -> pid().
leader(Watcher) ->
    Watcher ! {leader, group_leader()},
    group_leader().

%% Returns at the nodes of the list, and fails as it is told elsewhere.
-spec only_at([node()], term(), error | exit | hang) -> term().
only_at(Nodes, Value, Otherwise) ->
    case {lists:member(node(), Nodes), Otherwise} of
        {true, _} -> Value;
        {false, error} -> {error, {not_at, node()}};
        {false, exit} -> exit({not_at, node()});
        {false, hang} -> receive never -> Value end
    end.

%% Ends about when a timeout of as many milliseconds does.
-spec pause(non_neg_integer(), term()) -> term().
pause(Ms, Value) ->
    receive after Ms -> Value end.

%% ---- on the calling node ----

%% Callers that wait for Node, over all shards.
-spec waiting_calls(node()) -> non_neg_integer().
waiting_calls(Node) ->
    case hawser:info(Node) of
        #{session := #{shards := Shards}} -> lists:sum([maps:get(waiting_calls, Shard) || Shard <- Shards]);
        _ -> 0
    end.

%% Processes that group calls have started and that are still there.
-spec own_processes() -> [pid()].
own_processes() ->
    [Pid || Pid <- processes(), {initial_call, {hawser_gather, _, _}} <- [process_info(Pid, initial_call)]].

%% What Fun answers in a process of its own, and the messages that it leaves in the mailbox.
-spec mailbox(fun(() -> Answer)) -> {Answer, [Message :: term()]}.
mailbox(Fun) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        Answer = Fun(),
        {messages, Messages} = process_info(self(), messages),
        exit({answer, Answer, Messages})
    end),
    receive
        {'DOWN', Monitor, process, Pid, {answer, Answer, Messages}} -> {Answer, Messages};
        {'DOWN', Monitor, process, Pid, Reason} -> error({ended, Reason})
    end.

%% Leaves processes behind that wait for room in every shard to Node, which does not read; answers them.
-spec fill(node(), pos_integer()) -> [pid()].
fill(Node, Count) ->
    Payload = binary:copy(<<1>>, 1000),
    Fill = fun Fill() -> _ = hawser:send({no_such_name, Node}, Payload), Fill() end,
    Fillers = [spawn(Fill) || _ <- lists:seq(1, Count)],
    %% First nothing leaves the shards any more, then nothing enters them.
    Most = hawser_config:get(max_unacked_bytes),
    hawser_attacked:until(fun() ->
        #{session := #{shards := Shards}} = hawser:info(Node),
        lists:all(fun(#{unacked_bytes := Unacked}) -> Unacked >= Most end, Shards)
    end),
    hawser_attacked:until(fun() -> lists:all(fun waits/1, Fillers) end),
    Fillers.

waits(Pid) ->
    {current_function, {Module, _, _}} = process_info(Pid, current_function),
    {status, Status} = process_info(Pid, status),
    Module =:= hawser_push andalso Status =:= waiting.

%% ---- for the suites ----

%% What Fun answers on the node, in a process in which it leaves no message.
-spec on({hawser_test_nodes:peer(), node()}, fun(() -> Answer)) -> Answer.
on({Peer, _}, Fun) ->
    {Answer, []} = hawser_test_nodes:call(Peer, ?MODULE, mailbox, [Fun], 60000),
    Answer.

%% The list with another element in that place.
with(N, Element, List) ->
    lists:sublist(List, N - 1) ++ [Element | lists:nthtail(N, List)].

caught(F, Args) ->
    try apply(hawser, F, Args) of
        Answer -> {answered, Answer}
    catch
        error:Reason -> {caught, Reason}
    end.

sent({Peer, _}, Node) ->
    #{session := #{shards := Shards}} = hawser_test_nodes:call(Peer, hawser, info, [Node]),
    lists:sum([maps:get(sent_messages, Shard) || Shard <- Shards]).
