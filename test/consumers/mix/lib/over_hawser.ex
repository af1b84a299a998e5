defmodule Consumer.OverHawser do
  # `use Consumer.OverHawser`: send/2 is hawser's in the module, and in a block of over_hawser so are the functions of :erpc.

  defmacro __using__(_) do
    quote do
      import Kernel, except: [send: 2]
      import :hawser, only: [send: 2]
      import Consumer.OverHawser
    end
  end

  defmacro over_hawser(do: block) do
    Macro.prewalk(block, fn
      {:., meta, [:erpc, function]} -> {:., meta, [:hawser_erpc, function]}
      other -> other
    end)
  end
end
