# Starts nodes and a proxy, and takes all drivers through it. HELENUS_BIN names the program.
set -eu
helenus=${HELENUS_BIN:-target/debug/helenus}
folder=$(mktemp -d)
proxy=
cleanup() {
    [ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true
    "$helenus" cluster down --name "$cluster" --dir "$folder/cluster" >/dev/null 2>&1 || true
    rm -rf "$folder"
}
cluster=drivers-$$
trap cleanup EXIT
trap 'exit 1' INT TERM
"$helenus" cluster up --nodes 3 --heap-mib 512 --name "$cluster" --dir "$folder/cluster"
node=$("$helenus" cluster status --json --name "$cluster" --dir "$folder/cluster" |
    python3 -c 'import json,sys; print(json.load(sys.stdin)["nodes"][0]["address"])')
port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
admin=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
"$helenus" serve --listen "127.0.0.1:$port" --admin "127.0.0.1:$admin" --contact-points "$node" \
    2>"$folder/proxy.log" &
proxy=$!
tries=0
until python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$admin/ready', timeout=2)" 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || { echo "the proxy does not become ready:" >&2; cat "$folder/proxy.log" >&2; exit 1; }
    sleep 0.5
done
tests/drivers/run --host 127.0.0.1 --port "$port" --expect-nodes 1 --direct "$node" ||
    { echo "the proxy's log:" >&2; tail -n 40 "$folder/proxy.log" >&2; exit 1; }
