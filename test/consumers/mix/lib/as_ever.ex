defmodule Consumer.AsEver do
  # A module whose sends and calls go over hawser, though they are written as ever.
  use Consumer.OverHawser

  def main(echo, there) do
    send(echo, {self(), "hello again"})

    receive do
      {^echo, answer} -> IO.puts("#{there} answers #{answer}")
    after
      10_000 -> exit(:no_answer)
    end

    ^there = node_of(there)
    [ok: ^there] = all_of([there])
    ^there = answer(request(there))
    :ok
  end

  over_hawser do
    def node_of(there), do: :erpc.call(there, :erlang, :node, [])

    def all_of(nodes), do: nodes |> :erpc.multicall(&:erlang.node/0)

    @spec request(node()) :: :erpc.request_id()
    def request(there), do: :erpc.send_request(there, :erlang, :node, [])

    def answer(request) do
      receive_it = &:erpc.receive_response/1
      receive_it.(request)
    end
  end
end
