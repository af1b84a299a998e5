%% What a user's module does to other nodes; compiled by the suite with and without the transform.
-module(over).
-export([sends/1, calls/1, requests/1]).

-export_type([request/0]).

-type request() :: erpc:request_id() | none.

-spec sends([pid() | {atom(), node()} | reference()]) -> non_neg_integer().
sends(Destinations) ->
    length([
        Sent
     || To <- Destinations,
        Sent <- [To ! {by, operator}, erlang:send(To, {by, function}), erlang:send(To, {by, options}, [])]
    ]).

-spec calls(node()) -> [term()].
calls(Node) ->
    Call = fun erpc:call/4,
    [
        erpc:call(Node, erlang, node, []),
        Call(Node, erlang, abs, [-1]),
        try erpc:call(Node, erlang, throw, [ball]) catch throw:Ball -> Ball end,
        erpc:multicall([Node, Node], fun erlang:node/0, 30000)
    ].

-spec requests(node()) -> [term()].
requests(Node) ->
    Sent = request(Node),
    Labelled = erpc:send_request(Node, erlang, node, [], label, erpc:reqids_new()),
    1 = erpc:reqids_size(Labelled),
    {Answer, label, _} = erpc:receive_response(Labelled, 30000, true),
    [erpc:receive_response(Sent, 30000), Answer].

-spec request(node()) -> request().
request(Node) ->
    erpc:send_request(Node, erlang, node, []).
