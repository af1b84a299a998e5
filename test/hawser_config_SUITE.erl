%% Every configuration key: what it takes, what it refuses and what the refusal says.
-module(hawser_config_SUITE).

-export([all/0]).
-export([defaults/1, defaults_are_documented/1, good_values/1, bad_values/1, unknown_keys/1, keys_together/1, loaded/1]).

all() ->
    [defaults, defaults_are_documented, good_values, bad_values, unknown_keys, keys_together, loaded].

%% No key need be set; every key has a value that can be used as it is.
defaults(_) ->
    {ok, Config} = hawser_config:validate(#{}),
    #{shards := Shards, port := 0, fallback := dist} = Config,
    true = Shards >= 1 andalso Shards =< erlang:system_info(schedulers_online),
    15 = map_size(Config).

%% hawser.app.src states the defaults that hold.
defaults_are_documented(_) ->
    _ = application:load(hawser),
    {ok, Env} = application:get_key(hawser, env),
    15 = length(Env),
    true = hawser_config:validate(#{}) =:= hawser_config:validate(maps:from_list(Env)).

good_values(_) ->
    _ = [{Key, Given, {ok, #{Key := Stored}}} = {Key, Given, hawser_config:validate(#{Key => Given})}
         || {Key, Given, Stored} <- good()],
    ok.

%% The message names the key, the value and what would be right.
bad_values(_) ->
    _ = [begin
        {Key, Value, {error, Sentence}} = {Key, Value, hawser_config:validate(#{Key => Value})},
        true = io_lib:char_list(Sentence),
        named = contains(Sentence, atom_to_list(Key)),
        named = contains(Sentence, "must be"),
        named = contains(Sentence, io_lib:format("~0tP", [Value, 20]))
    end || {Key, Values} <- bad(), Value <- Values],
    [] = lists:sort(maps:keys(element(2, hawser_config:validate(#{})))) -- [Key || {Key, _} <- bad()].

unknown_keys(_) ->
    _ = [begin
        {error, Sentence} = hawser_config:validate(#{Key => 1}),
        named = contains(Sentence, io_lib:format("~0tp", [Key])),
        named = contains(Sentence, "unknown"),
        named = contains(Sentence, "heartbeat_interval_ms")
    end || Key <- [shard, 'Shards', <<"shards">>, "shards", {port, 1}, 7]],
    ok.

keys_together(_) ->
    {ok, _} = hawser_config:validate(#{ack_every_bytes => 65536, max_unacked_bytes => 131072}),
    {error, Sentence} = hawser_config:validate(#{ack_every_bytes => 65537, max_unacked_bytes => 131072}),
    named = contains(Sentence, "ack_every_bytes"),
    named = contains(Sentence, "max_unacked_bytes").

%% load/0 publishes what get/1 reads, and leaves it alone when the environment is refused.
loaded(_) ->
    _ = application:load(hawser),
    ok = application:set_env(hawser, heartbeat_interval_ms, 777),
    ok = hawser_config:load(),
    777 = hawser_config:get(heartbeat_interval_ms),
    ok = application:set_env(hawser, heartbeat_interval_ms, soon),
    {error, _} = hawser_config:load(),
    777 = hawser_config:get(heartbeat_interval_ms),
    ok = application:unload(hawser).

contains(Sentence, Part) ->
    case string:find(Sentence, lists:flatten(Part)) of
        nomatch -> {missing, Part, Sentence};
        _ -> named
    end.

%% {Key, Given, Stored}
good() ->
    [
        {shards, 1, 1}, {shards, 64, 64},
        {ip, default, default}, {ip, {127, 0, 0, 1}, {127, 0, 0, 1}}, {ip, "127.0.0.1", {127, 0, 0, 1}},
        {ip, <<"10.1.2.3">>, {10, 1, 2, 3}}, {ip, "::1", {0, 0, 0, 0, 0, 0, 0, 1}}, {ip, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}},
        {port, 0, 0}, {port, 65535, 65535},
        {advertise, default, default}, {advertise, {"host.example", 4000}, {"host.example", 4000}},
        {advertise, {<<"host.example">>, 0}, {"host.example", 0}}, {advertise, {{10, 0, 0, 1}, 1}, {"10.0.0.1", 1}},
        {fallback, dist, dist}, {fallback, none, none},
        {heartbeat_interval_ms, 50, 50}, {heartbeat_interval_ms, 3600000, 3600000},
        {connect_timeout_ms, 50, 50}, {connect_timeout_ms, 60000, 60000},
        {max_message_bytes, 1024, 1024}, {max_message_bytes, 2147483647, 2147483647},
        {max_queue_bytes, 65536, 65536}, {reply_reserve_bytes, 0, 0}, {reply_reserve_bytes, 1 bsl 20, 1 bsl 20}, {max_unacked_bytes, 1 bsl 30, 1 bsl 30},
        {ack_every_bytes, 1024, 1024},
        {drain_timeout_ms, 0, 0}, {drain_timeout_ms, 3600000, 3600000},
        {max_dictionary_atoms, 0, 0}, {max_dictionary_atoms, 65535, 65535},
        {max_half_open, 1, 1}, {max_half_open, 65536, 65536}
    ].

bad() ->
    [
        {shards, [0, 65, -1, 1.0, "4", all]},
        {ip, ["localhost", "", "300.1.1.1", {1, 2, 3}, {1, 2, 3, 256}, any, 0, <<255>>, [a]]},
        {port, [-1, 65536, "80", any]},
        {advertise, ["host", {"host", -1}, {"host", 65536}, {"", 80}, {host, 80}, {{1, 2}, 80}, {"host"}, {[0, x], 80},
                     {lists:duplicate(254, $a), 80}]},
        {fallback, [distribution, true, "none"]},
        {heartbeat_interval_ms, [0, 49, 3600001, infinity, 1.5]},
        {connect_timeout_ms, [0, 49, infinity]},
        {max_message_bytes, [0, 1023, 1 bsl 31, infinity]},
        {max_queue_bytes, [0, 65535, 1 bsl 31]},
        {reply_reserve_bytes, [-1, 1 bsl 31, infinity, 0.5]},
        {max_unacked_bytes, [0, 65535, 1 bsl 31]},
        {ack_every_bytes, [0, 1023, 1 bsl 31]},
        {drain_timeout_ms, [-1, infinity]},
        {max_dictionary_atoms, [-1, 65536]},
        {max_half_open, [0, 65537, infinity]}
    ].
