%% @private
%% @doc The old route: everything that hawser sends over Erlang distribution goes through here.
%%
%% Called by `hawser' for local destinations and for nodes without a session. The ordered switch between the routes,
%% when it comes, counts the senders that are inside these functions; nothing else may use `!' for a user's message.
-module(hawser_dist).

-export([send/2, send/3]).

-spec send(Dest, Message) -> Message when Dest :: erlang:send_destination(), Message :: term().
send(Dest, Message) ->
    erlang:send(Dest, Message).

-spec send(erlang:send_destination(), term(), [nosuspend | noconnect]) -> ok | nosuspend | noconnect.
send(Dest, Message, Opts) ->
    erlang:send(Dest, Message, Opts).
