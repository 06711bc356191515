# Runs suites against real Cassandra nodes, one after the other: sh scripts/suites.sh VERDICTS SUITE...
# SUITE is the name of a test of helenus-tests; with `:TESTS` only those whose names contain TESTS, with `:-TESTS`
# all others. Writes `ok SUITE SECONDS` or `FAILED SUITE SECONDS` for each to the file VERDICTS (`-`: nowhere).
# HELENUS_BIN names the program.
set -u
verdicts=$1
shift
[ "$verdicts" != - ] || verdicts=/dev/null
# The differential test is short here, its six seeds the same; longer and random by hand (CONTRIBUTING.md).
export HELENUS_SEED=2 HELENUS_DIFFERENTIAL_OPS=1800
worst=0
for suite in "$@"; do
    began=$(date +%s)
    only=
    case $suite in
        *:-*) only="--skip ${suite#*:-}" ;;
        *:*) only=${suite#*:} ;;
    esac
    # Unquoted on purpose: one word each, or none.
    # shellcheck disable=SC2086
    if cargo test --locked --package helenus-tests --test "${suite%%:*}" -- --nocapture --test-threads 1 $only; then
        verdict=ok
    else
        verdict=FAILED
        worst=1
    fi
    echo "$verdict $suite $(($(date +%s) - began))" >>"$verdicts"
done
exit "$worst"
