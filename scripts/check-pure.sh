# The pure crates have no runtime, socket, clock or randomness among their dependencies.
set -eu
# depends CRATE OPTION…: the names of all that it is built of.
depends() {
    crate=$1
    shift
    cargo tree --locked --package "$crate" --edges normal --prefix none --format '{p}' "$@" | cut -d ' ' -f 1
}
# without CRATE WHY NAMES OPTION…: ends the script if it depends on one of NAMES.
without() {
    crate=$1
    why=$2
    names=$3
    shift 3
    tree=$(depends "$crate" "$@")
    [ -n "$tree" ] || { echo "nobody knows what $crate depends on" >&2; exit 1; }
    for banned in $names; do
        if echo "$tree" | grep -qx "$banned"; then
            echo "$crate depends on $banned: $why" >&2
            exit 1
        fi
    done
}
for crate in helenus-wire helenus-cql helenus-policy helenus-layout helenus-payload helenus-capture helenus-catalogue helenus-admin-api helenus-engine helenus-sim; do
    without "$crate" "pure crates must not (see ARCHITECTURE.md)" "tokio mio socket2 rand getrandom serde_json"
done
laboratory="helenus-lab helenus-load helenus-sim helenus-cluster"
without helenus "what runs in production has no laboratory" "$laboratory" --no-default-features
without helenus-migrate "what runs in production has no laboratory" "$laboratory"
for crate in helenus-load helenus-cluster; do
    without "$crate" "measurements must not depend on what they measure" helenus-policy
done
