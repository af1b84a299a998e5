%% What send promises: every term to every form of destination, nothing to what is not there, and the answers and errors
%% of `erlang:send'.
-module(hawser_send_SUITE).

-export([suite/0, all/0, groups/0, init_per_group/2, end_per_group/2]).
-export([
    every_term/1, answers/1, local_destinations/1, replies/1, third_node/1, nothing_there/1, ports_and_names/1,
    as_erlang_send/1, options_of_erlang/1, too_long/1, full_dictionary/1
]).
%% Run on the nodes.
-export([comparer/0, compared/2, send_all/2, echo/0, keeper/0, kept/1, differences/2, outcome/3]).

-import(hawser_test_nodes, [start_node/1, stop/1, call/4, call/5, await_session/2]).

-define(MS, 60000).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [{group, one_shard}, {group, four_shards}].

groups() ->
    Cases = [
        every_term, answers, local_destinations, replies, third_node, nothing_there, ports_and_names, as_erlang_send,
        options_of_erlang, too_long, full_dictionary
    ],
    [{one_shard, [], Cases}, {four_shards, [], Cases}].

init_per_group(Group, Config) ->
    Env = #{shards => shards(Group)},
    [A, B] = [start_node(#{env => Env, link => false}) || _ <- [a, b]],
    ok = await_session(A, B),
    [{env, Env}, {nodes, [A, B]} | Config].

end_per_group(_, Config) ->
    [stop(Peer) || {Peer, _} <- proplists:get_value(nodes, Config)].

shards(one_shard) -> 1;
shards(four_shards) -> 4.

pair(Config) ->
    proplists:get_value(nodes, Config).

%% ---- what arrives ----

%% Every kind of term arrives equal to what distribution brings of it, and send answers the term itself.
every_term(Config) ->
    [{A, _}, {B, _}] = pair(Config),
    {To, Expected} = call(B, ?MODULE, comparer, []),
    Count = call(A, ?MODULE, send_all, [To, Expected], ?MS),
    true = Count > 200,
    [] = call(B, ?MODULE, compared, [To, Count], ?MS).

%% send/2 answers the message, send/3 answers ok, wherever the message goes.
answers(Config) ->
    [{A, _}, {B, NodeB}] = pair(Config),
    [#{pid := Pid, name := Name, alias := Alias}] = call(B, hawser_stream, receivers, [1]),
    Destinations = [Pid, Name, Alias, {no_such_name, NodeB}],
    Message = {stream, me, 1, none, none},
    [Message = call(A, hawser, send, [To, Message]) || To <- Destinations],
    [ok = call(A, hawser, send, [To, Message, Opts])
     || To <- Destinations, Opts <- [[], [nosuspend], [noconnect], [noconnect, nosuspend, noconnect]]].

%% A pid, a name, a name with the node's own and an alias reach a local process.
local_destinations(Config) ->
    [{A, NodeA} | _] = pair(Config),
    [#{pid := Pid, name := {Name, NodeA}, alias := Alias} = Receiver] = call(A, hawser_stream, receivers, [1]),
    Destinations = [Pid, Name, {Name, NodeA}, Alias],
    ok = call(A, erlang, apply, [fun() ->
        Numbered = lists:zip(lists:seq(1, 4), Destinations),
        _ = [{stream, me, N, none, none} = hawser:send(To, {stream, me, N, none, none}) || {N, To} <- Numbered],
        _ = [ok = hawser:send(To, {stream, me, N + 4, none, none}, [nosuspend]) || {N, To} <- Numbered],
        ok = hawser:send(Pid, {stream_end, me, 8}, [])
    end, []]),
    ok = call(A, hawser_stream, await, [Receiver, 1, ?MS]),
    {dead, gone} = call(A, erlang, apply, [fun() ->
        {Dead, Monitor} = spawn_monitor(fun() -> ok end),
        receive {'DOWN', Monitor, process, Dead, _} -> ok end,
        Gone = alias(),
        true = unalias(Gone),
        {hawser:send(Dead, dead), hawser:send(Gone, gone)}
    end, []]).

%% Pids and aliases that travel in messages are good for an answer, the alias of a reply once.
replies(Config) ->
    [{A, _}, {B, _}] = pair(Config),
    Echo = call(B, ?MODULE, echo, []),
    ok = call(A, erlang, apply, [fun() ->
        Lasting = alias(),
        Once = alias([reply]),
        _ = [hawser:send(Echo, {To, N}) || {To, N} <- [{self(), 1}, {Lasting, 2}, {Once, 3}, {Once, 4}, {Lasting, 5}, {self(), 6}]],
        [1, 2, 3, 5, 6] = [receive {echo, N} -> N end || N <- [1, 2, 3, 5, 6]],
        receive {echo, 4} -> error(alias_of_one_reply_took_two) after 0 -> ok end
    end, []]).

%% Identifiers of a third node are the same processes where they arrive.
third_node(Config) ->
    [{A, _}, {B, _}] = pair(Config),
    {C, _} = start_node(#{env => proplists:get_value(env, Config)}),
    Echo = call(B, ?MODULE, echo, []),
    [#{pid := Pid, alias := Alias} = Receiver] = call(C, hawser_stream, receivers, [1]),
    ok = call(A, erlang, apply, [fun() ->
        _ = [hawser:send(Echo, {as_it_is, To, {stream, me, N, none, none}}) || {N, To} <- [{1, Pid}, {2, Alias}, {3, Pid}]],
        _ = hawser:send(Echo, {as_it_is, Pid, {stream_end, me, 3}}),
        ok
    end, []]),
    ok = call(C, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS).

%% ---- what does not arrive ----

%% Unknown names, dead processes and inactive aliases swallow messages; nothing happens to those behind them.
nothing_there(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    [Receiver] = call(B, hawser_stream, receivers, [1]),
    {Dead, Gone} = call(B, erlang, apply, [fun() ->
        {Pid, Monitor} = spawn_monitor(fun() -> exit(alias()) end),
        receive {'DOWN', Monitor, process, Pid, Alias} -> {Pid, Alias} end
    end, []]),
    Before = dropped(B, NodeA),
    ok = call(A, erlang, apply, [fun() ->
        _ = [{lost, N} = hawser:send(To, {lost, N}) || N <- lists:seq(1, 100), To <- [{no_such_name, NodeB}, Dead, Gone]],
        hawser_stream:stream(me, Receiver, #{count => 100, forms => [pid, alias, name]})
    end, []]),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS),
    #{unknown_name := 100} = difference(dropped(B, NodeA), Before).

%% A name that is registered to a port gets nothing and is counted as a name that nobody has.
ports_and_names(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    [Receiver] = call(B, hawser_stream, receivers, [1]),
    true = call(B, erlang, apply, [fun() ->
        Owner = spawn(fun() -> receive {go, From} -> From ! {self(), register(a_port, open_port({spawn, "cat"}, []))}, receive after infinity -> ok end end end),
        Owner ! {go, self()},
        receive {Owner, Registered} -> Registered end
    end, []]),
    Before = dropped(B, NodeA),
    ok = call(A, erlang, apply, [fun() ->
        _ = [hawser:send({a_port, NodeB}, Message) || Message <- [{self(), {command, "text"}}, {self(), close}, any]],
        hawser_stream:stream(me, Receiver, #{count => 1})
    end, []]),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS),
    #{unknown_name := 3} = difference(dropped(B, NodeA), Before),
    true = call(B, erlang, is_port, [call(B, erlang, whereis, [a_port])]).

dropped(Peer, Node) ->
    #{session := #{dropped := Dropped}} = call(Peer, hawser, info, [Node]),
    Dropped.

difference(After, Before) ->
    maps:filter(fun(_, N) -> N =/= 0 end, maps:map(fun(Key, N) -> N - maps:get(Key, Before) end, After)).

%% ---- errors ----

%% Each destination gives the answer, or the class and reason of the error, that erlang:send/2 gives.
as_erlang_send(Config) ->
    [{A, NodeA}, {_, NodeB}] = pair(Config),
    Destinations = [
        42, -1, 1.5, "a string", <<"binary">>, [], {}, #{}, {a}, {a, b, c}, {"x", NodeA}, {"x", NodeB}, {x, "node"}, {x, 1}, {42, NodeB},
        {x, NodeA}, {x, NodeB}, {undefined, NodeB}, no_such_name, undefined, nonode@nohost, fun erlang:self/0, {self(), NodeB},
        {x, 'nobody@127.0.0.1'}, {x, nonode@nohost}, {x, ''}, {x, nobody}, [a | b],
        hawser_term_kinds:port(NodeB, 1, 1), hawser_term_kinds:pid(NodeB, 1, 0, 1), hawser_term_kinds:reference(NodeB, 1, [1, 2, 3]),
        hawser_term_kinds:pid(NodeA, 1, 0, 1), hawser_term_kinds:reference(NodeA, 1, [1, 2, 3])
    ],
    [] = call(A, ?MODULE, differences, [fun(Module, [To]) -> Module:send(To, an_odd_message) end, [[To] || To <- Destinations]], ?MS).

%% The same for send/3 and all that may stand for options; `priority' is refused where erlang:send takes it.
options_of_erlang(Config) ->
    [{A, NodeA}, {B, NodeB}] = pair(Config),
    [#{pid := Pid, name := Name, alias := Alias}] = call(B, hawser_stream, receivers, [1]),
    Destinations = [Pid, Name, Alias, {x, NodeA}, {x, NodeB}, {x, 'nobody@127.0.0.1'}, no_such_name, 42, {"x", NodeB}, {x, "node"}],
    Options = [
        [], [nosuspend], [noconnect], [nosuspend, noconnect], [nosuspend, nosuspend], [bogus], [nosuspend, bogus], [42], [[]],
        [nosuspend | noconnect], [nosuspend | []], nosuspend, {nosuspend}, #{}, "nosuspend", <<>>, [{nosuspend, true}]
    ],
    Message = {stream, me, 1, none, none},
    Send = fun(Module, [To, Opts]) -> Module:send(To, Message, Opts) end,
    [] = call(A, ?MODULE, differences, [Send, [[To, Opts] || To <- Destinations, Opts <- Options]], ?MS),
    [{error, badarg} = call(A, ?MODULE, outcome, [Send, hawser, [To, [priority]]]) || To <- Destinations],
    ok.

%% A message over the limit is the caller's error; what is within it arrives, before and after, through the same session.
too_long(_) ->
    Limit = 10000,
    [{A, _}, {B, NodeB}] = Nodes = [start_node(#{env => #{max_message_bytes => Limit}}) || _ <- [a, b]],
    ok = await_session(hd(Nodes), {B, NodeB}),
    #{pid := Pid, name := Name, alias := Alias} = call(B, ?MODULE, keeper, []),
    %% In external term format a binary has a version, a tag and four bytes of length.
    Longest = binary:copy(<<1>>, Limit - 6),
    ok = call(A, erlang, apply, [fun() ->
        _ = [begin
            Longest = hawser:send(To, Longest),
            [] = [{Which, Opts} || {Which, TooLong} <- too_long_ones(Limit), Opts <- [[], [[nosuspend]]],
                                  outcome(fun send/2, hawser, [To, TooLong | Opts]) =/= {error, system_limit}],
            ok = hawser:send(To, next, [])
        end || To <- [Pid, Name, Alias]],
        done = hawser:send(Pid, done),
        ok
    end, []]),
    [Longest, next, Longest, next, Longest, next] = call(B, ?MODULE, kept, [Pid]),
    [] = [Entry || #{report := #{what := session_ended}} = Entry <- hawser_test_nodes:logs(A)].

%% By a byte and by a lot, in hawser's own form and in the plain one; strings and atoms are written in one go.
too_long_ones(Limit) ->
    [
        {a_byte, binary:copy(<<1>>, Limit - 4)}, {last_element, {ok, binary:copy(<<1>>, Limit)}}, {binary, binary:copy(<<1>>, 100000)},
        {string, lists:duplicate(60000, $x)}, {last_string, {ok, lists:duplicate(Limit, $x)}}, {list, lists:seq(1, 60000)},
        {bitstring, <<0:(Limit * 8 + 1)>>}, {deep, hawser_term_kinds:nested(tuple, Limit)}, {with_fun, [fun() -> Limit end | binary:copy(<<1>>, Limit)]}
    ].

%% With no room in the dictionary names and atoms travel as text, and all arrives.
full_dictionary(Config) ->
    Env = maps:put(max_dictionary_atoms, 0, proplists:get_value(env, Config)),
    [{A, _}, {B, NodeB}] = Nodes = [start_node(#{env => Env}) || _ <- [a, b]],
    ok = await_session(hd(Nodes), {B, NodeB}),
    [Receiver] = call(B, hawser_stream, receivers, [1]),
    ok = call(A, hawser_stream, stream, [me, Receiver, #{count => 300, forms => [name, pid, alias], payload => mixed}], ?MS),
    ok = call(B, hawser_stream, await, [Receiver, 1, ?MS], 2 * ?MS),
    #{session := #{dictionary_atoms := 0, atoms_sent_as_text := Sent}} = call(A, hawser, info, [NodeB]),
    true = Sent > 300.

%% ---- on the nodes ----

%% A process that compares what comes to it with what comes to the other one, term by term.
comparer() ->
    Ref = make_ref(),
    Comparer = spawn(fun() -> compare(Ref, 0, queue:new(), queue:new(), []) end),
    Expected = spawn(fun Pass() -> receive Term -> Comparer ! {Ref, expected, Term} end, Pass() end),
    {Comparer, Expected}.

compare(Ref, Count, Came, Expected, Different) ->
    case {queue:out(Came), queue:out(Expected)} of
        {{{value, Term}, LessCame}, {{value, Other}, LessExpected}} ->
            Found = [{Count + 1, Term, Other} || not hawser_term_kinds:equal(Term, Other)],
            tell({?MODULE, count, Count + 1}, Found ++ Different),
            compare(Ref, Count + 1, LessCame, LessExpected, Found ++ Different);
        _ ->
            receive
                {Ref, expected, Term} -> compare(Ref, Count, Came, queue:in(Term, Expected), Different);
                {?MODULE, asked, From, Wanted} ->
                    _ = put({?MODULE, count, Wanted}, From),
                    tell({?MODULE, count, Count}, Different),
                    compare(Ref, Count, Came, Expected, Different);
                Term -> compare(Ref, Count, queue:in(Term, Came), Expected, Different)
            end
    end.

tell(Key, Different) ->
    case erase(Key) of
        undefined -> ok;
        From -> From ! {self(), Different}
    end.

%% What differs, once so many have been compared.
compared(Comparer, Count) ->
    Comparer ! {?MODULE, asked, self(), Count},
    receive {Comparer, Different} -> Different end.

send_all(To, Expected) ->
    Terms = [To, Expected | [Term || {_, Term} <- hawser_term_kinds:all()]],
    _ = [begin
        Expected ! Term,
        true = hawser_term_kinds:equal(Term, hawser:send(To, Term))
    end || Term <- Terms],
    length(Terms).

echo() ->
    spawn(fun Echo() ->
        receive
            {as_it_is, To, Message} -> hawser:send(To, Message);
            {To, Message} -> hawser:send(To, {echo, Message})
        end,
        Echo()
    end).

%% Keeps what comes until `done' does.
keeper() ->
    Starter = self(),
    Pid = spawn(fun() ->
        register(hawser_keeper, self()),
        Starter ! {self(), #{pid => self(), name => {hawser_keeper, node()}, alias => alias()}},
        keep([])
    end),
    receive {Pid, Keeper} -> Keeper end.

keep(Messages) ->
    receive
        done -> receive {kept, From} -> From ! {self(), lists:reverse(Messages)} end;
        Message -> keep([Message | Messages])
    end.

kept(Pid) ->
    Pid ! {kept, self()},
    receive {Pid, Messages} -> Messages end.

%% Where hawser does another thing than erlang does.
differences(Send, Cases) ->
    [{Case, Theirs, Ours} || Case <- Cases, Theirs <- [outcome(Send, erlang, Case)], Ours <- [outcome(Send, hawser, Case)],
                             Theirs =/= Ours].

outcome(Send, Module, Args) ->
    try {answer, Send(Module, Args)} catch Class:Reason -> {Class, Reason} end.

send(Module, Args) ->
    apply(Module, send, Args).
