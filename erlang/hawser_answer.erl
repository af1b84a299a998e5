%% @private
%% @doc How hawser's callers are told of an outcome: the vocabulary of `hawser:call' and the group calls.
%%
%% Called by `hawser' and `hawser_group'. Only words: never sends, receives or decides.
-module(hawser_answer).

-export([of_outcome/1]).

-export_type([answer/0, failure/0]).

%% `{error, E}' from a function that returned `{error, E}'; all else that it returned comes in `{ok, _}'.
-type answer() :: {ok, Value :: term()} | {error, failure() | (OfTheFunction :: term())}.

%% The function crashed, with the reason that its process would have ended with; or hawser does not know how it ended.
-type failure() ::
    {exit, Reason :: term()}
    | {badrpc, noconnection | timeout | system_limit | notsup | badarg}.

-spec of_outcome(hawser_request:outcome()) -> answer().
of_outcome({return, {error, _} = Error}) -> Error;
of_outcome({return, Value}) -> {ok, Value};
of_outcome({exit, Reason}) -> {error, {exit, Reason}};
of_outcome({error, Reason, Stack}) -> {error, {exit, {Reason, Stack}}};
of_outcome({throw, Value}) -> {error, {exit, {nocatch, Value}}};
of_outcome({signal, Reason}) -> {error, {exit, Reason}};
of_outcome({system, Reason}) -> {error, {badrpc, Reason}}.
