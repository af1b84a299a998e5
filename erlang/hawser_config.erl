%% The application's environment, checked once at start and kept in a
%% persistent term. hawser_app calls load/0; everybody reads with get/1.
%% Never changes after start, never reads another application's environment.
-module(hawser_config).

-export([load/0, get/1, validate/1]).

-export_type([key/0, config/0]).

-type key() ::
    shards | ip | port | advertise | fallback | heartbeat_interval_ms | connect_timeout_ms
    | max_message_bytes | max_queue_bytes | reply_reserve_bytes | max_unacked_bytes | ack_every_bytes
    | drain_timeout_ms | max_dictionary_atoms | max_half_open.

%% All keys are there. `shards` is a number; `ip` and `advertise` may be `default`.
-type config() :: #{key() := term()}.

-define(STORE, {hawser, config}).

%% Checks the environment and publishes it. The error is a sentence.
-spec load() -> ok | {error, string()}.
load() ->
    Env = proplists:delete(included_applications, application:get_all_env(hawser)),
    case validate(maps:from_list(Env)) of
        {ok, Config} -> persistent_term:put(?STORE, Config);
        {error, _} = Error -> Error
    end.

%% The default when the application was never started: a send is then what `!' is.
-spec get(key()) -> term().
get(Key) ->
    case persistent_term:get(?STORE, undefined) of
        #{Key := Value} -> Value;
        undefined -> maps:get(Key, defaults())
    end.

%% Fills in the defaults and checks every key and what keys ask of each other.
-spec validate(#{term() => term()}) -> {ok, config()} | {error, string()}.
validate(Given) ->
    maybe_each(maps:to_list(maps:merge(defaults(), Given)), #{}).

maybe_each([], Config) ->
    together(Config);
maybe_each([{Key, Value} | Rest], Config) ->
    case check(Key, Value) of
        {ok, Checked} -> maybe_each(Rest, Config#{Key => Checked});
        {error, unknown} -> {error, unknown(Key, Value)};
        {error, Wanted} -> {error, sentence(Key, Value, Wanted)}
    end.

%% The values of hawser.app.src, for whoever starts from a map of his own.
defaults() ->
    #{
        shards => default,
        ip => default,
        port => 0,
        advertise => default,
        fallback => dist,
        heartbeat_interval_ms => 5000,
        connect_timeout_ms => 5000,
        max_message_bytes => 512 bsl 20,
        max_queue_bytes => 4 bsl 20,
        reply_reserve_bytes => 1 bsl 20,
        max_unacked_bytes => 16 bsl 20,
        ack_every_bytes => 1 bsl 20,
        drain_timeout_ms => 5000,
        max_dictionary_atoms => 65535,
        max_half_open => 128
    }.

%% One clause per key. The second half of each error says what is right.
check(shards, default) ->
    {ok, min(4, erlang:system_info(schedulers_online))};
check(shards, N) ->
    integer(N, 1, 64, "`default` or a number of sockets, 1 to 64");
check(ip, default) ->
    {ok, default};
check(ip, Ip) ->
    address(Ip);
check(port, N) ->
    integer(N, 0, 65535, "a port number, 0 (any free port) to 65535");
check(advertise, default) ->
    {ok, default};
check(advertise, Advertised) ->
    advertised(Advertised);
check(fallback, Fallback) when Fallback =:= dist; Fallback =:= none ->
    {ok, Fallback};
check(fallback, _) ->
    {error, "`dist` or `none`"};
check(heartbeat_interval_ms, N) ->
    integer(N, 50, 3600000, "milliseconds, 50 to 3600000");
check(connect_timeout_ms, N) ->
    integer(N, 50, 3600000, "milliseconds, 50 to 3600000");
check(max_message_bytes, N) ->
    integer(N, 1024, 16#7FFFFFFF, "bytes, 1024 to 2147483647");
check(max_queue_bytes, N) ->
    integer(N, 65536, 16#7FFFFFFF, "bytes, 65536 to 2147483647");
check(reply_reserve_bytes, N) ->
    integer(N, 0, 16#7FFFFFFF, "bytes, 0 to 2147483647");
check(max_unacked_bytes, N) ->
    integer(N, 65536, 16#7FFFFFFF, "bytes, 65536 to 2147483647");
check(ack_every_bytes, N) ->
    integer(N, 1024, 16#7FFFFFFF, "bytes, 1024 to 2147483647");
check(drain_timeout_ms, N) ->
    integer(N, 0, 3600000, "milliseconds, 0 to 3600000");
check(max_dictionary_atoms, N) ->
    integer(N, 0, 65535, "a number of atoms, 0 to 65535");
check(max_half_open, N) ->
    integer(N, 1, 65536, "a number of sockets, 1 to 65536");
check(_, _) ->
    {error, unknown}.

integer(N, Min, Max, _) when is_integer(N), N >= Min, N =< Max -> {ok, N};
integer(_, _, _, Wanted) -> {error, Wanted}.

address(Ip) when is_tuple(Ip) ->
    case inet:is_ip_address(Ip) of
        true -> {ok, Ip};
        false -> {error, address_wanted()}
    end;
address(Ip) ->
    case text(Ip) of
        {ok, Text} ->
            case inet:parse_strict_address(Text) of
                {ok, Address} -> {ok, Address};
                {error, einval} -> {error, address_wanted()}
            end;
        error ->
            {error, address_wanted()}
    end.

address_wanted() ->
    "`default`, an address tuple such as {127,0,0,1}, or a string such as \"127.0.0.1\" or \"::1\"".

advertised({Host, Port}) when is_integer(Port), Port >= 0, Port =< 65535, is_tuple(Host) ->
    case inet:is_ip_address(Host) of
        true -> {ok, {inet:ntoa(Host), Port}};
        false -> {error, advertise_wanted()}
    end;
advertised({Host, Port}) when is_integer(Port), Port >= 0, Port =< 65535 ->
    case text(Host) of
        {ok, [_ | _] = Text} when length(Text) =< 253 -> {ok, {Text, Port}};
        _ -> {error, advertise_wanted()}
    end;
advertised(_) ->
    {error, advertise_wanted()}.

advertise_wanted() ->
    "`default` or {Host, Port}: a host name or address that other nodes can dial,"
    " and a port, 0 (the port listened on) to 65535".

%% Host names and addresses come as Erlang strings and as Elixir's binaries.
text(Binary) when is_binary(Binary) ->
    text(binary_to_list(Binary));
text(List) ->
    case io_lib:latin1_char_list(List) of
        true -> {ok, List};
        false -> error
    end.

together(#{ack_every_bytes := Every, max_unacked_bytes := Max}) when Every * 2 > Max ->
    {error, sentence(ack_every_bytes, Every,
                     io_lib:format("at most half of max_unacked_bytes, which is ~b", [Max]))};
together(Config) ->
    {ok, Config}.

unknown(Key, Value) ->
    Known = lists:join(", ", [atom_to_list(K) || K <- lists:sort(maps:keys(defaults()))]),
    flatten("the configuration key ~0tp (value ~0tp) is unknown to hawser: remove it or use one of ~ts",
            [Key, Value, Known]).

sentence(Key, Value, Wanted) ->
    flatten("the configuration key ~0tp has the value ~0tP: it must be ~ts", [Key, Value, 20, Wanted]).

flatten(Format, Args) ->
    lists:flatten(io_lib:format(Format, Args)).
