%% Where this node listens and where other nodes are told to dial it: the keys
%% `ip` and `advertise`, and what stands in for them. hawser_control and
%% hawser_invitation call it. Never opens a socket.
-module(hawser_address).

-export([listen_ip/0, dialled_at/1, resolvable/0]).

-export_type([family/0]).

-type family() :: inet | inet6.

%% The address to listen on, as text: `ip`, else distribution's interface, else any.
-spec listen_ip() -> binary().
listen_ip() ->
    case {hawser_config:get(ip), application:get_env(kernel, inet_dist_use_interface), family()} of
        {default, {ok, Interface}, _} when is_tuple(Interface) -> text(Interface);
        {default, _, inet} -> <<"0.0.0.0">>;
        {default, _, inet6} -> <<"::">>;
        {Ip, _, _} -> text(Ip)
    end.

%% What goes into an invitation's answer; Port is the port listened on.
-spec dialled_at(inet:port_number()) -> {Host :: binary(), family(), inet:port_number()}.
dialled_at(Port) ->
    case hawser_config:get(advertise) of
        default -> {node_host(), family(), Port};
        {Host, 0} -> {unicode:characters_to_binary(Host), family_of(Host), Port};
        {Host, Other} -> {unicode:characters_to_binary(Host), family_of(Host), Other}
    end.

%% A host that cannot be resolved here can hardly be dialled elsewhere: said at
%% start, not by sessions that never come up. The default is not checked: its
%% name is one that distribution already works with.
-spec resolvable() -> ok | {error, string()}.
resolvable() ->
    case hawser_config:get(advertise) of
        default ->
            ok;
        {Host, _} ->
            case inet:getaddr(Host, family_of(Host)) of
                {ok, _} ->
                    ok;
                {error, Reason} ->
                    {error, lists:flatten(io_lib:format(
                        "the host ~ts of the configuration key `advertise` cannot be resolved (~ts):"
                        " set `advertise` to {Host, Port} with a host name or address that other"
                        " nodes can dial, or to `default`", [Host, inet:format_error(Reason)]))}
            end
    end.

%% The family that distribution uses.
family() ->
    case init:get_argument(proto_dist) of
        {ok, [["inet6" ++ _] | _]} -> inet6;
        _ -> inet
    end.

%% An address carries its family; a name is looked up in distribution's.
family_of(Host) ->
    case inet:parse_strict_address(Host) of
        {ok, Address} when tuple_size(Address) =:= 8 -> inet6;
        {ok, _} -> inet;
        {error, einval} -> family()
    end.

node_host() ->
    [_, Host] = binary:split(atom_to_binary(node()), <<"@">>),
    Host.

text(Address) ->
    list_to_binary(inet:ntoa(Address)).
