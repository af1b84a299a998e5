#!/usr/bin/env bash
# Runs the Common Test suites on another OTP: OTP=27 (Debian trixie, with Elixir) or OTP=29 (Debian forky), each in a chroot.
# The chroot is made once, in HAWSER_OTP_CACHE (default ~/.cache/hawser-otp), never in the repository. The .so is built
# outside, on this machine, and taken as it is. With Elixir the consumers of test/consumers run too. All of it runs in namespaces of their own (mounts, processes, network, host
# name), so nothing that they start is left behind. `test/otp.sh --prepare` makes the chroot and stops. Needs root.
# ARGS goes to `rebar3 ct`, as in ARGS="--suite test/send_SUITE".
set -euo pipefail
cd "$(dirname "$0")/.."
. test/lib.sh

otp="${OTP:-27}"
case "$otp" in
    27) suite=trixie; extra=(elixir git); flags=() ;;
    29) suite=forky; extra=(); flags=(--no-merged-usr) ;;
    *) die "OTP=$otp is not known here; say OTP=27 or OTP=29." ;;
esac
packages=(ca-certificates erlang-base erlang-dev erlang-crypto erlang-ssl erlang-public-key erlang-asn1 erlang-common-test
    erlang-eunit erlang-dialyzer erlang-tools erlang-runtime-tools erlang-parsetools erlang-syntax-tools erlang-xmerl
    erlang-inets erlang-edoc rebar3 erlang-proper erlang-proper-dev iproute2 "${extra[@]}")
cache="${HAWSER_OTP_CACHE:-$HOME/.cache/hawser-otp}"
box="$cache/otp$otp"

# The mirror is the one that this machine's own apt uses.
mirror() {
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }'
}

# Made under another name and renamed: an interrupted run leaves no half chroot that looks whole. The file .packages says what is
# installed; a list that has grown is installed on top.
prepare() {
    [ "$(cat "$box/.packages" 2>/dev/null)" = "${packages[*]}" ] && return 0
    test/install.sh debootstrap iproute2
    mkdir -p "$cache"
    if [ ! -e "$box" ]; then
        local from script
        from="${HAWSER_DEBIAN_MIRROR:-$(mirror)}"
        [ -n "$from" ] || die "no Debian mirror in this machine's apt configuration: set HAWSER_DEBIAN_MIRROR."
        # debootstrap of an older Debian has no script for newer suites: sid's fits them all.
        script=/usr/share/debootstrap/scripts/$suite
        [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
        rm -rf "$box.new"
        say "OTP $otp: making a Debian $suite in $box (once, a few minutes)"
        logged unshare --mount debootstrap --variant=minbase "${flags[@]}" "$suite" "$box.new" "$from" "$script"
        # A frozen mirror's Release files run out; their signatures are still checked.
        echo 'Acquire::Check-Valid-Until "false";' >"$box.new/etc/apt/apt.conf.d/99frozen"
        printf '#!/bin/sh\nexit 101\n' >"$box.new/usr/sbin/policy-rc.d"
        chmod +x "$box.new/usr/sbin/policy-rc.d"
        mv "$box.new" "$box"
    fi
    cp /etc/resolv.conf "$box/etc/resolv.conf"
    logged inside "$box" shared 'apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@" && apt-get clean' \
        "${packages[@]}"
    local release
    release="$(inside "$box" own 'erl -noshell -eval "io:format(\"~s\", [erlang:system_info(otp_release)]), halt()."')"
    [ "$release" = "$otp" ] || die "Debian $suite brings OTP $release, not $otp."
    echo "${packages[*]}" >"$box/.packages"
}

logged() {
    "$@" >>"$cache/otp$otp.log" 2>&1 ||
        { tail -n 20 "$cache/otp$otp.log" >&2; die "the chroot could not be made; the log is $cache/otp$otp.log."; }
}

# inside ROOT own|shared COMMAND [ARG...]: a shell command in the chroot; `own` gives it a network of its own with lo up.
inside() {
    local root="$1" net="$2" command="$3"; shift 3
    local spaces=(--mount --pid --uts --ipc --fork --kill-child)
    [ "$net" = own ] && spaces+=(--net)
    # shellcheck disable=SC2016
    unshare "${spaces[@]}" bash -ec '
        root="$1" net="$2" command="$3"; shift 3
        hostname hawser-otp
        printf "127.0.0.1 localhost hawser-otp\n" >"$root/etc/hosts"
        echo hawser-otp >"$root/etc/hostname"
        if [ "$net" = own ]; then ip link set lo up; fi
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            DEBIAN_FRONTEND=noninteractive CI="${CI:-}" HAWSER_PREBUILT="${HAWSER_PREBUILT:-}" \
            bash -c "$command" bash "$@"' bash "$root" "$net" "$command" "$@"
}

[ "$(id -u)" = 0 ] || die "test-otp makes a chroot, which only root can do: run it as root."
prepare
[ "${1:-}" = --prepare ] && exit 0

native/build.sh
say "OTP $otp: Common Test in $box"
rm -rf "$box/hawser"
mkdir -p "$box/hawser"
tree | tar -c --null -T - | tar -x -C "$box/hawser"
cp priv/libhawser_nif.so "$box/hawser.so"
run='cd /hawser; status=0; epmd -daemon; rebar3 ct "$@" || status=1'
[ "$otp" = 27 ] && run+='; test/consumers/run.sh || status=1'
run+='; exit $status'
log="_build/test-logs/otp$otp.log"
mkdir -p "$(dirname "$log")"
status=0
# shellcheck disable=SC2086
HAWSER_PREBUILT=/hawser.so inside "$box" own "$run" ${ARGS:-} >"$log" 2>&1 || status=$?
count_ct "$log"
passed=$PASSED failed=$FAILED
count_plain "$log"
passed=$((passed + PASSED)) failed=$((failed + FAILED))
if [ "$status" -ne 0 ]; then
    tail -n 80 "$log"
    [ "$failed" -gt 0 ] || failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
