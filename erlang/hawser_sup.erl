%% The tree: the native runtime, the peers, and the directory that keeps the
%% peers. They live and die together: a session does not outlive its runtime,
%% nor a peer the directory that knows it.
-module(hawser_sup).
-behaviour(supervisor).

-export([start_link/0]).
-export([init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Children = [
        #{id => hawser_pulse, start => {hawser_pulse, start_link, []}, shutdown => brutal_kill},
        #{id => hawser_control, start => {hawser_control, start_link, []}, shutdown => 10000},
        #{id => hawser_peer_sup, start => {hawser_peer_sup, start_link, []}, type => supervisor,
          shutdown => infinity},
        #{id => hawser_directory, start => {hawser_directory, start_link, []}}
    ],
    {ok, {#{strategy => one_for_all, intensity => 5, period => 10}, Children}}.
