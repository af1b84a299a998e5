%% Whose turn it is to dial, and after which pause. The node with the smaller
%% name dials; after two failures it asks the other side, which then tries
%% once. Plain values for hawser_peer: no process, no clock.
-module(hawser_redial).

-export([new/2, is_first/1, is_ours/1, attempts/1, pause_ms/1]).
-export([asked/1, met_anew/1, failed/1, refused/1, up/1, ended/2, rested/1]).

-export_type([redial/0]).

-record(redial, {
    %% Ours is the smaller name.
    first :: boolean(),
    %% The other side asked us to dial, whatever the names say.
    asked = false :: boolean(),
    %% Failures in a row, and those since the other side was asked to dial.
    attempts = 0 :: non_neg_integer(),
    failures = 0 :: non_neg_integer()
}).

-opaque redial() :: #redial{}.

-define(FAILURES, 2).
-define(FIRST_MS, 100).
-define(MOST_MS, 10000).
%% A session that lived this long was a success.
-define(SETTLED_MS, 5000).

-spec new(OwnName :: binary(), node()) -> redial().
new(OwnName, Node) ->
    #redial{first = OwnName < atom_to_binary(Node)}.

%% Decides when both sides dial.
-spec is_first(redial()) -> boolean().
is_first(#redial{first = First}) ->
    First.

-spec is_ours(redial()) -> boolean().
is_ours(#redial{first = First, asked = Asked}) ->
    First orelse Asked.

-spec attempts(redial()) -> non_neg_integer().
attempts(#redial{attempts = Attempts}) ->
    Attempts.

%% Before the next attempt: nothing for the first, then doubled each time, with
%% a random half, so that many nodes do not come back in step.
-spec pause_ms(redial()) -> non_neg_integer().
pause_ms(#redial{attempts = 0}) ->
    0;
pause_ms(#redial{attempts = Attempts}) ->
    Full = min(?FIRST_MS bsl min(Attempts - 1, 16), ?MOST_MS),
    Full div 2 + rand:uniform(Full div 2).

%% ---- what happened ----

%% The other side asked us to dial.
-spec asked(redial()) -> redial().
asked(Redial) ->
    Redial#redial{asked = true}.

%% The other side's hawser is another one than before.
-spec met_anew(redial()) -> redial().
met_anew(Redial) ->
    Redial#redial{attempts = 0}.

-spec failed(redial()) -> {again | other_side, redial()}.
failed(#redial{first = First, attempts = Attempts, failures = Failures} = Redial) ->
    Failed = Redial#redial{asked = false, attempts = Attempts + 1, failures = Failures + 1},
    case First andalso Failures + 1 < ?FAILURES of
        true -> {again, Failed};
        false -> {other_side, Failed#redial{failures = 0}}
    end.

%% The other side wants no session now.
-spec refused(redial()) -> redial().
refused(Redial) ->
    Redial#redial{asked = false}.

-spec up(redial()) -> redial().
up(Redial) ->
    Redial#redial{asked = false, failures = 0}.

%% A session that ended right away counts as a failure.
-spec ended(LivedMs :: non_neg_integer(), redial()) -> redial().
ended(LivedMs, Redial) when LivedMs >= ?SETTLED_MS ->
    Redial#redial{attempts = 0};
ended(_, #redial{attempts = Attempts} = Redial) ->
    Redial#redial{attempts = Attempts + 1}.

%% The session ended on purpose: the next one, when wanted, is made at once.
-spec rested(redial()) -> redial().
rested(Redial) ->
    Redial#redial{attempts = 0}.
