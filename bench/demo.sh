#!/bin/sh
# Compiles the demo into _build/bench/ebin and runs it: `bench/demo.sh [--seconds N] [--pairs N] [--file FILE]`.
# Builds hawser first, so that this script alone is enough once the tools are there (`make demo` installs them).
set -eu
cd "$(dirname "$0")/.."
rebar3 compile
ebin=_build/bench/ebin
mkdir -p "$ebin"
erlc -Wall -o "$ebin" bench/hawser_bench_path.erl bench/hawser_bench_requests.erl bench/hawser_demo_pass.erl
erlc -Wall -pa "$ebin" -o "$ebin" bench/*.erl
export HAWSER_BENCH_PATHS="$ebin:_build/default/lib/hawser/ebin"
if [ -t 1 ]; then export HAWSER_BENCH_TTY=1; fi
exec erl +S 1:1 -noshell -noinput -pa "$ebin" -run hawser_demo main -extra "$@"
