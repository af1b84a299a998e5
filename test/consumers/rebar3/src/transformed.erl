%% A module whose sends and calls go over hawser, though it names it nowhere but in the next line but one.
-module(transformed).
-compile({parse_transform, hawser_transform}).
-export([main/2]).

main(Echo, There) ->
    Echo ! {self(), <<"hello again">>},
    receive
        {Echo, Answer} -> io:format("~ts answers ~ts~n", [There, Answer])
    after 10_000 -> exit(no_answer)
    end,
    There = erpc:call(There, erlang, node, []),
    ok.
