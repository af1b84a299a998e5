#!/bin/sh
# Compiles the benchmark into _build/bench/ebin and runs it; `bench/run.sh --help` lists the options.
# hawser itself has to be compiled before (`make compile`): without it the hawser path is left out of the tables.
set -eu
cd "$(dirname "$0")/.."
ebin=_build/bench/ebin
mkdir -p "$ebin"
erlc -Wall -o "$ebin" bench/hawser_bench_path.erl bench/hawser_bench_requests.erl bench/hawser_demo_pass.erl
erlc -Wall -pa "$ebin" -o "$ebin" bench/*.erl
export HAWSER_BENCH_PATHS="$ebin:_build/default/lib/hawser/ebin"
if [ -t 2 ]; then export HAWSER_BENCH_TTY=1; fi
exec erl +S 1:1 -noshell -noinput -pa "$ebin" -run hawser_bench main -extra "$@"
