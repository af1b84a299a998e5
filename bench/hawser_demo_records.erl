%% The demo's data: the control records of a dpkg status file as Erlang terms, each with its checksum. Called on the
%% demo's nodes. Knows nothing of nodes and paths.
-module(hawser_demo_records).

-export([read/1, checksum/1]).
-export_type([item/0, package/0]).

%% Field names are atoms if Debian's policy or dpkg names them, binaries else: a file must not be able to make atoms.
%% Values are text, except: installed_size is an integer, lists of relations are lists of dependency().
-type package() :: #{atom() | binary() => binary() | integer() | [dependency()]}.
-type dependency() :: binary() | {binary(), Relation :: atom(), Version :: binary()} | {any_of, [dependency()]}.
-type item() :: {Checksum :: non_neg_integer(), TextBytes :: pos_integer(), package()}.

%% One item per paragraph of the file, in its order.
-spec read(file:filename()) -> [item()].
read(File) ->
    {ok, Text} = file:read_file(File),
    [item(Paragraph) || Paragraph <- binary:split(Text, <<"\n\n">>, [global, trim_all]), Paragraph =/= <<"\n">>].

%% The same for equal records on any node: maps have no order, so their pairs are sorted first.
-spec checksum(package()) -> non_neg_integer().
checksum(Record) ->
    erlang:crc32(term_to_binary(lists:sort(maps:to_list(Record)))).

item(Paragraph) ->
    Record = maps:from_list([field(Field) || Field <- fields(binary:split(Paragraph, <<"\n">>, [global, trim_all]))]),
    {checksum(Record), byte_size(Paragraph), Record}.

%% A line that begins with a space continues the field before it.
fields(Lines) ->
    lists:reverse(lists:foldl(fun fold/2, [], Lines)).

fold(<<C, _/binary>> = Line, [{Name, Text} | Fields]) when C =:= $\s; C =:= $\t ->
    [{Name, <<Text/binary, $\n, Line/binary>>} | Fields];
fold(Line, Fields) ->
    case binary:split(Line, <<":">>) of
        [Name, Text] -> [{binary:copy(Name), binary:copy(string:trim(Text))} | Fields];
        [Whole] -> [{binary:copy(Whole), <<>>} | Fields]
    end.

field({Text, Value}) ->
    Name = name(Text),
    {Name, value(kind(Name), Value)}.

value(text, Text) -> Text;
value(number, Text) -> binary_to_integer(Text);
value(relations, Text) -> [alternatives(One) || One <- parts(Text, <<",">>)].

alternatives(Text) ->
    case parts(Text, <<"|">>) of
        [One] -> dependency(One);
        Several -> {any_of, [dependency(One) || One <- Several]}
    end.

dependency(Text) ->
    case re:run(Text, "^(\\S+) \\((<<|<=|=|>=|>>) ([^)]+)\\)", [{capture, all_but_first, binary}]) of
        {match, [Package, Relation, Version]} -> {Package, relation(Relation), Version};
        nomatch -> Text
    end.

parts(Text, Separator) ->
    [binary:copy(string:trim(Part)) || Part <- binary:split(Text, Separator, [global, trim_all])].

relation(<<"<<">>) -> '<<';
relation(<<"<=">>) -> '<=';
relation(<<"=">>) -> '=';
relation(<<">=">>) -> '>=';
relation(<<">>">>) -> '>>'.

kind(installed_size) -> number;
kind(Name) when Name =:= depends; Name =:= pre_depends; Name =:= recommends; Name =:= suggests; Name =:= enhances;
                Name =:= breaks; Name =:= conflicts; Name =:= replaces; Name =:= provides -> relations;
kind(_Name) -> text.

name(<<"Package">>) -> package;
name(<<"Status">>) -> status;
name(<<"Priority">>) -> priority;
name(<<"Section">>) -> section;
name(<<"Installed-Size">>) -> installed_size;
name(<<"Maintainer">>) -> maintainer;
name(<<"Original-Maintainer">>) -> original_maintainer;
name(<<"Architecture">>) -> architecture;
name(<<"Multi-Arch">>) -> multi_arch;
name(<<"Essential">>) -> essential;
name(<<"Protected">>) -> protected;
name(<<"Important">>) -> important;
name(<<"Source">>) -> source;
name(<<"Version">>) -> version;
name(<<"Config-Version">>) -> config_version;
name(<<"Depends">>) -> depends;
name(<<"Pre-Depends">>) -> pre_depends;
name(<<"Recommends">>) -> recommends;
name(<<"Suggests">>) -> suggests;
name(<<"Enhances">>) -> enhances;
name(<<"Breaks">>) -> breaks;
name(<<"Conflicts">>) -> conflicts;
name(<<"Replaces">>) -> replaces;
name(<<"Provides">>) -> provides;
name(<<"Built-Using">>) -> built_using;
name(<<"Static-Built-Using">>) -> static_built_using;
name(<<"Conffiles">>) -> conffiles;
name(<<"Description">>) -> description;
name(<<"Homepage">>) -> homepage;
name(<<"Tag">>) -> tag;
name(<<"Origin">>) -> origin;
name(<<"Bugs">>) -> bugs;
name(<<"Triggers-Pending">>) -> triggers_pending;
name(<<"Triggers-Awaited">>) -> triggers_awaited;
name(Unknown) -> Unknown.
