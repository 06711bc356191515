// From two snapshots to what happened between them: rates per second and percentiles.

import type { Counters, Histogram, Layout, Node, Packed, Snapshot, Table } from "./snapshot";

/** Requests of one kind within the interval. Latencies are null if there were none. */
export interface Traffic {
  per_s: number;
  mean_us: number | null;
  p50_us: number | null;
  p99_us: number | null;
  p999_us: number | null;
}

export interface Interval {
  classes: Map<string, Traffic>;
  /** How long requests waited for a node, by class, of those that did. */
  waits: Map<string, Traffic>;
  /** Of all schedules, by class. */
  scheduled: (name: string, counter: "dispatched" | "aged" | "refused") => number;
  reads_per_s: number;
  writes_per_s: number;
  all_per_s: number;
  /** Processor time per time: 1 is one core. */
  cpu_cores: number | null;
  rate: (counter: string) => number;
  /** Queries in one frame to the nodes, and answers in one from them. Null if there were none. */
  sent: Together;
  received: Together;
  /** System calls of the proxy for one query: reads, writes and waits for sockets. */
  calls_per_query: number | null;
  nodes: Map<string, NodeInterval>;
  tables: Map<string, TableInterval>;
  /** Reads per second of each layout. */
  layouts: Map<string, number>;
}

export interface Together {
  mean: number | null;
  p50: number | null;
  p99: number | null;
}

export interface NodeInterval {
  traffic: Traffic;
  rate: (counter: string) => number;
  /** How many requests one frame to the node held on average. */
  requests_per_frame: number | null;
}

export interface TableInterval {
  traffic: Traffic;
  reads_per_s: number;
  writes_per_s: number;
  errors_per_s: number;
}

/** Null if the snapshots are not of one run of the proxy, or no time lies between them. */
export function interval(before: Snapshot, after: Snapshot): Interval | null {
  const seconds = (after.now_unix_ms - before.now_unix_ms) / 1000;
  if (before.started_unix_ms !== after.started_unix_ms || seconds <= 0) return null;

  const bounds = after.bounds_us;
  const oldClasses = new Map(before.classes.map((c) => [c.class, c.latency]));
  const classes = new Map(
    after.classes.map((c) => [c.class, traffic(oldClasses.get(c.class), c.latency, bounds, seconds)]),
  );
  const oldByName = new Map(before.classes.map((c) => [c.class, c]));
  const waits = new Map(
    after.classes.map((c) => [c.class, traffic(oldByName.get(c.class)?.waits, c.waits, bounds, seconds)]),
  );
  const scheduled = (name: string, counter: "dispatched" | "aged" | "refused") => {
    const now = after.classes.find((c) => c.class === name)?.[counter] ?? 0;
    return Math.max(0, now - (oldByName.get(name)?.[counter] ?? 0)) / seconds;
  };
  const sum = (...names: string[]) => names.reduce((s, n) => s + (classes.get(n)?.per_s ?? 0), 0);
  const cpu = difference(before.cpu_seconds, after.cpu_seconds);

  const oldNodes = new Map(before.nodes.map((n) => [n.address, n]));
  const oldTables = new Map(before.tables.map((t) => [tableKey(t), t]));
  const oldLayouts = new Map((before.layouts?.layouts ?? []).map((l) => [layoutKey(l), l]));
  return {
    classes,
    waits,
    scheduled,
    reads_per_s: sum("point", "multi", "slice", "scan"),
    writes_per_s: sum("write", "lwt"),
    all_per_s: sum(...classes.keys()),
    cpu_cores: cpu === null ? null : cpu / seconds,
    rate: rates(before.totals, after.totals, seconds),
    sent: together(before, after, "packed_out"),
    received: together(before, after, "packed_in"),
    calls_per_query: callsPerQuery(before, after, sum(...classes.keys()) * seconds),
    nodes: new Map(
      after.nodes.map((n) => [n.address, nodeInterval(oldNodes.get(n.address), n, bounds, seconds)]),
    ),
    tables: new Map(
      after.tables.map((t) => [tableKey(t), tableInterval(oldTables.get(tableKey(t)), t, bounds, seconds)]),
    ),
    layouts: new Map(
      (after.layouts?.layouts ?? []).map((l) => [
        layoutKey(l),
        Math.max(0, l.reads - (oldLayouts.get(layoutKey(l))?.reads ?? 0)) / seconds,
      ]),
    ),
  };
}

/** Neither name may hold this separator, so no two tables share a key. */
export function tableKey(table: Pick<Table, "keyspace" | "table">): string {
  return `${table.keyspace}\0${table.table}`;
}

/** As that of a table of the layout's name. */
export function layoutKey(layout: Pick<Layout, "keyspace" | "physical">): string {
  return `${layout.keyspace}\0${layout.physical}`;
}

function nodeInterval(before: Node | undefined, after: Node, bounds: number[], seconds: number): NodeInterval {
  const rate = rates(before?.counters ?? {}, after.counters, seconds);
  const frames = rate("frames_out");
  return {
    traffic: traffic(before?.latency, after.latency, bounds, seconds),
    rate,
    requests_per_frame: frames > 0 ? rate("requests") / frames : null,
  };
}

/** The distribution over all nodes; a percentile is the bound of its bucket. */
function together(before: Snapshot, after: Snapshot, key: "packed_out" | "packed_in"): Together {
  const old = new Map(before.nodes.map((n) => [n.address, n[key]]));
  const none: Packed = { queries: 0, frames: [] };
  let queries = 0;
  const frames: number[] = after.packed_bounds.map(() => 0);
  for (const node of after.nodes) {
    const was = old.get(node.address) ?? none;
    queries += node[key].queries - was.queries;
    node[key].frames.forEach((n, i) => {
      frames[i] = (frames[i] ?? 0) + n - (was.frames[i] ?? 0);
    });
  }
  const total = frames.reduce((sum, n) => sum + n, 0);
  const at = (share: number) => {
    let below = 0;
    const index = frames.findIndex((n) => (below += n) >= share * total);
    return after.packed_bounds[index] ?? after.packed_bounds.at(-1) ?? null;
  };
  return total > 0 ? { mean: queries / total, p50: at(0.5), p99: at(0.99) } : { mean: null, p50: null, p99: null };
}

function callsPerQuery(before: Snapshot, after: Snapshot, queries: number): number | null {
  const own = (s: Snapshot) =>
    ["client_reads", "client_writes", "worker_sleeps"].reduce((sum, key) => sum + (s.totals[key] ?? 0), 0);
  const links = (s: Snapshot) =>
    s.nodes.reduce((sum, n) => sum + (n.counters["reads"] ?? 0) + (n.counters["writes"] ?? 0), 0);
  const calls = own(after) + links(after) - own(before) - links(before);
  return queries > 0 ? Math.max(0, calls) / queries : null;
}

function tableInterval(before: Table | undefined, after: Table, bounds: number[], seconds: number): TableInterval {
  const rate = (key: "reads" | "writes" | "errors") => Math.max(0, after[key] - (before?.[key] ?? 0)) / seconds;
  return {
    traffic: traffic(before?.latency, after.latency, bounds, seconds),
    reads_per_s: rate("reads"),
    writes_per_s: rate("writes"),
    errors_per_s: rate("errors"),
  };
}

function rates(before: Counters, after: Counters, seconds: number): (counter: string) => number {
  return (counter) => Math.max(0, (after[counter] ?? 0) - (before[counter] ?? 0)) / seconds;
}

function difference(before: number | null, after: number | null): number | null {
  return before === null || after === null ? null : Math.max(0, after - before);
}

function traffic(before: Histogram | undefined, after: Histogram, bounds: number[], seconds: number): Traffic {
  const old = new Map(before?.buckets ?? []);
  const buckets = after.buckets
    .map(([index, count]): [number, number] => [index, count - (old.get(index) ?? 0)])
    .filter(([, count]) => count > 0);
  const count = buckets.reduce((sum, [, n]) => sum + n, 0);
  const at = (share: number) => (count === 0 ? null : percentile(buckets, count, bounds, share));
  return {
    per_s: count / seconds,
    mean_us: count === 0 ? null : Math.max(0, after.sum_us - (before?.sum_us ?? 0)) / count,
    p50_us: at(0.5),
    p99_us: at(0.99),
    p999_us: at(0.999),
  };
}

/** Values are taken to be spread evenly within their bucket, which is about 12 % wide. */
function percentile(buckets: [number, number][], count: number, bounds: number[], share: number): number {
  let wanted = share * count;
  for (const [index, n] of buckets) {
    if (wanted <= n) {
      const low = index === 0 ? 0 : (bounds[index - 1] ?? 0);
      const high = bounds[index] ?? low;
      return low + ((high - low) * wanted) / n;
    }
    wanted -= n;
  }
  return bounds[buckets.at(-1)?.[0] ?? 0] ?? 0;
}
