%% What is logged of sessions, as reports with domain [hawser] and a key
%% `what`: one when a session is up, one when it ended, one now and then while
%% none comes up. hawser_peer calls it. Never logs a message or a secret.
-module(hawser_report).

-export([session_up/2, session_ended/3, attempt_failed/3]).
-export([text/1]).

-spec session_up(node(), Shards :: pos_integer()) -> ok.
session_up(Node, Shards) ->
    report(info, #{what => session_up, node => Node, shards => Shards}).

-spec session_ended(node(), Reason :: term(), hawser_session:counts()) -> ok.
session_ended(Node, Reason, Counts) ->
    report(level(Reason), #{what => session_ended, node => Node, reason => Reason, counts => Counts}).

%% An end that somebody asked for is no warning.
level(Reason) when is_atom(Reason) -> notice;
level(_) -> warning.

%% The third failure in a row is told, then every tenth.
-spec attempt_failed(node(), Attempts :: pos_integer(), Reason :: term()) -> ok.
attempt_failed(Node, Attempts, Reason) when Attempts rem 10 =:= 3 ->
    report(warning, #{what => no_session, node => Node, attempts => Attempts, reason => Reason});
attempt_failed(Node, Attempts, Reason) ->
    report(debug, #{what => no_session, node => Node, attempts => Attempts, reason => Reason}).

report(Level, Report) ->
    logger:log(Level, Report, #{domain => [hawser], report_cb => fun ?MODULE:text/1}).

%% The logger's callback.
-spec text(map()) -> {io:format(), [term()]}.
text(#{what := session_up, node := Node, shards := Shards}) ->
    {"hawser: session with ~ts, shards: ~b", [Node, Shards]};
text(#{what := session_ended, node := Node, reason := Reason, counts := Counts}) ->
    #{sent_messages := Sent, received_messages := Received, dropped := Dropped} = Counts,
    {"hawser: the session with ~ts ended: ~0tp. Sent ~b, received ~b, dropped ~0tp",
     [Node, Reason, Sent, Received, Dropped]};
text(#{what := no_session, node := Node, attempts := Attempts, reason := Reason}) ->
    {"hawser: no session with ~ts after ~b attempts: ~0tp", [Node, Attempts, Reason]}.
