%% What went over this node's sessions since hawser started, those that have
%% ended included. A row per node: the live session, which is asked when
%% somebody reads, and the sum of the ended ones. hawser_session writes the row
%% of its node, hawser_directory takes it over when the peer process is gone.
%% Readers take no lock and ask no process.
-module(hawser_totals).

-export([new/0, opened/2, ended/1, forget/1, no_session/0]).
-export([read/0]).

-export_type([totals/0]).

%% Bytes are those of the sockets. `no_session`: sends and casts that answered as if
%% they had sent, to a node without session, with `fallback` set to `none`.
-type totals() :: #{
    sent_messages := non_neg_integer(),
    sent_bytes := non_neg_integer(),
    received_messages := non_neg_integer(),
    received_bytes := non_neg_integer(),
    sessions_ended := non_neg_integer(),
    dropped := #{
        stale_pid | unknown_name | stale_alias | late_answer | expired_call | refused_cast | queued_at_close_bytes
        | unacked_at_close_bytes | no_session =>
            non_neg_integer()
    }
}.

-define(TABLE, ?MODULE).
%% The sums of the nodes that have no row any more. No node is called so.
-define(FORGOTTEN, {forgotten}).
-define(NO_SESSION, {no_session}).
-define(SUMS, [sent_messages, sent_bytes, received_messages, received_bytes]).

%% ---- writers ----

%% The table lives as long as the caller, the directory.
-spec new() -> ok.
new() ->
    ?TABLE = ets:new(?TABLE, [named_table, public, {read_concurrency, true}]),
    true = ets:insert(?TABLE, [{?FORGOTTEN, none, nothing()}, {?NO_SESSION, 0}]),
    ok.

%% Called by Node's peer process.
-spec opened(node(), hawser_nif:session()) -> ok.
opened(Node, Session) ->
    true = ets:insert(?TABLE, {Node, Session, sum_of(Node)}),
    ok.

sum_of(Node) ->
    case ets:lookup(?TABLE, Node) of
        [{_, _, Sum}] -> Sum;
        [] -> nothing()
    end.

%% Called by Node's peer process once the session is closed. The session turns
%% into its counts in one write: no reader misses it or sees it twice.
-spec ended(node()) -> ok.
ended(Node) ->
    case ets:whereis(?TABLE) =/= undefined andalso ets:lookup(?TABLE, Node) of
        [{_, Session, Sum}] when Session =/= none ->
            Ended = add((counts(Session))#{sessions_ended := 1}, Sum),
            true = ets:insert(?TABLE, {Node, none, Ended}),
            ok;
        _ ->
            ok
    end.

%% Called by the directory when Node's peer process is gone, its session closed.
-spec forget(node()) -> ok.
forget(Node) ->
    ok = ended(Node),
    Forgotten = add(sum_of(Node), sum_of(?FORGOTTEN)),
    true = ets:insert(?TABLE, [{Node, none, nothing()}, {?FORGOTTEN, none, Forgotten}]),
    true = ets:delete(?TABLE, Node),
    ok.

%% Called by the sender of a message that went nowhere.
-spec no_session() -> ok.
no_session() ->
    try ets:update_counter(?TABLE, ?NO_SESSION, 1) of
        _ -> ok
    catch
        %% hawser does not run: nor does it count.
        error:badarg -> ok
    end.

%% ---- readers ----

-spec read() -> totals().
read() ->
    case ets:whereis(?TABLE) of
        undefined -> nothing();
        Table -> read(Table)
    end.

%% A node that is forgotten meanwhile could be met twice or not at all: then
%% once more.
read(Table) ->
    Before = ets:lookup(Table, ?FORGOTTEN),
    Rows = ets:select(Table, [{{'_', '_', '_'}, [], ['$_']}]),
    case ets:lookup(Table, ?FORGOTTEN) of
        Before ->
            [{_, NoSession}] = ets:lookup(Table, ?NO_SESSION),
            #{dropped := Dropped} = Totals = lists:foldl(fun row/2, nothing(), Rows),
            Totals#{dropped := Dropped#{no_session := NoSession}};
        _ ->
            read(Table)
    end.

row({_, none, Sum}, Totals) -> add(Sum, Totals);
row({_, Session, Sum}, Totals) -> add(counts(Session), add(Sum, Totals)).

counts(Session) ->
    #{shards := Shards, dropped := Dropped} = hawser_nif:session_info(Session),
    Sums = maps:from_list([{Key, lists:sum([maps:get(Key, Shard) || Shard <- Shards])} || Key <- ?SUMS]),
    Sums#{sessions_ended => 0, dropped => maps:put(no_session, 0, Dropped)}.

nothing() ->
    Dropped = [
        stale_pid, unknown_name, stale_alias, late_answer, expired_call, refused_cast, queued_at_close_bytes,
        unacked_at_close_bytes, no_session
    ],
    Sums = maps:from_list([{Key, 0} || Key <- [sessions_ended | ?SUMS]]),
    Sums#{dropped => maps:from_list([{Key, 0} || Key <- Dropped])}.

add(#{dropped := DroppedA} = A, #{dropped := DroppedB} = B) ->
    Sums = plus(maps:remove(dropped, A), maps:remove(dropped, B)),
    Sums#{dropped => plus(DroppedA, DroppedB)}.

plus(A, B) ->
    maps:merge_with(fun(_, X, Y) -> X + Y end, A, B).
