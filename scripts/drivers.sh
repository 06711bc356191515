# Starts proxies before three nodes and runs the drivers through them: all in plain text, and some over TLS,
# through a proxy that also uses TLS to the nodes. HELENUS_BIN names the program. Started by tests/src/bin/on_nodes.rs:
#     target/debug/on_nodes sh scripts/drivers.sh
set -eu
helenus=${HELENUS_BIN:-target/debug/helenus}
folder=$(mktemp -d)
proxies=
cleanup() {
    # shellcheck disable=SC2086
    [ -z "$proxies" ] || kill $proxies 2>/dev/null || true
    rm -rf "$folder"
}
node=${HELENUS_NODE:?is not set: run target/debug/on_nodes sh scripts/drivers.sh}
tls=$HELENUS_NODE_TLS
trap cleanup EXIT
trap 'exit 1' INT TERM
free_port() {
    python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'
}
# start NAME PORT SETTING...: starts a proxy and waits until it serves clients; its log is NAME.log.
start() {
    name=$1
    admin=$(free_port)
    listen=127.0.0.1:$2
    shift 2
    "$helenus" serve --listen "$listen" --admin "127.0.0.1:$admin" --contact-points "$node" "$@" \
        2>"$folder/$name.log" &
    proxies="$proxies $!"
    tries=0
    until python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$admin/ready', timeout=2)" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || { echo "the proxy is not getting ready:" >&2; cat "$folder/$name.log" >&2; exit 1; }
        sleep 0.5
    done
}
# through NAME PORT OPTION...: runs the drivers through a proxy.
through() {
    name=$1
    port=$2
    shift 2
    tests/drivers/run --host 127.0.0.1 --port "$port" --expect-nodes 1 --direct "$node" --at-once 2 "$@" ||
        { echo "the proxy's log:" >&2; tail -n 40 "$folder/$name.log" >&2; exit 1; }
}

plain=$(free_port)
# Some drivers also look whether the tables of layouts are hidden from them.
# On a busy machine nodes take longer than by default to agree on the schema; drivers wait for an answer for 10 s.
patient=cluster.schema_agreement_max_ms=9000
start plain "$plain" --set layouts.enabled=true --set "$patient"
export HELENUS_DRIVERS_LAYOUTS=1
through plain "$plain"
unset HELENUS_DRIVERS_LAYOUTS
# And while proxies replace each other.
HELENUS_BIN=$helenus tests/drivers/restarts --contact-point "$node" --times 2 --together

encrypted=$(free_port)
start encrypted "$encrypted" --set "$patient" --set "cluster.tls.ca=\"$tls/ca.pem\"" \
    --set "listen.tls.certificate=\"$tls/node.pem\"" --set "listen.tls.key=\"$tls/node.pem\""
# Two TLS libraries; python uses the same one as cqlsh.
through encrypted "$encrypted" --only java,cqlsh --tls-ca "$tls/ca.pem"
