%% Two nodes, hawser on both, messages each way and a call. fallback is none, so that nothing that hawser sends can have gone
%% over distribution; what the transformed module sends is seen in hawser's counters.
%% hawser starts with this application, which names it among its own.
-module(consumer).
-export([main/0, echo/1]).

main() ->
    {ok, _} = net_kernel:start([consumer_here, shortnames]),
    {ok, Peer, There} = peer:start_link(#{name => consumer_there, args => ["-pa" | code:get_path()]}),
    ok = start(node()),
    ok = start(There),
    ok = hawser:await(There, 10_000),
    [There] = hawser:nodes(),
    Echo = spawn(There, ?MODULE, echo, [node()]),
    hawser:send(Echo, {self(), <<"hello">>}),
    receive
        {Echo, Answer} -> io:format("~ts answers ~ts~n", [There, Answer])
    after 10_000 -> exit(no_answer)
    end,
    Before = sent(),
    ok = transformed:main(Echo, There),
    2 = sent() - Before,
    peer:stop(Peer).

sent() ->
    #{totals := #{sent_messages := Sent}} = hawser:info(),
    Sent.

start(Node) ->
    %% Loading sets the environment: what is set before would be gone.
    ok = erpc:call(Node, application, load, [hawser]),
    ok = erpc:call(Node, application, set_env, [hawser, fallback, none]),
    {ok, Started} = erpc:call(Node, application, ensure_all_started, [consumer]),
    true = lists:member(hawser, Started),
    {ok, none} = erpc:call(Node, application, get_env, [hawser, fallback]),
    ok.

echo(Here) ->
    ok = hawser:await(Here, 10_000),
    echo().

echo() ->
    receive
        {From, Message} -> hawser:send(From, {self(), Message})
    end,
    echo().
