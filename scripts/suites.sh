#!/bin/sh
# Runs suites against real Cassandra nodes, one after the other: sh scripts/suites.sh VERDICTS QUEUE
# QUEUE is a file with one suite a line; each is taken out before it runs, so several of these share a queue.
# A suite is the name of a test of helenus-tests; with `:TESTS` only those whose names contain one of TESTS (names
# with commas between them), with `:-TESTS` all others. Writes `ok SUITE SECONDS` or `FAILED SUITE SECONDS` for each
# to the file VERDICTS. HELENUS_BIN names the program. HELENUS_LONG, if it is set, has tests do all that they can.
set -u
verdicts=$1
queue=$2
# The random tests are short here, and their seeds the same; longer and random by hand (CONTRIBUTING.md).
export HELENUS_SEED=2 HELENUS_DIFFERENTIAL_OPS=1800
if [ -z "${HELENUS_LONG:-}" ]; then
    # Of the default's 12 tables, and 3,000 operations.
    export HELENUS_LAYOUT_TABLES=8 HELENUS_LAYOUT_OPERATIONS=4000 HELENUS_PAYLOAD_OPERATIONS=2000
fi
next() {
    # shellcheck disable=SC2016
    flock "$queue.lock" sh -c 'head -n 1 "$1" && sed -i 1d "$1"' - "$queue"
}
worst=0
while suite=$(next) && [ -n "$suite" ]; do
    began=$(date +%s)
    echo "suite $suite"
    names=$(echo "${suite#*:}" | tr ',' ' ')
    only=
    case $suite in
        *:-*) for name in ${names#-}; do only="$only --skip $name"; done ;;
        *:*) only=$names ;;
    esac
    # Tests that share their nodes and mostly wait for leases and time-outs.
    case $suite in
        layouts_ctl) at_once=3 ;;
        payload_ctl) at_once=2 ;;
        *) at_once=1 ;;
    esac
    # Unquoted on purpose: one word each, or none.
    # shellcheck disable=SC2086
    if cargo test --locked --workspace --test "${suite%%:*}" -- --nocapture --test-threads "$at_once" $only; then
        verdict=ok
    else
        verdict=FAILED
        worst=1
    fi
    echo "$verdict $suite $(($(date +%s) - began))" >>"$verdicts"
done
exit "$worst"
