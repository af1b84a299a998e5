#!/bin/sh
# Makes priv/libhawser_nif.so. rebar3 (pre_hook), mix (compiler in mix.exs) and make call it; nothing else makes the .so.
# HAWSER_PREBUILT=FILE takes that file instead of building one; CARGO_TARGET_DIR is respected.
set -eu
cd "$(dirname "$0")/.."

if [ -n "${HAWSER_PREBUILT:-}" ]; then
    built="$HAWSER_PREBUILT"
    [ -f "$built" ] || { echo "hawser: HAWSER_PREBUILT names no file: $built" >&2; exit 1; }
else
    command -v cargo >/dev/null || {
        echo "hawser: cargo is not on the PATH; install Rust (with cargo) to build hawser's native part." >&2
        exit 1
    }
    # With its own words cargo complains of the edition, of a lock file or of somebody else's crate.
    wanted="$(sed -n 's/^rust-version = "\([0-9.]*\)"$/\1/p' Cargo.toml)"
    found="$(rustc --version | sed 's/^rustc \([0-9.]*\).*/\1/')"
    printf '%s\n%s\n' "$wanted" "$found" | sort -C -V || {
        echo "hawser: Rust $found is too old to build hawser's native part; install Rust $wanted or newer, with cargo." >&2
        exit 1
    }
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
    cargo build --quiet --release --locked -p hawser_nif
    built="$CARGO_TARGET_DIR${CARGO_BUILD_TARGET:+/$CARGO_BUILD_TARGET}/release/libhawser_nif.so"
fi

# A running VM has the old file mapped: a new one takes its name, and the bytes of the old one stay as they are.
if ! cmp -s "$built" priv/libhawser_nif.so; then
    mkdir -p priv
    cp "$built" "priv/.libhawser_nif.$$"
    mv -f "priv/.libhawser_nif.$$" priv/libhawser_nif.so
fi
