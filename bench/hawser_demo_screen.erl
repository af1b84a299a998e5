%% What the demo writes: lines, table rows, and the one line that says how far it is. Called by the acts. Knows
%% nothing of what the figures mean.
-module(hawser_demo_screen).

-export([say/2, row/2, row/3, fixed/2, progress/2, progress_end/0]).

-spec say(string(), [term()]) -> ok.
say(Format, Args) ->
    io:format(Format ++ "~n", Args).

%% A row of a table that has a column per path.
-spec row(string(), [iolist()]) -> ok.
row(Name, Values) ->
    row(Name, 34, [{Value, 14} || Value <- Values]).

-spec row(string(), pos_integer(), [{iolist(), Width :: pos_integer()}]) -> ok.
row(Name, Width, Cells) ->
    say("  ~s~s", [string:pad(Name, Width), [string:pad(Value, W, leading) || {Value, W} <- Cells]]).

-spec fixed(number(), non_neg_integer()) -> string().
fixed(Value, Decimals) ->
    float_to_list(float(Value), [{decimals, Decimals}]).

%% Called twice a second with a number that grows: on a terminal one line that is written over; elsewhere a line every
%% two seconds.
-spec progress(non_neg_integer(), iolist()) -> ok.
progress(Line, Text) ->
    case {tty(), Line rem 4} of
        {true, _} -> io:put_chars(["\r\e[K", Text]);
        {false, 0} when Line > 0 -> io:put_chars([Text, $\n]);
        {false, _} -> ok
    end.

-spec progress_end() -> ok.
progress_end() ->
    case tty() of
        true -> io:put_chars("\r\e[K");
        false -> ok
    end.

tty() ->
    os:getenv("HAWSER_BENCH_TTY") =:= "1".
