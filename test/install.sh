#!/usr/bin/env bash
# Installs with apt the Debian packages that building and testing hawser need, and only those that are missing: on a machine
# that has them all it does nothing and needs no rights. With arguments: these packages instead. Called by make and by
# test/otp.sh. Rust is not installed here: hawser takes the toolchain that the machine has.
set -euo pipefail

missing=()

# A tool on the PATH is taken as it is, wherever it comes from.
tool() { command -v "$1" >/dev/null || missing+=("$2"); }

# Debian packages by their state.
packages() {
    local installed
    # dpkg-query fails when it does not know one of them; it still prints the others.
    installed=" $({ dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true; } |
        sed -n 's/^installed //p' | tr '\n' ' ')"
    for package in "$@"; do
        case "$installed" in *" $package "*) ;; *) missing+=("$package") ;; esac
    done
}

if [ "$#" -gt 0 ]; then
    packages "$@"
else
    tool cc gcc
    tool make make
    tool git git
    tool rebar3 rebar3
    tool mix elixir
    # Debian splits OTP into packages; an OTP of one's own has all in one, PropEr excepted.
    case "$(command -v erl || true)" in
        "" | /usr/bin/erl)
            packages libc6-dev erlang-base erlang-dev erlang-crypto erlang-ssl erlang-public-key erlang-asn1 \
                erlang-common-test erlang-eunit erlang-dialyzer erlang-tools erlang-runtime-tools erlang-parsetools \
                erlang-syntax-tools erlang-xmerl erlang-inets erlang-edoc erlang-proper erlang-proper-dev
            ;;
    esac
fi
[ "${#missing[@]}" -gt 0 ] || exit 0

run=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null; then
        run=(sudo)
    else
        echo "hawser: these Debian packages are missing and neither root nor sudo is at hand to install them: ${missing[*]}" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null; then
    echo "hawser: this is no Debian (apt-get is missing); install these packages' equals by hand: ${missing[*]}" >&2
    exit 1
fi
echo "hawser: installing ${missing[*]}"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
if ! { "${run[@]}" apt-get update -qq &&
    "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "hawser: apt could not install ${missing[*]}; the lines above are apt's own." >&2
    exit 1
fi
