#!/bin/sh
# Runs suites against real Cassandra nodes, one after the other: sh scripts/suites.sh VERDICTS QUEUE PROGRAMS
# QUEUE is a file with one suite a line; each is taken out before it runs, so several of these share a queue.
# A suite is the name of a test in PROGRAMS, a file of lines `NAME FOLDER PROGRAM`; with `:TESTS` only those whose names contain one of TESTS (names with commas between them), with `:-TESTS` all others.
# The suite `drivers` is scripts/drivers.sh, on nodes that the program HELENUS_ON_NODES starts.
# Programs are run as they are, for cargo waits while another cargo builds. Writes `ok SUITE SECONDS CPU` or
# `FAILED SUITE SECONDS CPU` for each to the file VERDICTS (CPU: seconds of processors, without the nodes that it hands on); ends with 1 if one has failed, 2 if the queue cannot be read. HELENUS_BIN names the program. HELENUS_LONG, if it is set, has
# tests do all that they can. HELENUS_POOL, if it is set, is the folder of the clusters that suites hand on to each other.
set -u
. scripts/cpu.sh
verdicts=$1
queue=$2
programs=$3
# The random tests are short here, and their seeds fixed, or the commit's (`./test --all`); longer and random by hand
# (CONTRIBUTING.md).
[ -n "${HELENUS_LONG:-}" ] || HELENUS_SEED_EXTRA=2
export HELENUS_SEED="${HELENUS_SEED:-${HELENUS_SEED_EXTRA:-2}}" HELENUS_DIFFERENTIAL_OPS=1800
if [ -z "${HELENUS_LONG:-}" ]; then
    # Of the default's 12 tables, and 3,000 operations.
    export HELENUS_LAYOUT_TABLES=8 HELENUS_LAYOUT_OPERATIONS=4000 HELENUS_PAYLOAD_OPERATIONS=2000
    # Waits for leases, which all of proxies and commands share here.
    export HELENUS_WAITS_PERCENT=40
fi
# The next suite, or nothing if there is none left.
next() {
    # shellcheck disable=SC2016
    flock "$queue.lock" sh -c 'head -n 1 "$1" && sed -i 1d "$1"' - "$queue"
}
run() {
    names=
    only=
    case $1 in
        *:-*)
            names=$(echo "${1#*:-}" | tr ',' ' ')
            for name in $names; do only="$only --skip $name"; done
            ;;
        *:*)
            names=$(echo "${1#*:}" | tr ',' ' ')
            only=$names
            ;;
    esac
    # Tests that share their nodes and mostly wait for leases and time-outs.
    case $1 in
        layouts_ctl) at_once=4 ;;
        payload_ctl) at_once=3 ;;
        *) at_once=1 ;;
    esac
    if [ "$1" = drivers ]; then
        env -u RUSTC_WORKSPACE_WRAPPER "$HELENUS_ON_NODES" sh scripts/drivers.sh
        return
    fi
    line=$(grep "^${1%%:*} " "$programs") || { echo "no test is called ${1%%:*}"; return 1; }
    program=${line#* }
    # Nobody would miss the tests of a name that is none any more.
    for name in $names; do
        "${program#* }" --list "$name" | grep ': test$' >/dev/null || { echo "no test matches $name"; return 1; }
    done
    # Unquoted on purpose: one word each, or none.
    # shellcheck disable=SC2086
    (cd "${program%% *}" && "${program#* }" --nocapture --test-threads "$at_once" $only)
}
spent=$(mktemp)
trap 'rm -f "$spent"' EXIT
worst=0
while :; do
    suite=$(next) || { echo "the suites that are left cannot be told"; exit 2; }
    [ -n "$suite" ] || break
    began=$(date +%s)
    echo "suite $suite"
    # A process of its own, so its `times` are the suite's.
    if (
        run "$suite"
        code=$?
        times >"$spent"
        [ -z "${HELENUS_POOL:-}" ] || python3 scripts/pool.py freeze "$HELENUS_POOL"
        exit "$code"
    ); then
        verdict=ok
    else
        verdict=FAILED
        worst=1
    fi
    echo "$verdict $suite $(($(date +%s) - began)) $(cpu_seconds "$spent")" >>"$verdicts"
done
exit "$worst"
