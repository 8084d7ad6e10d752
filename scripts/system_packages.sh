#!/bin/sh
# Makes sure that the system has what was asked for: `venv` (Python with venv and pip),
# `compiler` (a C compiler with headers, for the simulated NVML that the tests build), `screen` (GNU
# screen and tmux, for the tests of sessions), `systemd` (systemd-analyze, which checks our unit in a test).
# As root on Debian and its kin it installs what is missing; elsewhere it says what to install.
# `promtool` (checks the alert rules) is fetched into .venv/bin, and may be missing: its tests are
# skipped then. So may `postgres` and `redis`, the servers that the tests start for themselves.
set -eu
PYTHON=${PYTHON:-python3}

works() {
    case $1 in
        venv) "$PYTHON" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' ;;
        compiler)
            probe=$(mktemp -d)
            printf '#include <stdio.h>\nint main(void) { return 0; }\n' >"$probe/probe.c"
            status=0
            gcc "$probe/probe.c" -o "$probe/probe" || status=1
            rm -rf "$probe"
            return $status
            ;;
        promtool) command -v promtool || test -x .venv/bin/promtool ;;
        postgres)
            ls /usr/lib/postgresql/*/bin/postgres || command -v postgres ||
                .venv/bin/python -c 'import pgserver'
            ;;
        redis) command -v redis-server ;;
        screen) command -v screen && command -v tmux ;;
        systemd) command -v systemd-analyze ;;
    esac
} >/dev/null 2>&1

packages() {
    case $1 in
        venv) echo python3 python3-venv ;;
        compiler) echo gcc libc6-dev ;;
        promtool) echo prometheus ;;
        postgres) echo postgresql ;;
        redis) echo redis-server ;;
        screen) echo screen tmux ;;
        systemd) echo systemd ;;
    esac
}

purpose() {
    case $1 in
        venv) echo "Python 3.11 or newer with venv (as '$PYTHON'; choose with PYTHON=…)" ;;
        compiler) echo "a C compiler (gcc) with headers" ;;
        promtool) echo "promtool; the tests of the alert rules are skipped" ;;
        postgres) echo "PostgreSQL; its tests are skipped" ;;
        redis) echo "Redis; its tests are skipped" ;;
        screen) echo "GNU screen and tmux, for jobs in sessions" ;;
        systemd) echo "systemd-analyze, which checks our unit" ;;
    esac
}

# Takes the one program out of the package: installed whole, the package starts a server.
fetch_promtool() {
    folder=$(mktemp -d)
    chmod 755 "$folder"
    (
        cd "$folder"
        apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
    ) >/dev/null 2>&1 && mkdir -p .venv/bin && cp "$folder/usr/bin/promtool" .venv/bin/promtool
    rm -rf "$folder"
}

install_packages() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    echo "installing $(packages "$1")"
    export DEBIAN_FRONTEND=noninteractive
    export RUNLEVEL=1 # a package that brings a server does not start it
    # shellcheck disable=SC2046 # several packages are several words
    apt-get update -qq && apt-get install -y -qq --no-install-recommends $(packages "$1") >/dev/null
}

for need in "$@"; do
    if works "$need"; then continue; fi
    if [ "$need" = promtool ]; then
        fetch_promtool || true
        works promtool || echo "missing: $(purpose promtool)" >&2
        continue
    fi
    if [ "$need" = postgres ] || [ "$need" = redis ]; then
        install_packages "$need" || true
        if [ "$need" = postgres ] && ! works postgres; then
            .venv/bin/python -m pip install --quiet pgserver >/dev/null 2>&1 || true
        fi
        works "$need" || echo "missing: $(purpose "$need")" >&2
        continue
    fi
    install_packages "$need"
    if ! works "$need"; then
        echo "missing: $(purpose "$need"). On Debian: apt-get install $(packages "$need")" >&2
        exit 1
    fi
done
