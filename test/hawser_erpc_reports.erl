%% A logger handler that tells the suite of hawser_erpc what the emulator reports of processes that failed, without what
%% differs from one run to the next. Test code only.
-module(hawser_erpc_reports).

-export([log/2]).

-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(#{level := Level, msg := {report, #{format := Format, args := [Pid, Node, Reason]} = Report},
    meta := #{error_logger := Emulator}}, #{config := #{to := To}})
    when is_pid(Pid) ->
    To ! {report, {Level, Format, Node, reason(Reason), lists:sort(maps:keys(Report)), Emulator}},
    ok;
log(#{level := Level, msg := {Format, [Pid, Node, Reason]}, meta := #{error_logger := Emulator}},
    #{config := #{to := To}}) when is_pid(Pid) ->
    To ! {report, {Level, Format, Node, reason(Reason), Emulator}},
    ok;
log(_, _) ->
    ok.

%% The frames of the process that ran the body are each module's own.
reason({Reason, Stack}) when is_list(Stack) ->
    {hawser_erpc_calls:normal(Reason), [Frame || Frame <- Stack, not own(Frame)]};
reason(Reason) ->
    hawser_erpc_calls:normal(Reason).

own({erpc, execute_cast, _, _}) -> true;
own({hawser_body, cast, _, _}) -> true;
own(_) -> false.
