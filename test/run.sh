#!/usr/bin/env bash
# The steps of `make test` (all) and `make check` (check: those that run no test). One line a step; the logs are in
# _build/test-logs, and a step that fails shows the end of its own. Adds up what the runners themselves report and ends with
# `N passed, N failed`; a step that fails without a number counts as one failure. Exits 0 only if something ran and all passed.
set -uo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh
export TERM=dumb

logs=_build/test-logs
mkdir -p "$logs"
passed=0
failed=0

# step NAME COUNTER COMMAND...: COUNTER is one of lib.sh's readers, or none for a step that only says yes or no.
step() {
    local name="$1" counter="$2" log="$logs/$1.log" status=0 begin=$SECONDS
    shift 2
    "$@" >"$log" 2>&1 </dev/null || status=$?
    PASSED=0 FAILED=0
    [ "$counter" = none ] || "$counter" "$log"
    if [ "$status" -ne 0 ] && [ "$FAILED" -eq 0 ]; then FAILED=1; fi
    passed=$((passed + PASSED)) failed=$((failed + FAILED))
    local numbers=""
    [ "$counter" = none ] || numbers=" ($PASSED passed, $FAILED failed)"
    if [ "$FAILED" -eq 0 ]; then
        printf 'ok      %-18s %4d s%s\n' "$name" $((SECONDS - begin)) "$numbers"
    else
        printf 'FAILED  %-18s %4d s%s\n' "$name" $((SECONDS - begin)) "$numbers"
        tail -n 80 "$log" | sed 's/.*\r//; s/^/    | /'
        printf '    the whole log: %s\n' "$log"
    fi
}

# hawser_nif is no program of its own: what it needs exists inside a VM only, and Common Test runs it there. A machine with
# nothing but Rust has no nextest; cargo's own runner does the same.
rust_tests() {
    local what=(--workspace --exclude hawser_nif --tests --locked --no-fail-fast --color never)
    if cargo nextest --version >/dev/null 2>&1; then
        step rust-tests count_nextest cargo nextest run "${what[@]}"
    else
        step rust-tests count_cargo cargo test "${what[@]}"
    fi
}

step rust-format none cargo fmt --all --check
step rust-clippy none cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
if [ "${1:-all}" = all ]; then
    rust_tests
    step rust-doc-tests count_cargo cargo test --workspace --doc --locked --color never
fi
step build none rebar3 as test compile
step xref none rebar3 xref
step dialyzer none rebar3 dialyzer
step elixir-format none mix format --check-formatted
if [ "${1:-all}" = all ]; then
    # The suites' nodes are distributed ones, the node that runs the suites is not: nobody else would start epmd.
    epmd -daemon
    step common-test count_ct rebar3 ct
    step consumers count_plain test/consumers/run.sh
    echo "$passed passed, $failed failed" | tee "$logs/total"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
else
    [ "$failed" -eq 0 ]
fi
