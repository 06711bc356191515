#!/bin/sh
# Compiles the planted bugs, all at once in a copy of the tree; those that touch what another has changed in further rounds.
# Fails, with the compiler's words, if one does not fit the code any more although its patch applies.
set -eu
cd -- "$(dirname -- "$0")/.."
work=${CARGO_TARGET_DIR:-$PWD/target}/planted-compile
left=$(ls crates/sim/planted/*.patch crates/sim/planted/*/*.patch)
while [ -n "$left" ]; do
    rm -rf "$work/tree"
    mkdir -p "$work/tree"
    # With times of their own: what another round has changed is compiled anew.
    git ls-files -z --cached --others --exclude-standard -- Cargo.toml Cargo.lock rust-toolchain.toml benches crates tests fuzz |
        xargs -0 cp --parents -t "$work/tree"
    later=
    applied=0
    for patch in $left; do
        if patch --quiet --batch --forward --dry-run --fuzz 0 -d "$work/tree" -p 1 <"$patch" >/dev/null; then
            patch --quiet --batch --forward --fuzz 0 --no-backup-if-mismatch -d "$work/tree" -p 1 <"$patch"
            applied=$((applied + 1))
        else
            later="$later $patch"
        fi
    done
    [ "$applied" -gt 0 ] || { echo "they do not apply:$later"; exit 1; }
    (cd "$work/tree" && CARGO_TARGET_DIR="$work/target" RUSTFLAGS=-Awarnings cargo check --locked --quiet --package helenus-sim)
    echo "$applied planted bugs compile"
    left=$later
done
