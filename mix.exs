defmodule Hawser.MixProject do
  # hawser as a mix project and as a mix dependency. erlang/hawser.app.src is the only place of the version and of the
  # application's keys. Nothing here asks hex.
  use Mix.Project

  {:ok, [{:application, :hawser, keys}]} =
    :file.consult(Path.join([__DIR__, "erlang", "hawser.app.src"]))

  @external_resource Path.join([__DIR__, "erlang", "hawser.app.src"])
  @keys keys

  def project do
    [
      app: :hawser,
      version: List.to_string(@keys[:vsn]),
      description: List.to_string(@keys[:description]),
      language: :erlang,
      erlc_paths: ["erlang"],
      erlc_options: [:debug_info],
      compilers: [:hawser_nif | Mix.compilers()],
      deps: []
    ]
  end

  def application do
    [
      mod: @keys[:mod],
      registered: @keys[:registered] || [],
      env: @keys[:env] || [],
      extra_applications: @keys[:applications] -- [:kernel, :stdlib]
    ]
  end
end

defmodule Mix.Tasks.Compile.HawserNif do
  # Makes priv/libhawser_nif.so with native/build.sh. mix links priv into the build before the compilers run, when a fresh
  # checkout has none: the structure is built again.
  use Mix.Task.Compiler

  @impl Mix.Task.Compiler
  def run(_args) do
    case System.cmd(Path.join(__DIR__, "native/build.sh"), [], stderr_to_stdout: true) do
      {_, 0} ->
        Mix.Project.build_structure()
        :noop

      {output, _} ->
        Mix.raise(String.trim_trailing(output))
    end
  end
end
