%% Whose turn it is to dial, and how long the pauses are.
-module(hawser_redial_SUITE).

-export([all/0]).
-export([smaller_name_dials/1, turns/1, pauses/1, short_sessions_count/1]).

all() ->
    [smaller_name_dials, turns, pauses, short_sessions_count].

smaller_name_dials(_) ->
    [true, false] = [hawser_redial:is_ours(R) || R <- [small(), large()]],
    true = hawser_redial:is_ours(hawser_redial:asked(large())).

%% Two failures, then the other side tries; one that was asked tries once.
turns(_) ->
    {again, Once} = hawser_redial:failed(small()),
    {other_side, Twice} = hawser_redial:failed(Once),
    {again, _} = hawser_redial:failed(Twice),
    {other_side, Tried} = hawser_redial:failed(hawser_redial:asked(large())),
    false = hawser_redial:is_ours(Tried),
    false = hawser_redial:is_ours(hawser_redial:refused(hawser_redial:asked(large()))).

%% Nothing, then 100 ms doubling to 10 s, of which half is left to chance.
pauses(_) ->
    0 = hawser_redial:pause_ms(small()),
    lists:foldl(
        fun(Full, Redial) ->
            {_, Failed} = hawser_redial:failed(Redial),
            _ = [true = Ms > Full div 2 andalso Ms =< Full || _ <- lists:seq(1, 50), Ms <- [hawser_redial:pause_ms(Failed)]],
            Failed
        end, small(), [100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000]),
    0 = hawser_redial:pause_ms(hawser_redial:met_anew(element(2, hawser_redial:failed(small())))).

%% A session that comes up and breaks at once is not redialed in a tight loop.
short_sessions_count(_) ->
    Short = hawser_redial:ended(10, hawser_redial:up(small())),
    1 = hawser_redial:attempts(Short),
    2 = hawser_redial:attempts(hawser_redial:ended(10, hawser_redial:up(Short))),
    0 = hawser_redial:attempts(hawser_redial:ended(60000, hawser_redial:up(Short))),
    0 = hawser_redial:attempts(hawser_redial:rested(Short)).

small() -> hawser_redial:new(<<"a@host">>, 'b@host').

large() -> hawser_redial:new(<<"b@host">>, 'a@host').
