%% What a path implements, beside hawser_bench_path, when functions travel on it: either operation, or both. Owns the
%% behaviour. A writer's request is `erlang:send` to its counting process on the other node, with the message of the
%% sends; its value is that message, so that with a call it travels back as well.
-module(hawser_bench_requests).

-export_type([operation/0]).

-type operation() :: cast | call.

%% Has the function run at Node; nobody hears how it ends.
-callback cast(node(), module(), Function :: atom(), Args :: [term()]) -> term().

%% The function's value. Whatever else happens is an exception: a measurement that met one is a failure.
-callback call(node(), module(), Function :: atom(), Args :: [term()]) -> Value :: term().

-optional_callbacks([cast/4, call/4]).
