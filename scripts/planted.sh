#!/usr/bin/env bash
# Plants each of the bugs in crates/sim/planted in a copy of the tree and runs the simulator until it
# finds it. Fails if one is not found, does not apply or does not build, or if the tree itself breaks.
#
#   scripts/planted.sh [--seeds N] [--jobs N] [NAME...]
#   scripts/planted.sh --check           only says which of them do not apply any more
#
# NAME: only these bugs, by the names of their patches, without the run of the tree as it is.
set -euo pipefail

seeds=20000
jobs=2
names=()
while [ $# -gt 0 ]; do
    case $1 in
        --seeds) seeds=$2; shift 2 ;;
        --jobs) jobs=$2; shift 2 ;;
        --check)
            cd "$(dirname "$0")/.."
            stale=0
            for patch in crates/sim/planted/*.patch crates/sim/planted/*/*.patch; do
                git apply --check "$patch" || { echo "$patch does not apply: renew it"; stale=1; }
            done
            exit "$stale" ;;
        -*) sed -n '2,8s/^# \?//p' "$0" >&2; exit 2 ;;
        *) names+=("$(basename "$1" .patch)"); shift ;;
    esac
done

cd "$(dirname "$0")/.."
root=$PWD
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
    (cd "$tree" && cargo test --locked --profile sim --package helenus-sim --lib --no-run) \
        >"$work/out/$1.build" 2>&1 || return 1
    program=$(sed -n 's/.*Executable .*(\(.*\))$/\1/p' "$work/out/$1.build")
    cp "$program" "$work/bin/$1"
}

# Runs seeds with the program of this name, and notes what came of it.
try() {
    local status=0 log=$work/out/$1.log
    HELENUS_SEEDS=$seeds timeout 1200 "$work/bin/$1" chaos::tests::nothing --nocapture \
        >"$log" 2>&1 || status=$?
    echo "$status" >"$work/out/$1.status"
    rm "$work/bin/$1"
}

panicked() {
    grep -m 1 -A 1 'panicked at' "$work/out/$1.log" | tail -n 1 | tr '|' '/' | cut -c 1-150
}

# What a run has found, as a row of the table. A bug that does not even let a run end is found, too; not one
# that only keeps the seeds together from reaching what they should.
row() {
    local status seed what
    status=$(cat "$work/out/$1.status")
    seed=$(sed -n 's/^replay with HELENUS_SEED=//p' "$work/out/$1.log" | tail -n 1)
    what=$(grep -m 1 '^after [0-9.]* s: ' "$work/out/$1.log" | sed 's/^after \([0-9]*\)[0-9.]* s: //' || true)
    if [ "$what" = "a panic" ]; then
        what="panic: $(panicked "$1")"
    fi
    what=$(echo "$what" | tr '|' '/' | cut -c 1-150)
    case $status:$seed in
        0:*) echo "| $1 | - | not found |" ;;
        124:*) echo "| $1 | ? | a run does not end |" ;;
        *:) echo "| $1 | - | not found: exit status $status, $(panicked "$1") |" ;;
        *) echo "| $1 | $((seed + 1)) | $what |" ;;
    esac
}

failed=0
if [ ${#names[@]} -eq 0 ]; then
    for patch in crates/sim/planted/*.patch; do
        names+=("$(basename "$patch" .patch)")
    done
    build as-it-is || { cat "$work/out/as-it-is.build" >&2; exit 1; }
    try as-it-is &
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
    try "$name" &
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
