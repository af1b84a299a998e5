%% Supervises the peer processes, one per remote node. hawser_directory starts
%% them, and starts a new one when one crashed: nothing is restarted here.
-module(hawser_peer_sup).
-behaviour(supervisor).

-export([start_link/0, start_peer/3]).
-export([init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec start_peer(node(), hawser_invitation:party(), none | visible | hidden) -> {ok, pid()}.
start_peer(Node, Local, Connected) ->
    {ok, _} = supervisor:start_child(?MODULE, [Node, Local, Connected]).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Peer = #{
        id => hawser_peer,
        start => {hawser_peer, start_link, []},
        restart => temporary,
        shutdown => 5000
    },
    {ok, {#{strategy => simple_one_for_one}, [Peer]}}.
