defmodule Consumer do
  # Two nodes, hawser on both, messages each way and a call. fallback is none, so that nothing that hawser sends can have gone
  # over distribution; what Consumer.AsEver sends is seen in hawser's counters.
  # hawser starts with this application: mix has put it among its own.

  def main do
    {:ok, _} = Node.start(:consumer_here, :shortnames)
    args = [~c"-pa" | :code.get_path()]
    {:ok, peer, there} = :peer.start_link(%{name: :consumer_there, args: args})
    :ok = start(node())
    :ok = start(there)
    :ok = :hawser.await(there, 10_000)
    [^there] = :hawser.nodes()
    echo = Node.spawn(there, __MODULE__, :echo, [node()])
    :hawser.send(echo, {self(), "hello"})

    receive do
      {^echo, answer} -> IO.puts("#{there} answers #{answer}")
    after
      10_000 -> exit(:no_answer)
    end

    before = sent()
    :ok = Consumer.AsEver.main(echo, there)
    4 = sent() - before
    :peer.stop(peer)
  end

  defp sent do
    %{totals: %{sent_messages: sent}} = :hawser.info()
    sent
  end

  def echo(here) do
    :ok = :hawser.await(here, 10_000)

    echo()
  end

  defp echo do
    receive do
      {from, message} -> :hawser.send(from, {self(), message})
    end

    echo()
  end

  defp start(node) do
    # Loading sets the environment: what is set before would be gone. Here mix has loaded it already.
    _ = :erpc.call(node, :application, :load, [:hawser])
    :ok = :erpc.call(node, :application, :set_env, [:hawser, :fallback, :none])
    {:ok, started} = :erpc.call(node, :application, :ensure_all_started, [:consumer])
    true = :hawser in started
    {:ok, :none} = :erpc.call(node, :application, :get_env, [:hawser, :fallback])
    :ok
  end
end
