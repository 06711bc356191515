# The pure crates have no runtime, socket, clock or randomness among their dependencies.
set -eu
for crate in helenus-wire helenus-cql helenus-policy helenus-layout helenus-payload helenus-capture helenus-catalogue helenus-engine helenus-sim; do
    for banned in tokio mio socket2 rand getrandom serde_json; do
        if cargo tree --locked --package "$crate" --edges normal --prefix none | grep -q "^$banned v"; then
            echo "$crate depends on $banned: pure crates must not (see ARCHITECTURE.md)" >&2
            exit 1
        fi
    done
done
# What runs in production has no laboratory.
for laboratory in helenus-load helenus-sim helenus-cluster; do
    if cargo tree --locked --package helenus --no-default-features --edges normal --prefix none |
        grep -q "^$laboratory v"; then
        echo "helenus without its feature lab depends on $laboratory" >&2
        exit 1
    fi
    if cargo tree --locked --package helenus-migrate --edges normal --prefix none | grep -q "^$laboratory v"; then
        echo "helenus-migrate depends on $laboratory" >&2
        exit 1
    fi
done
for crate in helenus-load helenus-cluster; do
    if cargo tree --locked --package "$crate" --edges normal --prefix none | grep -q "^helenus-policy v"; then
        echo "$crate depends on helenus-policy: measurements must not depend on what they measure" >&2
        exit 1
    fi
done
