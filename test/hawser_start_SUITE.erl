%% What the application starts with: the node's own name, which may come later or change, its configuration and its
%% library. What is wrong with those is refused, with a sentence that says what to do.
-module(hawser_start_SUITE).

-include_lib("common_test/include/ct.hrl").

-export([suite/0, all/0]).
-export([
    not_alive/1, becomes_alive/1, renamed/1, port_taken/1, ip_not_local/1, advertise_unresolvable/1, bad_key/1,
    library_missing/1, library_of_another_abi/1
]).

-import(hawser_test_nodes, [start_node/1, call/4, stop/1, name/1, stop_hawser/1, await_session/2, await_end/2]).

suite() ->
    [{timetrap, {seconds, 120}}].

all() ->
    [
        not_alive, becomes_alive, renamed, port_taken, ip_not_local, advertise_unresolvable, bad_key, library_missing,
        library_of_another_abi
    ].

%% ---- a node's own name ----

%% A node that is not alive serves its own processes; others do not exist for it, as for OTP.
not_alive(_) ->
    {A, nonode@nohost} = start_node(#{alive => false}),
    [] = call(A, hawser_directory, nodes, []),
    {error, noconnection} = call(A, hawser_directory, await, ['other@127.0.0.1', 1000]),
    #{alive := false, peers := Peers} = call(A, hawser_directory, info, []),
    0 = map_size(Peers),
    [Receiver] = call(A, hawser_stream, receivers, [1]),
    ok = call(A, hawser_stream, stream, [me, Receiver, #{count => 2, forms => [pid, name, alias]}]),
    ok = call(A, hawser_stream, await, [Receiver, 1, 10000]),
    Other = 'other@127.0.0.1',
    Remote = [
        {nobody, Other}, {nobody, 'no host'}, {nobody, ''}, hawser_term_kinds:pid(Other, 1, 0, 1),
        hawser_term_kinds:reference(Other, 1, [1, 2, 3])
    ],
    Options = [[], [[]], [[nosuspend]], [[noconnect]], [[noconnect, nosuspend]], [[odd]]],
    Cases = [[To, hello | Opts] || To <- Remote, Opts <- Options],
    [] = [{Case, Theirs, Ours} || Case <- Cases, Theirs <- [outcome(A, erlang, Case)], Ours <- [outcome(A, hawser, Case)],
                                  Theirs =/= Ours],
    {answer, hello} = outcome(A, hawser, [{nobody, Other}, hello]),
    ok = stop_hawser(A).

outcome(Peer, Module, Args) ->
    call(Peer, erlang, apply, [fun() ->
        try {answer, apply(Module, send, Args)} catch Class:Reason -> {Class, Reason} end
    end, []]).

becomes_alive(_) ->
    {A, _} = start_node(#{alive => false}),
    {B, NodeB} = start_node(#{}),
    Name = named(A, "late"),
    true = call(A, net_kernel, connect_node, [NodeB]),
    ok = await_session({A, Name}, {B, NodeB}).

%% The old name's session ends with a reason, the new name gets its own.
renamed(_) ->
    {A, _} = start_node(#{alive => false}),
    {B, NodeB} = start_node(#{}),
    First = named(A, "first"),
    true = call(A, net_kernel, connect_node, [NodeB]),
    ok = await_session({A, First}, {B, NodeB}),
    ok = call(A, net_kernel, stop, []),
    local_node_down = await_end(A, NodeB),
    _ = await_end(B, First),
    [] = call(B, hawser_directory, nodes, []),
    Second = named(A, "second"),
    true = call(A, net_kernel, connect_node, [NodeB]),
    ok = await_session({A, Second}, {B, NodeB}),
    [Second] = call(B, hawser_directory, nodes, []).

named(Peer, Prefix) ->
    Name = name(Prefix),
    {ok, _} = call(Peer, net_kernel, start, [Name, #{name_domain => longnames}]),
    Name.

%% ---- refusals at start ----

port_taken(_) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    refused(#{port => Port}, [integer_to_list(Port), "`port`", "free port"]),
    ok = gen_tcp:close(Socket).

ip_not_local(_) ->
    refused(#{ip => "203.0.113.7"}, ["203.0.113.7", "`ip`"]).

advertise_unresolvable(_) ->
    refused(#{advertise => {"no.such.host.invalid", 0}}, ["no.such.host.invalid", "`advertise`"]).

bad_key(_) ->
    refused(#{shards => 0}, ["shards", "1 to 64"]),
    refused(#{shrads => 1}, ["shrads", "unknown"]).

%% The code without its library, and with one that is none.
library_missing(Config) ->
    {Ebin, Library} = copied(missing, Config),
    refused(#{}, [Library, "missing", "make compile"], ["-pa", Ebin]),
    ok = file:write_file(Library, <<"not a library">>),
    refused(#{}, [Library, "does not fit", "make compile"], ["-pa", Ebin]).

%% The library of another version: it loads and says so. The same copy starts once the numbers are one.
library_of_another_abi(Config) ->
    {Ebin, Library} = copied(other_abi, Config),
    {ok, _} = file:copy(filename:join(code:priv_dir(hawser), "libhawser_nif.so"), Library),
    Stub = filename:join(Ebin, "hawser_nif.beam"),
    {ok, Fitting} = file:read_file(Stub),
    ok = file:write_file(Stub, of_another_abi(Fitting)),
    refused(#{}, [Library, "does not fit", "make compile"], ["-pa", Ebin]),
    ok = file:write_file(Stub, Fitting),
    {A, _} = start_node(#{args => ["-pa", Ebin]}),
    Stub = call(A, code, which, [hawser_nif]),
    stop(A).

%% hawser in a folder of its own, without its library.
copied(Name, Config) ->
    App = filename:join([?config(priv_dir, Config), atom_to_list(Name), "hawser"]),
    Ebin = filename:join(App, "ebin"),
    Library = filename:join([App, "priv", "libhawser_nif.so"]),
    ok = filelib:ensure_dir(filename:join(Ebin, "x")),
    ok = filelib:ensure_dir(Library),
    _ = [{ok, _} = file:copy(File, filename:join(Ebin, filename:basename(File)))
         || File <- filelib:wildcard(filename:join(filename:dirname(code:which(hawser_app)), "hawser*.{beam,app}"))],
    {Ebin, Library}.

%% The stub as it is, but for the number that it calls the library with.
of_another_abi(Beam) ->
    {ok, {hawser_nif, [{abstract_code, {raw_abstract_v1, Forms}}]}} = beam_lib:chunks(Beam, [abstract_code]),
    [{function, At, load, 0, Clauses}] = [Form || {function, _, load, 0, _} = Form <- Forms],
    {Changed, [_]} = raised(Clauses, []),
    {ok, hawser_nif, Other} = compile:forms(lists:keyreplace(load, 3, Forms, {function, At, load, 0, Changed})),
    Other.

%% The numbers of a piece of code, each one more, and what they were.
raised({integer, At, N}, Found) -> {{integer, At, N + 1}, [N | Found]};
raised(List, Found) when is_list(List) -> lists:mapfoldl(fun raised/2, Found, List);
raised(Tuple, Found) when is_tuple(Tuple) ->
    {List, All} = raised(tuple_to_list(Tuple), Found),
    {list_to_tuple(List), All};
raised(Other, Found) -> {Other, Found}.

%% The node goes on without hawser, and the reason says what to do.
refused(Env, Words) ->
    refused(Env, Words, []).

refused(Env, Words, Args) ->
    {A, _} = start_node(#{hawser => false, env => Env, args => Args}),
    {error, {hawser, {{hawser, Sentence}, _}}} = call(A, application, ensure_all_started, [hawser]),
    [] = [Word || Word <- Words, string:find(Sentence, Word) =:= nomatch],
    stop(A).
