%% The exchange by which two nodes agree on a session, over distribution: what
%% is asked of the other node's directory, what it answers, and the check of
%% both, since the other node may lie. hawser_directory and hawser_peer call
%% it. Never makes an atom from what a peer sent, never opens a socket.
%%
%%   dialer                                acceptor's hawser_directory
%%   {invite, 1, wish()}            ---->
%%                                  <----  {ok, answer()} | {error, Reason}
%%   {your_turn, 1, #{party := P}}  ---->  (the other side is to dial)
%%                                  <----  ok | {error, Reason}
%%
%% Unknown map keys are ignored: a later version may add some.
-module(hawser_invitation).

-export([wish/1, ask/3, abandon/1, turn/1]).
-export([checked/2, checked_answer/2, answer/4, reply/2, terms/1]).

-export_type([party/0, terms/0, wish/0, answer/0, request/0, from/0]).

-type party() :: {Name :: binary(), Creation :: non_neg_integer(), Incarnation :: <<_:128>>}.

%% What the two nodes must agree on. Limits: the smaller counts; the heartbeat:
%% the longer interval, so that neither end takes the other for dead.
-type terms() :: #{
    shards := 1..64,
    heartbeat_interval_ms := pos_integer(),
    max_message_bytes := pos_integer(),
    max_unacked_bytes := pos_integer(),
    ack_every_bytes := pos_integer()
}.
-type wish() :: #{party := party(), terms := terms()}.
-type answer() :: #{
    id := <<_:128>>,
    secret := <<_:256>>,
    party := party(),
    terms := terms(),
    host := binary(),
    family := inet | inet6,
    port := inet:port_number()
}.
-type request() :: {invite, 1, wish()} | {your_turn, 1, #{party := party()}}.
-type from() :: {pid(), term()}.

-define(VERSION, 1).
-define(TERMS, [shards, heartbeat_interval_ms, max_message_bytes, max_unacked_bytes,
                ack_every_bytes]).

%% ---- asking ----

-spec wish(party()) -> request().
wish(Local) ->
    {invite, ?VERSION, #{party => Local, terms => own_terms()}}.

-spec turn(party()) -> request().
turn(Local) ->
    {your_turn, ?VERSION, #{party => Local}}.

own_terms() ->
    maps:from_list([{Key, hawser_config:get(Key)} || Key <- ?TERMS]).

%% Asks the directory of Node. The answer comes as {[alias | Ref], Answer}, and
%% for a visible node {'DOWN', Ref, ...} when no directory runs there. A hidden
%% node is not monitored: a C node closes its connection on a signal that it
%% does not know. Never connects distribution and never waits for it.
-dialyzer({no_improper_lists, ask/3}).
-spec ask(node(), visible | hidden, request()) -> {ok, reference()} | not_connected.
ask(Node, Type, Request) ->
    Directory = {hawser_directory, Node},
    case lists:member(Node, nodes(Type)) of
        true ->
            Ref = reply_address(Directory, Type),
            ok = post(Directory, {'$gen_call', {self(), [alias | Ref]}, Request}),
            {ok, Ref};
        false ->
            not_connected
    end.

reply_address(Directory, visible) -> monitor(process, Directory, [{alias, demonitor}]);
reply_address(_, hidden) -> alias().

%% After this no answer comes any more.
-spec abandon(reference()) -> ok.
abandon(Ref) ->
    _ = unalias(Ref),
    demonitor(Ref, [flush]),
    receive {[alias | Ref], _} -> ok after 0 -> ok end.

%% ---- answering ----

-spec answer({Id :: <<_:128>>, Secret :: <<_:256>>}, party(), terms(), inet:port_number()) -> answer().
answer({Id, Secret}, Local, Terms, Listened) ->
    {Host, Family, Port} = hawser_address:dialled_at(Listened),
    #{id => Id, secret => Secret, party => Local, terms => Terms,
      host => Host, family => Family, port => Port}.

%% Never waits for distribution. An answer that is lost with it is not missed:
%% the node that asked has a deadline, and the invitation runs out.
-spec reply(from(), {ok, answer()} | ok | {error, atom()}) -> ok.
reply({_, [alias | Alias] = Tag}, Answer) when is_reference(Alias) ->
    post(Alias, {Tag, Answer});
reply(_, _) ->
    ok.

%% A busy distribution channel suspends a process of its own, which ends when
%% the channel takes the message or breaks.
post(Dest, Message) ->
    case erlang:send(Dest, Message, [noconnect, nosuspend]) of
        nosuspend ->
            _ = spawn_link(fun() -> erlang:send(Dest, Message, [noconnect]) end),
            ok;
        _ ->
            ok
    end.

%% What both nodes can live with.
-spec terms(terms()) -> terms().
terms(Theirs) ->
    maps:map(
        fun(heartbeat_interval_ms, Own) -> max(Own, maps:get(heartbeat_interval_ms, Theirs));
           (Key, Own) -> min(Own, maps:get(Key, Theirs))
        end, own_terms()).

%% ---- checking what came from another node ----

%% A request that Node sent.
-spec checked(term(), node()) -> {ok, wish() | party()} | {error, bad_invitation | bad_version}.
checked({invite, ?VERSION, #{party := Party, terms := #{} = Terms}}, Node) ->
    case is_party(Party, Node) andalso are_terms(Terms) of
        true -> {ok, #{party => Party, terms => maps:with(?TERMS, Terms)}};
        false -> {error, bad_invitation}
    end;
checked({your_turn, ?VERSION, #{party := Party}}, Node) ->
    case is_party(Party, Node) of
        true -> {ok, Party};
        false -> {error, bad_invitation}
    end;
checked({Request, Version, _}, _) when Request =:= invite; Request =:= your_turn ->
    case is_integer(Version) andalso Version =/= ?VERSION of
        true -> {error, bad_version};
        false -> {error, bad_invitation}
    end;
checked(_, _) ->
    {error, bad_invitation}.

%% An answer from Node. It may not ask for more than this node wished for.
-spec checked_answer(term(), node()) -> {ok, answer()} | {error, bad_answer}.
checked_answer(#{id := <<_:16/binary>>, secret := <<_:32/binary>>, party := Party, terms := #{} = Terms,
                 host := <<_, _/binary>> = Host, family := Family, port := Port} = Answer, Node)
  when byte_size(Host) =< 1012, is_integer(Port), Port >= 1, Port =< 65535,
       Family =:= inet orelse Family =:= inet6 ->
    Good = is_party(Party, Node) andalso are_terms(Terms) andalso
        maps:with(?TERMS, Terms) =:= terms(Terms),
    case Good of
        true ->
            Known = maps:with([id, secret, party, host, family, port], Answer),
            {ok, Known#{terms => maps:with(?TERMS, Terms)}};
        false ->
            {error, bad_answer}
    end;
checked_answer(_, _) ->
    {error, bad_answer}.

is_party({Name, Creation, <<_:16/binary>>}, Node) when is_binary(Name), is_integer(Creation), Creation >= 0 ->
    Name =:= atom_to_binary(Node) andalso Creation < 1 bsl 32;
is_party(_, _) ->
    false.

%% What would be refused in this node's own configuration is refused from another node.
are_terms(Terms) ->
    Wished = maps:with(?TERMS, Terms),
    lists:all(fun(Key) -> is_integer(maps:get(Key, Wished, none)) end, ?TERMS) andalso
        element(1, hawser_config:validate(Wished)) =:= ok.
