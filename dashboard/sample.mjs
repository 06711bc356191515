// Serves the page with made-up numbers, to look at it without a cluster: a hundred nodes, an hour, in which one node was
// frozen, another is slow and a third is down.
//   node dashboard/sample.mjs [nodes] [port]

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

const NODES = Number(process.argv[2] ?? 100);
const PORT = Number(process.argv[3] ?? 9190);
const BUCKETS = 27 * 8;
const MINUTE = 60_000;

const page = fileURLToPath(new URL("../crates/proxy/assets/dashboard.html", import.meta.url));
const zero_ms = Date.now() - 75 * MINUTE;
/** A node was frozen from here on, for twenty seconds. */
const frozen_ms = Date.now() - 4 * MINUTE - zero_ms;
const overload_ms = Date.now() - 31 * MINUTE - zero_ms;
const COUNTERS = ["client_bytes_in", "client_bytes_out", "requests_failed", "requests_timed_out", "requests_refused", "requests_retried", "reads_shared", "lwt_waited", "client_reads", "client_writes", "worker_sleeps"];

/** The same for the same number. */
const dice = (seed) => {
  const x = Math.sin(seed * 12.9898) * 43758.5453;
  return x - Math.floor(x);
};

const bound = (index) => (index < 8 ? index + 1 : (8 + (index % 8) + 1) * 2 ** (Math.floor(index / 8) - 1));
const bucketOf = (us) => {
  for (let index = 0; index < BUCKETS; index += 1) if (us < bound(index)) return index;
  return BUCKETS - 1;
};

/** A histogram around a time, with a tail. */
function histogram(count, us, tail, seed) {
  const counts = new Map();
  for (let at = 0; at < 40; at += 1) {
    const z = dice(seed + at) + dice(seed + at + 0.3) + dice(seed + at + 0.6) - 1.5;
    const value = us * Math.exp(z * 0.9) * (at === 39 ? tail : 1);
    const bucket = bucketOf(value);
    counts.set(bucket, (counts.get(bucket) ?? 0) + Math.max(1, Math.round(count / 40)));
  }
  const pairs = [...counts].sort(([a], [b]) => a - b);
  return { pairs: pairs.flat(), sum_us: pairs.reduce((sum, [bucket, n]) => sum + bound(bucket) * n, 0) };
}

function step(end_ms, ms) {
  const since = end_ms - frozen_ms;
  const is_frozen = since > 0 && since < 20_000;
  const is_overloaded = end_ms > overload_ms && end_ms < overload_ms + 90_000;
  const wave = 1 + 0.3 * Math.sin(end_ms / 400_000) + 0.05 * dice(end_ms);
  const n = (per_s) => Math.round((per_s * wave * ms) / 1_000);
  const point = histogram(n(21_000), is_frozen ? 900 : 620, is_frozen ? 400 : is_overloaded ? 30 : 8, end_ms);
  const write = histogram(n(9_000), 540, is_frozen ? 300 : 5, end_ms + 1);
  const scan = histogram(n(60), 90_000, 6, end_ms + 2);
  const waits = histogram(n(is_overloaded ? 4_000 : 200), is_overloaded ? 40_000 : 700, 4, end_ms + 3);
  const pieces = histogram(n(300), 5_000, 6, end_ms + 4);
  const of = (latency, waits, dispatched, refused) => ({
    latency: latency.pairs, latency_sum_us: latency.sum_us, waits: waits.pairs, waits_sum_us: waits.sum_us, dispatched, aged: 0, refused,
  });
  const none = { pairs: [], sum_us: 0 };
  const failed = is_overloaded ? n(800) : is_frozen ? n(12) : 0;
  const counts = [n(2e6), n(19e6), failed, is_frozen ? n(12) : 0, is_overloaded ? n(800) : 0, is_frozen ? n(160) : 0, n(340), n(15), n(16_000), n(17_000), n(9_000)];
  const queued = [0, is_overloaded ? 300 : 2, 0, 0, is_overloaded ? 90 : 0, 0, 24 + Math.round(10 * dice(end_ms)), 0];
  return {
    seq: Math.round(end_ms / ms) - 1, end_ms, ms,
    counters: counts.flatMap((count, i) => (count > 0 ? [i, count] : [])),
    classes: { point: of(point, waits, n(21_000), is_overloaded ? n(700) : 0), write: of(write, none, n(9_000), 0), scan: of(scan, pieces, n(900), 0) },
    cpu_us: n(740_000), link_calls: n(20_000),
    sent: { queries: n(30_000), frames: [0, n(9_000), 1, n(4_000), 2, n(1_500), 3, n(300)] },
    received: { queries: n(30_000), frames: [0, n(12_000), 1, n(5_000), 2, n(900)] },
    gauges: {
      clients: 412, links: NODES * 4, nodes: NODES, nodes_up: NODES - 1 - Number(is_frozen), nodes_down: 1 + Number(is_frozen), nodes_ejected: Number(is_frozen), nodes_out: 1 + Number(is_frozen),
      in_flight: Math.round(40 * wave), queued: queued.reduce((sum, n) => sum + n, 0), queued_by_class: queued,
      resident_bytes: 180 * 2 ** 20 + end_ms / 10, window_us: 0,
    },
  };
}

const address = (i) => `10.${20 + (i % 3)}.${Math.floor(i / 100)}.${(i % 100) + 1}:9042`;
const HAPPENED = [
  [overload_ms - 5 * MINUTE, "schema_changed", "note", "schema: table shop.orders updated"],
  [overload_ms, "overload_began", "bad", "overload: requests are refused with OVERLOADED"],
  [overload_ms + 95_000, "overload_ended", "good", "overload is over: 64210 requests refused in 90s"],
  [frozen_ms + 1_900, "node_ejected", "bad", `${address(17)} is ejected: 31 % of its requests failed`],
  [frozen_ms + 6_000, "node_reported_down", "bad", `${address(17)} is down, as another node says`],
  [frozen_ms + 22_000, "node_reported_up", "good", `${address(17)} is up, as another node says`],
  [frozen_ms + 27_000, "node_returned", "good", `${address(17)} is asked again after 25s`],
  [frozen_ms + 2.5 * MINUTE, "settings_reloaded", "note", "settings reloaded; changed: limits.clients_max"],
  [frozen_ms + 3 * MINUTE, "node_down", "bad", `${address(42)} is down: there is no link to it`],
].map(([at_ms, kind, severity, text], seq) => ({ seq, at_ms: Math.round(at_ms), kind, severity, text }));

const now = () => Date.now() - zero_ms;

function series(step_ms, steps_max, asked) {
  const next = Math.floor(now() / step_ms);
  const from = Math.max(Number(asked ?? 0), next - steps_max);
  const steps = Array.from({ length: Math.max(0, next - from) }, (_, i) => step((from + i + 1) * step_ms, step_ms));
  return { step_ms, steps_max, next, steps };
}

const history = (query) => ({
  started_unix_ms: zero_ms, now_unix_ms: Date.now(), zero_unix_ms: zero_ms, counters: COUNTERS,
  bounds_us: Array.from({ length: BUCKETS }, (_, i) => bound(i)),
  packed_bounds: Array.from({ length: 11 }, (_, i) => 2 ** i),
  fine: series(1_000, 600, query.get("fine")),
  coarse: series(10_000, 360, query.get("coarse")),
  events: { next: HAPPENED.length, events: HAPPENED.filter(({ seq }) => seq >= Number(query.get("events") ?? 0)) },
});

const latency = (us, seed) => ({ mean_us: us, p50_us: us * 0.8, p99_us: us * (3 + 2 * dice(seed)), p999_us: us * 14 });

function summary(query) {
  const from_ms = Number(query.get("from_ms") ?? now() - 1_000 * Number(query.get("seconds") ?? 300));
  const to_ms = Number(query.get("to_ms") ?? now());
  const points = Number(query.get("points") ?? 0);
  const covers = from_ms < frozen_ms + 20_000 && to_ms > frozen_ms;
  const nodes = Array.from({ length: NODES }, (_, i) => ({
    address: address(i), number: i, gone: false, requests_per_s: 300 * (0.7 + 0.6 * dice(i)), reads_per_s: 210 * (0.7 + 0.6 * dice(i)), errors_per_s: i === 63 ? 0.4 : 0,
    timeouts_per_s: i === 17 && covers ? 3 : 0, bytes_in_per_s: 2e5, bytes_out_per_s: 2e4, requests_per_frame: 1.9,
    down_s: i === 42 ? Math.max(0, (to_ms - frozen_ms - 3 * MINUTE) / 1_000) : 0, ejected_s: i === 17 && covers ? 25 : 0,
    ...latency(i === 63 ? 4_100 : 500 + 200 * dice(i + 0.5), i),
    points: Array.from({ length: points }, (_, p) => {
      const at_ms = from_ms + ((p + 0.5) / points) * (to_ms - from_ms);
      if (i === 42 && at_ms > frozen_ms + 3 * MINUTE) return 0;
      return at_ms > frozen_ms && at_ms < frozen_ms + 25_000 && i === 17 ? 20 : 300 * (0.7 + 0.6 * dice(i)) * (0.9 + 0.2 * dice(i + p));
    }),
  }));
  const table = (name, reads, writes, us) => ({ keyspace: "shop", table: name, reads_per_s: reads, writes_per_s: writes, errors_per_s: 0, ...latency(us, reads) });
  const tables = [table("orders", 9_000, 4_100, 700), table("customers", 11_000, 800, 500), table("events", 60, 4_100, 90_000)];
  return { from_ms, to_ms, ms: to_ms - from_ms, zero_unix_ms: zero_ms, classes: {}, nodes, tables, layouts: [] };
}

function snapshot() {
  const none = { count: 0, sum_us: 0, buckets: [] };
  const nodes = Array.from({ length: NODES }, (_, i) => ({
    address: address(i), number: i, dc: "dc1", rack: `rack${(i % 3) + 1}`, release_version: "5.0.5", processors: 16, state: i === 42 ? "down" : "up",
    links_up: i === 42 ? 0 : 4, in_flight: i === 42 ? 0 : Math.round(3 * dice(now() + i)), queued: 0, scan_slots_taken: 2, scan_slots: 6,
    score_us: 900, slowdown: i === 63 ? 6.2 : 0.9 + 0.3 * dice(i), failures: 0, outstanding_us: 4_000, ejected: 0, window: 64, report: null,
    counters: {}, latency: none, packed_out: { queries: 0, frames: [] }, packed_in: { queries: 0, frames: [] },
  }));
  const table = (name, reads, writes) => ({ keyspace: "shop", table: name, reads, writes, errors: 0, latency: none });
  return {
    version: "sample", started_unix_ms: zero_ms, now_unix_ms: Date.now(), cluster: "made-up numbers", protocol: 5, local_dc: "dc1", epoch: 9, ready: true,
    ready_reason: null, clients: 412, clients_max: 10_000, prepared: 37, resident_bytes: 2e8, cpu_seconds: 1, window_us: 0, totals: {}, packed_bounds: [],
    bounds_us: [], classes: [], nodes, tables: [table("orders", 4e7, 2e7), table("customers", 5e7, 3e6), table("events", 2e5, 2e7)],
    hot: { keys_shown: false, keys: [] }, layouts: null,
  };
}

const PROXIES = [["10.0.0.11", true, "ready"], ["10.0.0.12", false, "up"], ["10.0.0.13", false, "down"]];
const ANSWERS = {
  "/api/history": history,
  "/api/summary": summary,
  "/api/snapshot": snapshot,
  "/api/proxies": () => PROXIES.map(([host, is_self, state]) => ({ address: `${host}:9042`, is_self, state, reason: null, clients: null, version: null })),
  "/api/slow": () => ({ slow: [], slow_ms: 100, slow_scan_ms: 2_000, left_out: 0, silent_workers: 0 }),
  "/api/errors": () => ({ by_code: [], recent: [], silent_workers: 0 }),
  "/api/statements": () => ({ statements: [], silent_workers: 0 }),
  "/api/clients": () => ({ clients: [], all: 0, silent_workers: 0 }),
};

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://localhost");
  const answer = ANSWERS[url.pathname];
  response.setHeader("Content-Type", answer ? "application/json" : "text/html; charset=utf-8");
  response.end(answer ? JSON.stringify(answer(url.searchParams)) : await readFile(page));
});
server.listen(PORT, "127.0.0.1", () => console.log(`http://127.0.0.1:${PORT}/`));
