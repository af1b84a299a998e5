%% Attacks on a node and what must become of them: sessions that end with the
%% right reason, sessions that live, and a node that is none the worse for it.
%% The suites with hostile peers write their cases in these. Test code only.
-module(hawser_attack).

-export([run/3, breaks/3, lives/2, term_breaks/3, plain_breaks/3, embedded/1, batch_of/2, batch_of/3]).

-import(hawser_raw_wire, [batch/4, to_pid/2]).
-import(hawser_attacked, [session/1, opened/1, ended/1, take/2, left/1]).
-import(hawser_raw_peer, [raw/2]).
-import(hawser_test_nodes, [call/4]).

%% Runs a case against the node under attack, which must come out of it as it went in, and may at no time use more
%% memory than that besides.
-spec run(hawser_attacked:attacked(), MemoryKib :: pos_integer(), fun((hawser_attacked:attacked()) -> term())) -> ok.
run(Attacked, MemoryKib, Case) ->
    ok = hawser_test_nodes:forget_logs(hawser_attacked:victim(Attacked)),
    [] = left(Attacked),
    Base = hawser_attacked:base(Attacked),
    Grown = hawser_attacked:peak_kib(Attacked, fun() -> Case(Attacked) end),
    Grown < MemoryKib orelse error({memory, Grown}),
    [] = left(Attacked),
    ok = hawser_attacked:back_to(Base, Attacked),
    ok = hawser_attacked:unharmed(Attacked).

%% Each of these, behind a good message in the same write and before another one, ends a session with this reason;
%% the first message is delivered and the second one is not.
-spec breaks(hawser_attacked:attacked(), string(), [iodata()]) -> ok.
breaks(Attacked, Reason, Rows) ->
    lists:foreach(
        fun(Bytes) ->
            Conn = session(Attacked),
            {Good, Message} = hawser_attacked:tell(Attacked, before),
            {Late, _} = hawser_attacked:tell(Attacked, behind),
            _ = raw(Conn, [batch(1, 0, [], Good), Bytes, batch(3, 0, [], Late)]),
            ok = hawser_raw_peer:recv_until_closed(Conn),
            Ended = ended(Attacked),
            [Message] = take(Attacked, 1),
            [] = left(Attacked),
            Right = case Ended of
                {malformed, {0, Text}} -> string:find(Text, Reason) =/= nomatch;
                _ -> false
            end,
            Right orelse error({Ended, Reason, shown(Bytes)})
        end, Rows).

shown(Bytes) ->
    Binary = iolist_to_binary(Bytes),
    binary:part(Binary, 0, min(100, byte_size(Binary))).

%% None of these hurts, each being batch 2 or no batch.
-spec lives(hawser_attacked:attacked(), [iodata()]) -> ok.
lives(Attacked, Rows) ->
    lists:foreach(
        fun(Bytes) ->
            Conn = opened(Attacked),
            {Good, Message} = hawser_attacked:tell(Attacked, behind),
            Number = case iolist_to_binary(Bytes) of <<_:32, 1, _/binary>> -> 3; _ -> 2 end,
            ok = raw(Conn, [batch(1, 0, [], []), Bytes, batch(Number, 0, [], Good)]),
            [Message] = take_of_living(Attacked, Bytes),
            hawser_raw_peer:close(Conn),
            {lost, _} = ended(Attacked)
        end, Rows).

%% The message, or why the session ended without it.
take_of_living(#{stranger := {_, Node}} = Attacked, Bytes) ->
    hawser_attacked:until(fun() ->
        hawser_attacked:pending(Attacked) > 0 orelse
            [error({hawser_test_nodes:await_end(hawser_attacked:victim(Attacked), Node), shown(Bytes)})
             || not lists:member(Node, call(hawser_attacked:victim(Attacked), hawser, nodes, []))] =/= []
    end),
    take(Attacked, 1).

%% The same for terms: a message with each of them, good ones before and behind it in the batch.
-spec term_breaks(hawser_attacked:attacked(), string(), [iodata()]) -> ok.
term_breaks(Attacked, Reason, Terms) ->
    in_batch(Attacked, Reason, [iolist_to_binary(Term) || Term <- Terms]).

%% And for plain ones.
-spec plain_breaks(hawser_attacked:attacked(), string(), [binary()]) -> ok.
plain_breaks(Attacked, Reason, Terms) ->
    in_batch(Attacked, Reason, [{plain, Term} || Term <- Terms]).

in_batch(#{sink := #{pid := Pid}} = Attacked, Reason, Terms) ->
    breaks(Attacked, Reason, [batch(2, 0, [], [to_pid(Pid, Term), to_pid(Pid, <<106>>)]) || Term <- Terms]).

%% A term that the VM's encoder wrote, within one in hawser's form.
-spec embedded(binary()) -> binary().
embedded(Bytes) ->
    <<$E, (byte_size(Bytes)):32, Bytes/binary>>.

%% A batch that says it is as long as that, and its beginning.
-spec batch_of(non_neg_integer(), iodata()) -> iodata().
batch_of(Bytes, Frames) ->
    batch_of(Bytes, Frames, 2).

-spec batch_of(non_neg_integer(), iodata(), pos_integer()) -> iodata().
batch_of(Bytes, Frames, Number) ->
    [<<Bytes:32, 1, 0, 0:64, Number:64, 0:32, 0:16>>, Frames].
