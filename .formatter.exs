[
  inputs: ["mix.exs", ".formatter.exs", "test/consumers/mix/**/*.{ex,exs}"]
]
