%% Starts and stops the application. Refuses to start with a sentence that says
%% what to do: {error, {hawser, Sentence}}. Stopping drains the sessions first.
-module(hawser_app).
-behaviour(application).

-export([start/2, prep_stop/1, stop/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) ->
    try_each([fun hawser_config:load/0, fun hawser_address:resolvable/0, fun native/0]).

try_each([Check | Rest]) ->
    case Check() of
        ok -> try_each(Rest);
        {error, Sentence} -> {error, {hawser, Sentence}}
    end;
try_each([]) ->
    case hawser_sup:start_link() of
        {error, {shutdown, {failed_to_start_child, _, {shutdown, {hawser, Sentence}}}}} -> {error, {hawser, Sentence}};
        Other -> Other
    end.

%% The stub's load fails when the library is missing or speaks another ABI; the
%% code server has logged what the loader said.
native() ->
    case code:ensure_loaded(hawser_nif) of
        {module, hawser_nif} -> ok;
        {error, _} -> {error, not_loaded(library())}
    end.

not_loaded(Library) ->
    What = case filelib:is_regular(Library) of
        true -> "does not fit this version of hawser or this machine";
        false -> "is missing"
    end,
    lists:flatten(io_lib:format(
        "the native library ~ts ~ts: run `make compile` (or `rebar3 compile`, `mix compile`) on this"
        " machine and start again", [Library, What])).

library() ->
    case code:priv_dir(hawser) of
        {error, bad_name} -> "priv/libhawser_nif.so";
        Dir -> filename:join(Dir, "libhawser_nif.so")
    end.

-spec prep_stop(State) -> State.
prep_stop(State) ->
    ok = hawser_directory:drain(hawser_config:get(drain_timeout_ms)),
    State.

-spec stop(term()) -> ok.
stop(_) ->
    ok.
