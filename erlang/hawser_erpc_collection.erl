%% @private
%% @doc The collections of request ids of `hawser_erpc': requests by the tag of their messages, each with a label.
%%
%% Called by `hawser_erpc' alone, with what its user gave it: what is no collection is `error:{erpc, badarg}', found
%% where erpc finds it. Never turns an outcome into a result: that is for the caller.
-module(hawser_erpc_collection).

-export([new/0, size/1, send/4, add/3, to_list/1]).
-export([next/2, check/2, labelled/4, give_up/1]).

-export_type([collection/0]).

-opaque collection() :: #{reference() => {hawser_request:pending(), Label :: term()}}.

-define(BADARG, error({erpc, badarg})).

-spec new() -> collection().
new() ->
    #{}.

-spec size(collection()) -> non_neg_integer().
size(Collection) when is_map(Collection) ->
    map_size(Collection);
size(_) ->
    ?BADARG.

%% Sends a request, if there is a collection to add it to.
-spec send(node(), hawser_request:mfargs(), Label :: term(), collection()) -> collection().
send(Node, Mfa, Label, Collection) when is_map(Collection) ->
    Id = hawser_request:send(Node, Mfa, infinity),
    Collection#{hawser_request:tag(Id) => {Id, Label}};
send(_, _, _, _) ->
    ?BADARG.

-spec add(hawser_request:pending(), Label :: term(), collection()) -> collection().
add(Id, Label, Collection) when is_map(Collection) ->
    Tag = hawser_request:tag(Id),
    case Collection of
        #{Tag := _} -> ?BADARG;
        #{} -> Collection#{Tag => {Id, Label}}
    end;
add(_, _, _) ->
    ?BADARG.

-spec to_list(collection()) -> [{hawser_request:pending(), Label :: term()}].
to_list(Collection) when is_map(Collection) ->
    maps:fold(fun(Tag, Entry, List) -> [entry(Tag, Entry) | List] end, [], Collection);
to_list(_) ->
    ?BADARG.

%% The next outcome that comes until the deadline, with its request's tag.
-spec next(collection(), hawser_request:deadline()) -> {reference(), hawser_request:outcome()} | no_request | timeout.
next(Collection, _) when map_size(Collection) =:= 0 ->
    no_request;
next(Collection, Deadline) when is_map(Collection) ->
    hawser_request:receive_any(Collection, Deadline);
next(_, _) ->
    ?BADARG.

%% The outcome that the message brings.
-spec check(term(), collection()) -> {reference(), hawser_request:outcome()} | no_request | no.
check(_, Collection) when map_size(Collection) =:= 0 ->
    no_request;
check(Message, Collection) when is_map(Collection) ->
    hawser_request:check_any(Message, Collection);
check(_, _) ->
    ?BADARG.

%% What `Response' returns or raises, with the request's label and the collection, in which the request stays unless
%% `Delete'.
-spec labelled(fun(() -> Response), reference(), collection(), Delete :: boolean()) ->
    {Response, Label :: term(), collection()}.
labelled(Response, Tag, Collection, Delete) ->
    {_, Label} = entry(Tag, maps:get(Tag, Collection)),
    Left =
        case Delete of
            true -> maps:remove(Tag, Collection);
            false -> Collection
        end,
    try
        {Response(), Label, Left}
    catch
        Class:Reason:Stack -> erlang:raise(Class, {Reason, Label, Left}, Stack)
    end.

%% Gives all requests up, those whose outcomes have come included.
-spec give_up(collection()) -> ok.
give_up(Collection) ->
    maps:foreach(
        fun(Tag, Entry) ->
            {Id, _} = entry(Tag, Entry),
            hawser_request:abandon(Id)
        end,
        Collection
    ).

%% A request and its label, if that is what is there.
entry(Tag, {Id, _} = Entry) ->
    case hawser_request:is_pending(Id) andalso hawser_request:tag(Id) of
        Tag when is_reference(Tag) -> Entry;
        _ -> ?BADARG
    end;
entry(_, _) ->
    ?BADARG.
