%% @private
%% @doc Takes one shard's messages out of its socket and delivers them, for the life of the session.
%%
%% The NIF reads, decodes and sorts out what has no receiver here; what it returns goes to processes of this
%% incarnation with `!'. Coming back for more is the receipt for what was delivered. The process raises for nothing
%% that a peer sends and waits for nobody; how the shard ended it tells the session's owner, once.
-module(hawser_reader).

-export([start_link/3]).
-export([init/3, resume/2]).

-type whose() :: {Index :: non_neg_integer(), Owner :: pid()}.

%% How often an empty socket is looked at again, others having had their turn, before the VM is asked to watch it.
-define(LOOKS, 3).

-spec start_link(hawser_nif:shard(), Index :: non_neg_integer(), Owner :: pid()) -> {ok, pid()}.
start_link(Shard, Index, Owner) ->
    Pid = spawn_opt(?MODULE, init, [Shard, Index, Owner], [
        link, {priority, normal}, {fullsweep_after, 20}, {message_queue_data, off_heap}
    ]),
    {ok, Pid}.

-spec init(hawser_nif:shard(), non_neg_integer(), pid()) -> no_return().
init(Shard, Index, Owner) ->
    sleep(Shard, {Index, Owner}, busy).

-spec resume(hawser_nif:shard(), whose()) -> no_return().
resume(Shard, Whose) ->
    sleep(Shard, Whose, idle).

%% Until the VM says that there is something to read. An idle shard's reader gives its heap back, and does so again
%% after each tick of the peer that wakes it.
sleep(Shard, Whose, Mode) ->
    receive
        hawser_recv -> loop(Shard, Whose, ?LOOKS, Mode);
        hawser_idle -> erlang:hibernate(?MODULE, resume, [Shard, Whose]);
        {{hawser_body, Call}, _, process, _, Reason} ->
            hawser_body:ended(Shard, Call, Reason),
            sleep(Shard, Whose, Mode)
    end.

loop(Shard, Whose, Looks, Mode) ->
    case hawser_nif:recv(Shard, Looks =:= 0) of
        again ->
            erlang:yield(),
            loop(Shard, Whose, Looks - 1, Mode);
        wait when Mode =:= idle ->
            erlang:hibernate(?MODULE, resume, [Shard, Whose]);
        wait ->
            sleep(Shard, Whose, Mode);
        Messages when is_list(Messages) ->
            case deliver(Messages, Shard) of
                ok ->
                    bury(Shard),
                    loop(Shard, Whose, ?LOOKS, busy);
                Malformed -> finish(Malformed, Whose)
            end;
        End ->
            finish(End, Whose)
    end.

deliver([[To | Message] | Rest], Shard) ->
    To ! Message,
    deliver(Rest, Shard);
deliver([{call, Call, Request} | Rest], Shard) ->
    hawser_body:start_call(term, Request, Shard, Call),
    deliver(Rest, Shard);
deliver([{cast, Request} | Rest], Shard) ->
    _ = hawser_body:start_cast(term, Request),
    deliver(Rest, Shard);
deliver([{call_plain, Call, Plain} | Rest], Shard) ->
    hawser_body:start_call(plain, Plain, Shard, Call),
    deliver(Rest, Shard);
deliver([{cast_plain, Plain} | Rest], Shard) ->
    _ = hawser_body:start_cast(plain, Plain),
    deliver(Rest, Shard);
deliver([{answer_plain, Alias, Plain} | Rest], Shard) ->
    deliver_plain(Alias, fun(Outcome) -> {Alias, Outcome} end, Plain, Rest, Shard);
deliver([{To, Plain} | Rest], Shard) ->
    deliver_plain(To, fun(Message) -> Message end, Plain, Rest, Shard);
deliver([], _Shard) ->
    ok.

deliver_plain(To, Wrap, Plain, Rest, Shard) ->
    try binary_to_term(Plain, [used]) of
        {Term, Used} when Used =:= byte_size(Plain) ->
            To ! Wrap(Term),
            deliver(Rest, Shard);
        {_, _} ->
            {malformed, <<"bytes behind a plain term">>}
    catch
        error:badarg -> {malformed, <<"a plain term that the VM does not take">>}
    end.

%% Bodies that have ended since; most have answered themselves.
bury(Shard) ->
    receive
        {{hawser_body, Call}, _, process, _, Reason} ->
            hawser_body:ended(Shard, Call, Reason),
            bury(Shard)
    after 0 -> ok
    end.

%% The owner ends this process when it has heard all of the session's readers.
-spec finish(term(), whose()) -> no_return().
finish(End, {Index, Owner}) ->
    Owner ! {?MODULE, Index, End},
    receive after infinity -> exit(normal) end.
