#!/usr/bin/env bash
# Proves that a rebar3 project and a mix project can each depend on hawser, by path and by git, without hex: copies the two
# smallest projects beside this file to a temporary folder, builds them there and lets each exchange a message between two nodes.
# The git repository is one commit of the working tree as it is, made in the temporary folder. Prints `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")"
here="$PWD"
root="$(cd ../.. && pwd)"

temp="$(mktemp -d)"
trap 'rm -rf "$temp"' EXIT
passed=0
failed=0

# Nothing of the caller's projects, and nothing of hex, may lend a hand.
unset ERL_LIBS MIX_ENV MIX_PATH REBAR_CONFIG ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS
export CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
export HOME="$temp/home"
mkdir -p "$HOME"
# The crates of the git dependencies are compiled once for both tools, and kept for the next run.
shared_target="$root/_build/consumers-target"

repository() {
    local git=(git --git-dir="$temp/hawser.git" --work-tree="$root")
    git init --quiet --bare "$temp/hawser.git" &&
        git --git-dir="$temp/hawser.git" config core.bare false &&
        (cd "$root" && "${git[@]}" add --all) &&
        "${git[@]}" -c user.name=hawser -c user.email=hawser@localhost commit --quiet --message "The working tree as it is" &&
        commit="$("${git[@]}" rev-parse HEAD)"
}

# project NAME SOURCE FUNCTION: one trial, in a copy of its own.
project() {
    echo "--- $1"
    mkdir -p "$temp/$1" && cp -R "$2/." "$temp/$1" && cd "$temp/$1" || return 1
    if "$3"; then
        passed=$((passed + 1))
    else
        echo "--- $1 failed"
        failed=$((failed + 1))
    fi
    cd "$here" || exit 1
}

rebar3_build_and_run() {
    rebar3 compile &&
        erl -noshell -pa _build/default/lib/*/ebin _build/default/checkouts/*/ebin -eval 'consumer:main(), halt().'
}

rebar3_by_git() {
    sed -i "s|HAWSER_GIT|file://$temp/hawser.git|; s|HAWSER_REF|$commit|" rebar.config
    CARGO_TARGET_DIR="$shared_target" rebar3_build_and_run
}

# A repository that does not exist stays in rebar.config: only the folder can have been used.
rebar3_by_path() {
    mkdir _checkouts
    ln -s "$root" _checkouts/hawser
    rebar3_build_and_run
}

mix_by_git() {
    export HAWSER_GIT="file://$temp/hawser.git" HAWSER_REF="$commit"
    # git draws its progress over and over; of that only the last state is worth a line.
    mix deps.get 2>&1 | sed 's/.*\r//' && CARGO_TARGET_DIR="$shared_target" mix run --no-start --eval 'Consumer.main()'
}

mix_by_path() {
    HAWSER_PATH="$root" mix run --no-start --eval 'Consumer.main()'
}

epmd -daemon
repository || { echo "the working tree could not be committed to a temporary repository"; echo "0 passed, 1 failed"; exit 1; }
project rebar3-by-path rebar3 rebar3_by_path
project rebar3-by-git rebar3 rebar3_by_git
project mix-by-path mix mix_by_path
project mix-by-git mix mix_by_git
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
