%% Requests and answers that nobody sends who means well: what is malformed
%% ends its session, what can be answered is answered, what comes too late or
%% for nobody is counted, and neither the reader nor any caller suffers.
-module(hawser_hostile_calls_SUITE).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([
    requests_of_no_call/1, no_requests/1, no_outcomes/1, answers_to_nobody/1, expired/1, a_million_calls/1,
    answers_not_taken/1
]).

-import(hawser_raw_wire, [batch/4, batch_at/3, tick/1, frame/3, cast/1, call/3, answer/2, plain/1]).
-import(hawser_attack, [breaks/3, embedded/1, batch_of/2]).
-import(hawser_attacked, [session/2, opened/1, ended/1, take/2]).
-import(hawser_raw_peer, [raw/2, send_batch/3]).

-define(MAX_MESSAGE, 1048576).
%% hawser's own form is for messages up to this; longer ones are plain.
-define(MAX_NATIVE, 131072).
%% What one hostile session may cost the node's process, whatever it declares.
-define(MEMORY_KIB, 65536).
%% Thousands of calls, and how many wait for their answers at a time.
-define(CALL_BATCHES, 1000).
-define(CALLS_AT_A_TIME, 5000).

suite() ->
    [{timetrap, {seconds, 60}}].

all() ->
    [requests_of_no_call, no_requests, no_outcomes, answers_to_nobody, expired, a_million_calls, answers_not_taken].

init_per_suite(Config) ->
    [{attacked, hawser_attacked:start(#{max_message_bytes => ?MAX_MESSAGE, max_queue_bytes => ?MAX_MESSAGE})} | Config].

end_per_suite(Config) ->
    hawser_attacked:stop(proplists:get_value(attacked, Config)).

attack(Config, Case) ->
    hawser_attack:run(proplists:get_value(attacked, Config), ?MEMORY_KIB, Case).

%% A call whose deadline is neither given nor left out, and a request or answer in bytes that are no term of hawser's
%% form, end the session; so do plain ones that do not even start as a term.
requests_of_no_call(Config) ->
    attack(Config, fun(#{sink := #{pid := Pid}, victim := {_, Node}} = Attacked) ->
        Request = hawser_raw_wire:term({Pid, erlang, self, []}, #{}, {{nobody, 0}, {Node, 0}}),
        breaks(Attacked, "neither given nor left out", [
            batch(2, 0, [], frame(Kind, <<7:64, Flag, Deadline:32>>, Request))
            || Kind <- [5, 16#45], {Flag, Deadline} <- [{0, 1}, {0, 16#FFFFFFFF}, {2, 0}, {2, 1000}, {255, 0}]
        ]),
        Framed = fun(Term) -> [cast(Term), call(7, none, Term), call(7, 1000, Term), answer(7, Term)] end,
        _ = [breaks(Attacked, Reason, [batch(2, 0, [], Frame) || Term <- Terms, Frame <- Framed(Term)])
             || {Reason, Terms} <- [
                 {"ends too early", [<<>>, <<104, 4, 106>>, <<105, 16#FFFFFFFF:32>>]},
                 {"bytes behind a term", [[Request, <<106>>]]},
                 {"unknown tag", [<<80, 16#FFFFFFFF:32>>, <<104, 4, 131, 0:24>>]},
                 {"never announced", [<<104, 1, $R, 99:16>>]},
                 {"nested deeper", [binary:copy(<<104, 1>>, 100)]},
                 {"a key that comes twice", [<<116, 2:32, 97, 1, 106, 97, 1, 106>>]},
                 {"embedded", [embedded(<<131, 104, 4>>)]},
                 {"plain term", [{plain, Bytes} || Bytes <- [<<>>, <<131>>, <<130, 106>>, <<131, 80, 1:32, 120, 156>>]]}
             ]],
        breaks(Attacked, "in hawser's own form",
            [batch_of(4 * ?MAX_MESSAGE, <<Kind, (?MAX_NATIVE + 1):32>>) || Kind <- [4, 5, 6]]),
        breaks(Attacked, "the limit is",
            [batch_of(4 * ?MAX_MESSAGE, <<Kind, (2 * ?MAX_MESSAGE):32>>) || Kind <- [4, 5, 6, 16#44, 16#45, 16#46]])
    end).

%% A term that is no request: the call is answered with badarg, a cast does nothing, and the session lives. Neither
%% crashes the reader nor is there a payload in a log.
no_requests(Config) ->
    attack(Config, fun(#{sink := #{pid := Pid}} = Attacked) ->
        Mark = hawser_attacked:mark(),
        Conn = #{ends := Ends} = opened(Attacked),
        Terms = [
            Mark, [], {}, {Pid, erlang, self}, {Pid, erlang, self, [], Mark}, {Mark, erlang, self, []},
            {erlang, erlang, self, []}, {Pid, Mark, self, []}, {Pid, erlang, {self}, []}, {Pid, erlang, self, Mark},
            {make_ref(), erlang, self, [Mark]}, #{Pid => {erlang, self, []}}
        ],
        %% Bytes that start as a term and are none: only the VM's decoder finds out.
        Bytes = [{plain, <<131, 104, 4, 106>>}, {plain, <<131, 116, 2:32, 97, 1, 106, 97, 1, 106>>},
                 {plain, <<131, 109, 1000:32, Mark/binary>>}, {plain, <<131, 68, 0, 1>>},
                 {plain, <<131, 109, 200001:32, (binary:copy(Mark, 200000 div byte_size(Mark)))/binary>>}],
        Requests = [hawser_raw_wire:term(Term, #{}, Ends) || Term <- Terms] ++ [plain(Term) || Term <- Terms] ++ Bytes,
        Numbered = lists:zip(lists:seq(1, length(Requests)), Requests),
        {Good, Message} = hawser_attacked:tell(Attacked, behind),
        Next = send_batch(Conn, [], [[cast(Request), call(Id, none, Request)] || {Id, Request} <- Numbered] ++ [Good]),
        [Message] = take(Attacked, 1),
        Answers = hawser_raw_peer:recv_frames(Next, length(Requests)),
        [{system, badarg}] = lists:usort([Answer || {_, Answer} <- Answers]),
        Expected = [<<Id:64>> || {Id, _} <- Numbered],
        Expected = lists:sort([Id || {{_, Id, _}, _} <- Answers]),
        hawser_raw_peer:close(Next),
        {lost, _} = ended(Attacked)
    end).

%% An answer that does not say how a body ended is seen by no caller: it ends the session.
no_outcomes(Config) ->
    attack(Config, fun(Attacked) ->
        None = [
            hawser_attacked:mark(), [], {}, {return}, {return, 1, 2}, {error, 1}, {error, 1, [], 2}, {noconnection, 1},
            {"return", 1}, {<<"return">>, 1}, {'Return', 1}, {'', 1}, return, [return, 1], {system, 1, 2},
            #{return => 1}
        ],
        breaks(Attacked, "does not say how a body ended", [
            batch(2, 0, [], answer(7, Answer))
            || Term <- None, Answer <- [hawser_raw_wire:term(Term, #{}, {{nobody, 0}, {nobody, 0}}), plain(Term)]
        ] ++ [batch(2, 0, [], answer(7, plain({other, binary:copy(<<0>>, 2 * ?MAX_NATIVE)})))])
    end).

%% Answers to calls that nobody made are counted and dropped, whatever their numbers, however many they are.
answers_to_nobody(Config) ->
    attack(Config, fun(Attacked) ->
        Conn = #{ends := Ends} = opened(Attacked),
        Form = iolist_to_binary(hawser_raw_wire:term({return, hawser_attacked:mark()}, #{}, Ends)),
        Long = plain({return, binary:copy(hawser_attacked:mark(), ?MAX_NATIVE div 16)}),
        Ids = [0, 1, 1 bsl 32, 1 bsl 56, 63 bsl 56, 64 bsl 56, 16#FFFFFFFF, 1 bsl 63, 16#FFFFFFFFFFFFFFFF],
        Flood = [answer(Id, Form) || Id <- lists:seq(1, 50000)],
        Frames = [[answer(Id, Form), answer(Id, plain({throw, Id})), answer(Id, Long)] || Id <- Ids] ++ [Flood, Flood],
        {Good, Message} = hawser_attacked:tell(Attacked, behind),
        Count = 3 * length(Ids) + 100000,
        {#{late_answer := Count} = Dropped, Next} = hawser_attacked:dropped(Attacked, fun() ->
            Sent = send_batch(Conn, [], [Frames, Good]),
            [Message] = take(Attacked, 1),
            Sent
        end),
        1 = map_size(Dropped),
        hawser_raw_peer:close(Next),
        {lost, _} = ended(Attacked)
    end).

%% A call that comes after its deadline is counted and not executed; nobody but the sender's own clock says what has
%% passed, wherever it stands, whether it wraps, jumps or runs backwards.
expired(Config) ->
    attack(Config, fun(#{sink := #{pid := Pid}} = Attacked) ->
        Conn = #{ends := Ends} = opened(Attacked),
        Request = hawser_raw_wire:term({Pid, erlang, self, []}, #{}, Ends),
        Half = 1 bsl 31,
        Clocks = [0, 5, Half, 16#FFFFFFFF, 16#FFFFFFFE, Half - 1, 0, 16#FFFFFF00],
        {#{expired_call := Expired} = Dropped, _} = hawser_attacked:dropped(Attacked, fun() ->
            lists:foldl(fun(Clock, {Number, Known}) ->
                At = fun(Ms) -> (Clock + Ms) band 16#FFFFFFFF end,
                Late = [call(Id, At(Ms), R) || {Id, Ms} <- [{1, 0}, {2, -1}, {3, -1000}, {4, -Half}, {5, -Half + 1}],
                                               R <- [Request, plain({Pid, erlang, self, []})]],
                InTime = [call(Id, At(Ms), Request) || {Id, Ms} <- [{11, 1}, {12, 1000}, {13, Half - 1}]],
                ok = raw(Conn, batch_at(Clock, Number, [Late, call(10, none, Request) | InTime])),
                {Answers, Atoms} = hawser_raw_peer:recv_frames(Conn, 4, Known),
                [<<10:64>>, <<11:64>>, <<12:64>>, <<13:64>>] = lists:sort([Id || {{6, Id, _}, {return, _}} <- Answers]),
                {Number + 1, Atoms}
            end, {1, #{}}, Clocks)
        end),
        {Expired, 1} = {10 * length(Clocks), map_size(Dropped)},
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

%% A million calls, thousands of them at a time, are all answered, once.
a_million_calls(Config) ->
    attack(Config, fun(#{sink := #{pid := Pid}} = Attacked) ->
        Conn = #{ends := Ends} = opened(Attacked),
        Request = iolist_to_binary(hawser_raw_wire:term({Pid, erlang, self, []}, #{}, Ends)),
        Seen = counters:new(1000 * ?CALL_BATCHES, []),
        ok = calling(Conn, Request, Seen, 1, 0),
        [] = [N || N <- lists:seq(1, 1000 * ?CALL_BATCHES), counters:get(Seen, N) =/= 1],
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked)
    end).

%% Sends the next thousand when there is room for them among those that wait; acknowledges all answers.
calling(Conn, Request, Seen, Number, Waiting) when Waiting =< ?CALLS_AT_A_TIME - 1000, Number =< ?CALL_BATCHES ->
    ok = raw(Conn, batch(Number, 0, [], [call(1000 * Number + K, none, Request) || K <- lists:seq(0, 999)])),
    calling(Conn, Request, Seen, Number + 1, Waiting + 1000);
calling(_, _, _, _, 0) ->
    ok;
calling(Conn, Request, Seen, Number, Waiting) ->
    Answered = case hawser_raw_peer:recv_record(Conn) of
        {batch, _, Ack, _, Frames} ->
            ok = raw(Conn, tick(Ack)),
            [counters:add(Seen, Id - 999, 1) || {6, <<Id:64>>, _} <- Frames];
        {tick, _} ->
            []
    end,
    calling(Conn, Request, Seen, Number, Waiting - length(Answered)).

%% Bodies whose answers nobody takes wait for room, and are gone with their session.
answers_not_taken(Config) ->
    attack(Config, fun(#{sink := #{pid := Pid}} = Attacked) ->
        Victim = hawser_attacked:victim(Attacked),
        Count = fun() -> hawser_test_nodes:call(Victim, erlang, system_info, [process_count]) end,
        Before = Count(),
        Terms = #{max_unacked_bytes => 2 * ?MAX_MESSAGE, ack_every_bytes => ?MAX_MESSAGE},
        [Conn = #{ends := Ends}] = session(Attacked, Terms),
        Request = hawser_raw_wire:term({Pid, binary, copy, [<<0>>, 10000]}, #{}, Ends),
        _ = send_batch(Conn, [], [call(Id, none, Request) || Id <- lists:seq(1, 2000)]),
        hawser_attacked:until(fun() -> Count() > Before + 1000 end),
        ok = hawser_attacked:unharmed(Attacked),
        hawser_raw_peer:close(Conn),
        {lost, _} = ended(Attacked),
        hawser_attacked:until(fun() -> Count() =< Before end)
    end).
