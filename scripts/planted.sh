#!/usr/bin/env bash
# Plants each of the bugs in crates/sim/planted in a copy of the tree and runs the simulator until it
# finds it. Fails if one is not found as its patch says, does not apply or does not build, or if the tree
# itself breaks.
#
#   scripts/planted.sh [--seeds N] [--jobs N] [NAME...]
#   scripts/planted.sh --some N          so many of them, others with each commit (scripts/seed.sh)
#   scripts/planted.sh --check           only says which of them do not apply any more, or say not how they are found
#
# NAME: only these bugs, by the names of their patches, without the run of the tree as it is.
# N seeds: of the tree as it is. A patch begins with two lines of its own:
#   found-as: a regular expression (grep -E) for the first line of the violation by which it is to be found
#   within: the number of seeds in which that must happen
set -euo pipefail

seeds=20000
jobs=2
some=0
names=()
while [ $# -gt 0 ]; do
    case $1 in
        --seeds) seeds=$2; shift 2 ;;
        --jobs) jobs=$2; shift 2 ;;
        --some) some=$2; shift 2 ;;
        --check)
            cd "$(dirname "$0")/.."
            stale=0
            for patch in crates/sim/planted/*.patch crates/sim/planted/*/*.patch; do
                git apply --check "$patch" || { echo "$patch does not apply: renew it"; stale=1; }
                # Those of memory are for a test of their own (scripts/planted-memory.sh).
                case $patch in */memory/*) continue ;; esac
                if ! sed -n 1p "$patch" | grep -q '^found-as: .' || ! sed -n 2p "$patch" | grep -Eq '^within: [0-9]+$'; then
                    echo "$patch does not begin with found-as: and within:"
                    stale=1
                fi
            done
            exit "$stale" ;;
        -*) sed -n '2,14s/^# \?//p' "$0" >&2; exit 2 ;;
        *) names+=("$(basename "$1" .patch)"); shift ;;
    esac
done

cd "$(dirname "$0")/.."
root=$PWD
if [ "$some" -gt 0 ]; then
    . scripts/seed.sh
    # As many as it says, from those that the number stands for on, at equal distances.
    all=(crates/sim/planted/*.patch)
    for ((at = 0; at < some && at < ${#all[@]}; at++)); do
        names+=("$(basename "${all[(HELENUS_SEED_EXTRA + at * ${#all[@]} / some) % ${#all[@]}]}" .patch)")
    done
fi
work=${CARGO_TARGET_DIR:-$root/target}/planted
tree=$work/tree
# To cargo both trees are the same packages: they must not share what it has built.
export CARGO_TARGET_DIR=$work/target
mkdir -p "$tree" "$work/bin" "$work/out"
rm -f "$work"/bin/* "$work"/out/*

# The copy is kept for the next time. What differs gets a new time, so that cargo sees it.
git ls-files -z --cached --others --exclude-standard -- Cargo.toml Cargo.lock rust-toolchain.toml \
    benches crates tests fuzz |
    while IFS= read -r -d '' file; do
        [ -f "$file" ] || continue
        cmp -s "$file" "$tree/$file" && continue
        mkdir -p "$tree/$(dirname "$file")"
        cp "$file" "$tree/$file"
    done
find "$tree" -type f -printf '%P\0' |
    while IFS= read -r -d '' file; do
        [ -f "$root/$file" ] || rm "$tree/$file"
    done

# Builds the copy; the program that runs seeds gets this name.
build() {
    local program
    (cd "$tree" && nice -n 5 cargo test --locked --profile planted --package helenus-sim --lib --no-run) \
        >"$work/out/$1.build" 2>&1 || return 1
    program=$(sed -n 's/.*Executable .*(\(.*\))$/\1/p' "$work/out/$1.build")
    cp "$program" "$work/bin/$1"
}

# What the patch of this name says of how it is found.
header() {
    sed -n "1,2s/^$2: //p" "$root/crates/sim/planted/$1.patch"
}

# Runs so many seeds with the program of this name, and notes what came of it. The shortest history is not waited for.
try() {
    local status=0 log=$work/out/$1.log pid
    HELENUS_SEEDS=$2 nice -n 5 timeout 1200 "$work/bin/$1" chaos::tests::nothing --nocapture >"$log" 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.5
        ! grep -q '^replay with' "$log" || kill "$pid" 2>/dev/null || true
    done
    wait "$pid" || status=$?
    echo "$status" >"$work/out/$1.status"
    rm "$work/bin/$1"
    # As they come, for who does not wait for the last.
    [ "$1" = as-it-is ] || row "$1" >&2
}

panicked() {
    grep -m 1 -A 1 'panicked at' "$work/out/$1.log" | tail -n 1 | tr '|' '/' | cut -c 1-150
}

# What a run has found, as a row of the table. Found is only what its patch names, not what another check says first, and
# not a run that does not end, or seeds that together do not reach what they should.
row() {
    local status seed what expected
    status=$(cat "$work/out/$1.status")
    seed=$(sed -n 's/^replay with HELENUS_SEED=//p' "$work/out/$1.log" | tail -n 1)
    what=$(grep -a -m 1 '^after [0-9.]* s: ' "$work/out/$1.log" | sed 's/^after [0-9.]* s: //' || true)
    expected=$(header "$1" found-as 2>/dev/null || true)
    if [ -n "$seed" ]; then
        if [ -z "$expected" ] || echo "$what" | grep -Eq -- "$expected"; then
            echo "| $1 | $((seed + 1)) | $(echo "$what" | tr '|' '/' | cut -c 1-150) |"
        else
            echo "| $1 | - | not found as \"$expected\", but in seed $seed: $(echo "$what" | tr '|' '/' | cut -c 1-150) |"
        fi
        return
    fi
    case $status in
        0) echo "| $1 | - | not found |" ;;
        124) echo "| $1 | - | not found: a run does not end |" ;;
        *) echo "| $1 | - | not found: exit status $status, $(panicked "$1") |" ;;
    esac
}

failed=0
if [ ${#names[@]} -eq 0 ]; then
    for patch in crates/sim/planted/*.patch; do
        names+=("$(basename "$patch" .patch)")
    done
    build as-it-is || { cat "$work/out/as-it-is.build" >&2; exit 1; }
    try as-it-is "$seeds" &
fi

built=()
for name in "${names[@]}"; do
    patch=$root/crates/sim/planted/$name.patch
    if ! patch --quiet --batch --forward --fuzz 0 --no-backup-if-mismatch -d "$tree" -p 1 <"$patch" >&2; then
        echo "$name: does not apply" >&2
        # What has been changed all the same.
        git ls-files -z -- crates | while IFS= read -r -d '' file; do
            cmp -s "$file" "$tree/$file" || cp "$file" "$tree/$file"
        done
        find "$tree" -name '*.rej' -delete
        failed=1
        continue
    fi
    ok=1
    build "$name" || ok=0
    patch --quiet --batch --reverse -d "$tree" -p 1 <"$patch"
    if [ $ok = 0 ]; then
        echo "$name: does not build" >&2
        grep -m 3 -A 6 '^error' "$work/out/$name.build" >&2 || true
        failed=1
        continue
    fi
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n || true
    done
    try "$name" "$(header "$name" within)" &
    built+=("$name")
done
wait

if [ -f "$work/out/as-it-is.status" ]; then
    if [ "$(cat "$work/out/as-it-is.status")" != 0 ]; then
        row as-it-is >&2
        echo "the tree itself breaks: nothing else counts before that is mended" >&2
        failed=1
    else
        echo "the tree as it is: nothing in $seeds seeds"
    fi
fi
echo "| planted | seeds | what is found |"
echo "|---|---|---|"
for name in "${built[@]}"; do
    found=$(row "$name")
    echo "$found"
    case $found in *"| not found"*) failed=1 ;; esac
done
exit $failed
