defmodule Consumer.MixProject do
  # The smallest mix project that depends on hawser. test/consumers/run.sh says by the environment which way is on trial:
  # HAWSER_PATH, or HAWSER_GIT with HAWSER_REF.
  use Mix.Project

  def project do
    [app: :consumer, version: "1.0.0", deps: [hawser()]]
  end

  defp hawser do
    case System.get_env("HAWSER_PATH") do
      nil -> {:hawser, git: System.fetch_env!("HAWSER_GIT"), ref: System.fetch_env!("HAWSER_REF")}
      path -> {:hawser, path: path}
    end
  end
end
