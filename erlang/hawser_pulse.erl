%% @private
%% @doc Tells whether this node is crowded: a process of normal priority waits long for its turn, behind others that use
%% theirs up.
%%
%% Readers and flushers ask, and give the occasion to measure: a message with the time goes to this process, which has
%% normal priority and nothing else to do, now and then while there is traffic. It starts no timer, and an idle node
%% measures nothing. What follows from the answer is the business of those who ask.
-module(hawser_pulse).

-export([start_link/0, beat/0, crowded/0]).
-export([init/0]).

%% Between two measurements at the least.
-define(EVERY_MS, 50).
%% A node where a turn comes after so long, and takes so long for each that is ready to run, is crowded: many that are
%% done quickly are no crowd, they make large batches. Where it comes sooner than the third, it is not any more.
-define(WAIT_US, 4000).
-define(TURN_US, 25).
-define(FREE_US, 1000).

%% When a measurement was last begun, in milliseconds of monotonic time; whether the node is crowded, 1 or 0.
-define(LAST, 1).
-define(CROWDED, 2).

-spec start_link() -> {ok, pid()}.
start_link() ->
    Pid = proc_lib:spawn_link(?MODULE, init, []),
    true = register(?MODULE, Pid),
    {ok, Pid}.

-spec init() -> no_return().
init() ->
    loop(gauge()).

%% Outlives this process: a persistent term that changes is dear for the whole node.
gauge() ->
    case persistent_term:get(?MODULE, undefined) of
        undefined ->
            Gauge = atomics:new(2, []),
            %% Monotonic time may be negative.
            ok = atomics:put(Gauge, ?LAST, erlang:monotonic_time(millisecond)),
            ok = persistent_term:put(?MODULE, Gauge),
            Gauge;
        Gauge ->
            ok = note(Gauge, false),
            Gauge
    end.

note(Gauge, Crowded) ->
    ok = atomics:put(Gauge, ?CROWDED, case Crowded of true -> 1; false -> 0 end),
    hawser_nif:crowded(Crowded).

%% @doc Begins a measurement if it is time for one.
-spec beat() -> ok.
beat() ->
    Now = erlang:monotonic_time(millisecond),
    Gauge = persistent_term:get(?MODULE),
    Last = atomics:get(Gauge, ?LAST),
    case Now - Last >= ?EVERY_MS andalso atomics:compare_exchange(Gauge, ?LAST, Last, Now) =:= ok of
        true ->
            try ?MODULE ! {beat, erlang:monotonic_time(microsecond), statistics(total_run_queue_lengths)} of _ -> ok
            catch
                %% The application is stopping.
                error:badarg -> ok
            end;
        false ->
            ok
    end.

%% @doc Does a process wait long for its turn on this node?
-spec crowded() -> boolean().
crowded() ->
    atomics:get(persistent_term:get(?MODULE), ?CROWDED) =:= 1.

loop(Gauge) ->
    receive
        {beat, At, Ready} ->
            case erlang:monotonic_time(microsecond) - At of
                Waited when Waited >= ?WAIT_US, Waited >= ?TURN_US * Ready -> note(Gauge, true);
                Waited when Waited < ?FREE_US -> note(Gauge, false);
                _ -> ok
            end
    end,
    loop(Gauge).
