%% What the kernel knows of a connection that is given up (TCP_INFO of Linux):
%% is the peer's process stopped, is the path to its machine broken, or are
%% large packets lost on it? hawser_session hands in what it got when the
%% connection was last well and what it gets now. Pure; decides nothing.
-module(hawser_diagnosis).

-export([sample/1, progress/1, silent/2, stuck/2]).
-export([option/0]).

-export_type([sample/0, cause/0]).

-record(sample, {
    %% Of the oldest bytes sent and not acknowledged: how often sent again; and
    %% how often a peer that takes nothing was asked in vain.
    retransmits :: non_neg_integer(),
    probes :: non_neg_integer(),
    unacked :: non_neg_integer(),
    sacked :: non_neg_integer(),
    acked_bytes :: non_neg_integer(),
    %% Packets with data, those that have a gap before them included.
    packets_in :: non_neg_integer()
}).

-opaque sample() :: #sample{} | unknown.

%% stopped: the machine acknowledges what it is sent, its VM says nothing.
%% unreachable: nothing is acknowledged. torn: part of the packets arrive.
%% unknown: the kernel does not tell.
-type cause() :: stopped | unreachable | torn | unknown.

-define(IPPROTO_TCP, 6).
-define(TCP_INFO, 11).
%% As far as the number of packets with data (Linux 4.6).
-define(BYTES, 160).

%% What to ask a port for.
-spec option() -> inet:socket_getopt().
option() ->
    {raw, ?IPPROTO_TCP, ?TCP_INFO, ?BYTES}.

-spec sample(binary() | none) -> sample().
sample(
    <<_State, _Ca, Retransmits, Probes, _:4/binary, _Rto:32, _Ato:32, _SendMss:32, _ReceiveMss:32,
      Unacked:32/native, Sacked:32/native, _:72/binary, _Pacing:16/binary, Acked:64/native,
      _Received:64, _SegmentsOut:32, _SegmentsIn:32, _NotSent:32, _MinRtt:32, PacketsIn:32/native, _/binary>>
) ->
    #sample{
        retransmits = Retransmits, probes = Probes, unacked = Unacked, sacked = Sacked,
        acked_bytes = Acked, packets_in = PacketsIn
    };
sample(_) ->
    unknown.

%% Bytes that the peer's machine has acknowledged, and whether some are being
%% sent again. A peer that takes nothing is asked, which is not that.
-spec progress(sample()) -> {Bytes :: non_neg_integer(), Again :: boolean()}.
progress(#sample{acked_bytes = Bytes, retransmits = Retransmits}) -> {Bytes, Retransmits > 0};
progress(unknown) -> {0, false}.

%% Nothing came since the connection was last well.
-spec silent(Well :: sample(), Now :: sample()) -> {cause(), Sentence :: binary()}.
silent(#sample{packets_in = Before}, #sample{packets_in = Now}) when Now > Before ->
    told(torn);
silent(_, #sample{unacked = Unacked, retransmits = Again}) when Unacked > 0, Again > 0 ->
    told(unreachable);
silent(_, #sample{probes = Probes}) when Probes > 1 ->
    told(unreachable);
silent(#sample{}, #sample{}) ->
    told(stopped);
silent(_, _) ->
    told(unknown).

%% Something came, and nothing of what was sent was acknowledged.
-spec stuck(Well :: sample(), Now :: sample()) -> {cause(), Sentence :: binary()}.
stuck(_, #sample{sacked = Sacked}) when Sacked > 0 ->
    told(torn);
stuck(_, #sample{}) ->
    {torn, <<"what it sends arrives, what it is sent is lost on the way, as large packets are where a part of the path"
             " takes only smaller ones (MTU) and does not say so">>};
stuck(_, unknown) ->
    told(unknown).

told(stopped) ->
    {stopped, <<"its machine takes what it is sent, but nothing comes from its VM: it is stopped, or what it sends is lost">>};
told(unreachable) ->
    {unreachable, <<"its machine acknowledges nothing: it is gone, or the path to it is broken">>};
told(torn) ->
    {torn, <<"small packets get through, larger ones are lost on the way: look for a part of the path with a smaller MTU">>};
told(unknown) ->
    {unknown, <<"this system does not tell what becomes of what is sent">>}.
