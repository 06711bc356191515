#!/bin/sh
# Plants each of the bugs in crates/sim/planted/memory in a copy of the tree, and fails if crates/sim/tests/memory does not
# find it, by a bound that is broken.
#
#   scripts/planted-memory.sh [NAME...]
set -eu
cd -- "$(dirname -- "$0")/.."
work=${CARGO_TARGET_DIR:-$PWD/target}/planted-memory
rm -rf "$work/tree"
mkdir -p "$work/tree"
git ls-files -z --cached --others --exclude-standard -- Cargo.toml Cargo.lock rust-toolchain.toml benches crates tests fuzz |
    xargs -0 cp --parents --preserve=timestamps -t "$work/tree"
failed=0
planted=0
for patch in crates/sim/planted/memory/*.patch; do
    name=$(basename "$patch" .patch)
    case " $* " in "  " | *" $name "*) ;; *) continue ;; esac
    planted=$((planted + 1))
    patch --quiet --batch -d "$work/tree" -p 1 <"$patch"
    log=$work/$name.log
    (cd "$work/tree" && CARGO_TARGET_DIR="$work/target" HELENUS_SEEDS=4 HELENUS_SECONDS=30 cargo test --locked --release --package helenus-sim --test memory -- --nocapture) \
        >"$log" 2>&1 || true
    patch --quiet --batch --reverse -d "$work/tree" -p 1 <"$patch"
    if found=$(grep -m 1 -E '^[0-9]+ bytes are held|: [0-9]+ (within a call|bytes( are left)?)$' "$log"); then
        echo "$name: $found"
    else
        echo "$name: not found, see $log"
        failed=1
    fi
done
[ "$planted" -gt 0 ] || { echo "no bug is called $*"; exit 2; }
exit "$failed"
