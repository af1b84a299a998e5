%% One attempt to get a session with a node: a request to its hawser, then a
%% dial or an invitation, until sockets are there or it failed. Functions for
%% hawser_peer, which receives the messages and keeps the deadlines. Never
%% retries, never decides who dials.
-module(hawser_attempt).

-export([announce/1, invite/1, accept/3, heard/2, late/1, abandon/1, remote/1]).

-export_type([attempt/0, place/0, verdict/0, refusal/0]).

%% The other node, how distribution is connected to it, and this node.
-type place() :: {node(), none | visible | hidden, Local :: hawser_invitation:party()}.

-record(attempt, {
    kind :: announce | invite | dial | accept,
    place :: place(),
    request = none :: none | reference(),
    ticket = none :: none | hawser_control:ticket(),
    remote = none :: none | hawser_invitation:party(),
    terms = none :: none | hawser_invitation:terms()
}).

-opaque attempt() :: #attempt{}.

%% notsup: no hawser there, or one that cannot talk to this one. dialing: the
%% other side is about to dial us.
-type refusal() :: notsup | noconnection | dialing.

%% failed: worth another attempt. refused: not before the other side moves.
-type verdict() ::
    announced
    | {dialing, attempt()}
    | {established, hawser_invitation:party(), hawser_invitation:terms(), [reference()]}
    | {failed, Reason :: term()}
    | {refused, refusal()}.

%% Asks the node to invite us.
-spec announce(place()) -> {ok, attempt()} | {error, noconnection}.
announce({_, _, Local} = Place) ->
    ask(announce, hawser_invitation:turn(Local), Place).

%% Asks the node for its address and a secret, to dial it.
-spec invite(place()) -> {ok, attempt()} | {error, noconnection}.
invite({_, _, Local} = Place) ->
    ask(invite, hawser_invitation:wish(Local), Place).

ask(_, _, {_, none, _}) ->
    {error, noconnection};
ask(Kind, Request, {Node, Type, _} = Place) ->
    case hawser_invitation:ask(Node, Type, Request) of
        {ok, Ref} -> {ok, #attempt{kind = Kind, place = Place, request = Ref}};
        not_connected -> {error, noconnection}
    end.

%% Answers the node's wish: it may dial within ValidMs.
-spec accept({hawser_invitation:from(), hawser_invitation:wish()}, place(), ValidMs :: pos_integer()) ->
    {ok, attempt()} | {error, not_listening | busy | Sentence :: binary()}.
accept({From, #{party := Remote, terms := Wished}}, {_, _, Local} = Place, ValidMs) ->
    #{shards := Shards} = Terms = hawser_invitation:terms(Wished),
    case hawser_nif:invite(Local, Remote, Shards, ValidMs) of
        {error, Reason} ->
            hawser_invitation:reply(From, {error, told(Reason)}),
            {error, Reason};
        {Id, _} = Invitation ->
            ok = hawser_control:expect(Id),
            {_, Port} = hawser_control:listening(),
            hawser_invitation:reply(From, {ok, hawser_invitation:answer(Invitation, Local, Terms, Port)}),
            {ok, #attempt{kind = accept, place = Place, ticket = Id, remote = Remote, terms = Terms}}
    end.

%% The other node gets an atom; the sentence is for this one's info.
told(Reason) when is_atom(Reason) -> Reason;
told(_Sentence) -> cannot_invite.

%% What a message to the owner means for the attempt, which is over unless the
%% verdict is {dialing, Attempt}.
-spec heard(term(), attempt()) -> verdict() | other.
heard({[alias | Ref], Answer}, #attempt{request = Ref} = Attempt) ->
    hawser_invitation:abandon(Ref),
    answered(Answer, Attempt#attempt{request = none});
heard({'DOWN', Ref, process, _, Why}, #attempt{request = Ref}) ->
    case Why of
        noproc -> {refused, notsup};
        noconnection -> {refused, noconnection};
        _ -> {failed, directory_ended}
    end;
heard({hawser_control, Ticket, What}, #attempt{ticket = Ticket, remote = Remote, terms = Terms}) ->
    case What of
        {established, _, Sockets} -> {established, Remote, Terms, Sockets};
        {failed, Reason} -> {failed, Reason}
    end;
heard(_, _) ->
    other.

answered({error, Bad}, _) when Bad =:= bad_version; Bad =:= bad_invitation ->
    {refused, notsup};
answered(_, #attempt{kind = announce}) ->
    announced;
answered({error, dialing}, _) ->
    {refused, dialing};
answered({error, Reason}, _) when is_atom(Reason) ->
    {failed, Reason};
answered({ok, Answer}, #attempt{place = {Node, _, _}} = Attempt) ->
    case hawser_invitation:checked_answer(Answer, Node) of
        {ok, Checked} -> dial(Checked, Attempt);
        {error, Reason} -> {failed, Reason}
    end;
answered(_, _) ->
    {failed, bad_answer}.

dial(#{id := Id, secret := Secret, party := Remote, terms := #{shards := Shards} = Terms,
       host := Host, family := Family, port := Port}, #attempt{place = {_, _, Local}} = Attempt) ->
    ok = hawser_control:expect(Id),
    LimitMs = hawser_config:get(connect_timeout_ms),
    case hawser_nif:dial(Id, Secret, Local, Remote, Host, Family, Port, Shards, LimitMs) of
        ok ->
            {dialing, Attempt#attempt{kind = dial, ticket = Id, remote = Remote, terms = Terms}};
        {error, Reason} ->
            ok = hawser_control:forget(Id),
            {failed, Reason}
    end.

%% The owner's deadline has passed. A C node shows only by its silence; a node
%% that is merely slow may answer yet, and the attempt goes on: `unanswered`.
-spec late(attempt()) -> verdict() | unanswered.
late(#attempt{ticket = none, place = {_, hidden, _}}) -> {refused, notsup};
late(#attempt{ticket = none}) -> unanswered;
late(#attempt{kind = dial}) -> {failed, dial_timeout};
late(#attempt{kind = accept}) -> {failed, invitation_expired}.

%% Nothing of the attempt comes after this; its sockets are closed.
-spec abandon(attempt()) -> ok.
abandon(#attempt{request = Request, ticket = Ticket}) ->
    _ = [hawser_invitation:abandon(Request) || Request =/= none],
    _ = [hawser_control:forget(Ticket) || Ticket =/= none],
    ok.

%% The other side's party, once known.
-spec remote(attempt()) -> none | hawser_invitation:party().
remote(#attempt{remote = Remote}) ->
    Remote.
