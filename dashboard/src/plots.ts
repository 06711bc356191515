// Which plots the page has.

import { bytes, bytesPerSecond, cores, count, duration, perSecond } from "./format";
import type { Interval, Traffic } from "./interval";
import type { Kind, Series } from "./plot";
import { binary, linear, logarithmic, logarithmicCounts } from "./scale";
import type { Snapshot } from "./snapshot";

export const THROUGHPUT: Kind = {
  title: "Throughput",
  unit: "requests per second",
  series: [
    { label: "all", colour: "c-all", value: (d) => d.interval.all_per_s },
    { label: "reads", colour: "c-read", value: (d) => d.interval.reads_per_s },
    { label: "writes", colour: "c-write", value: (d) => d.interval.writes_per_s },
  ],
  scale: (values) => linear(values, 10),
  format: perSecond,
  formatTick: count,
};

const CLASS_TITLES: Record<string, string> = {
  point: "Latency of point reads",
  multi: "Latency of reads of several partitions",
  slice: "Latency of reads of large partitions",
  lwt: "Latency of conditional writes",
  write: "Latency of writes",
  scan: "Latency of scans",
  system: "Latency of system queries",
  other: "Latency of other requests",
};

/** Shown also while there are no such requests. */
export const CLASSES_FIRST = ["point", "write"];

export function latency(name: string): Kind {
  const series = (label: string, colour: string, key: keyof Traffic): Series => ({
    label,
    colour,
    value: (d) => d.interval.classes.get(name)?.[key] ?? null,
  });
  return {
    title: CLASS_TITLES[name] ?? `Latency of class ${name}`,
    unit: "logarithmic",
    series: [
      series("p50", "c-p50", "p50_us"),
      series("p99", "c-p99", "p99_us"),
      series("p99.9", "c-p999", "p999_us"),
    ],
    scale: logarithmic,
    format: duration,
    optional: !CLASSES_FIRST.includes(name),
  };
}

export const WAITING: Kind = {
  title: "Towards the nodes",
  unit: "requests",
  series: [
    { label: "in flight", colour: "c-read", value: (d) => onNodes(d.snapshot, "in_flight") },
    { label: "queued", colour: "c-write", value: (d) => onNodes(d.snapshot, "queued") },
  ],
  scale: (values) => linear(values, 4),
  format: count,
};

/** The two that must not get in each other's way. */
export const PASSING: Kind = {
  title: "Points and scans, p99",
  unit: "logarithmic",
  series: [
    { label: "points", colour: "c-read", value: (d) => d.interval.classes.get("point")?.p99_us ?? null },
    { label: "scans", colour: "c-p999", value: (d) => d.interval.classes.get("scan")?.p99_us ?? null },
    { label: "wait of a piece", colour: "c-write", value: (d) => d.interval.waits.get("scan")?.p99_us ?? null },
  ],
  scale: logarithmic,
  format: duration,
  optional: true,
};

const queuedOf = (...names: string[]) => (d: { snapshot: Snapshot }) =>
  d.snapshot.classes.filter((c) => names.includes(c.class)).reduce((sum, c) => sum + c.queued, 0);

export const QUEUES: Kind = {
  title: "Waiting for a node",
  unit: "requests; of scans, pieces",
  series: [
    { label: "reads", colour: "c-read", value: queuedOf("system", "point", "multi", "slice") },
    { label: "writes", colour: "c-write", value: queuedOf("write", "lwt") },
    { label: "scans", colour: "c-p999", value: queuedOf("scan") },
    { label: "others", colour: "c-all", value: queuedOf("other") },
  ],
  scale: (values) => linear(values, 4),
  format: count,
};

const scheduledOf = (counter: "aged" | "refused") => (d: { snapshot: Snapshot; interval: Interval }) =>
  d.snapshot.classes.reduce((sum, c) => sum + d.interval.scheduled(c.class, counter), 0);

export const SCHEDULED: Kind = {
  title: "Scheduling",
  unit: "per second",
  series: [
    { label: "pieces of scans", colour: "c-read", value: (d) => d.interval.scheduled("scan", "dispatched") },
    { label: "aged", colour: "c-write", value: scheduledOf("aged") },
    { label: "shed", colour: "c-bad", value: scheduledOf("refused") },
  ],
  scale: (values) => linear(values, 4),
  format: count,
};

export const TOGETHER: Kind = {
  title: "Queries per frame",
  unit: "logarithmic",
  series: [
    { label: "sent, mean", colour: "c-read", value: (d) => d.interval.sent.mean },
    { label: "sent, p99", colour: "c-p99", value: (d) => d.interval.sent.p99 },
    { label: "received, mean", colour: "c-write", value: (d) => d.interval.received.mean },
  ],
  scale: logarithmicCounts,
  format: count,
};

export const SPARED: Kind = {
  title: "Aggregation",
  unit: "per second",
  series: [
    { label: "reads that shared a query", colour: "c-read", value: (d) => d.interval.rate("reads_shared") },
    { label: "conditional writes that waited", colour: "c-write", value: (d) => d.interval.rate("lwt_waited") },
  ],
  scale: (values) => linear(values, 4),
  format: count,
};

/** Null where no table has layouts. */
const ofLayouts = (counter: string) => (d: { snapshot: Snapshot; interval: Interval }) =>
  d.snapshot.layouts?.layouts.length ? d.interval.rate(counter) : null;

export const LAYOUTS: Kind = {
  title: "Reads of tables with layouts",
  unit: "per second",
  series: [
    { label: "of a layout", colour: "c-read", value: ofLayouts("layout_reads") },
    { label: "of the table", colour: "c-all", value: ofLayouts("layout_reads_of_table") },
    { label: "repeated on the table", colour: "c-bad", value: ofLayouts("layout_reads_fallen_back") },
  ],
  scale: (values) => linear(values, 4),
  format: count,
  optional: true,
};

export const CALLS: Kind = {
  title: "System calls per query",
  unit: "reads, writes and waits of the proxy",
  series: [{ label: "proxy", colour: "c-read", filled: true, value: (d) => d.interval.calls_per_query }],
  scale: (values) => linear(values, 0.2),
  format: count,
};

export const TROUBLE: Kind = {
  title: "Trouble",
  unit: "requests per second",
  series: [
    { label: "failed", colour: "c-bad", value: (d) => d.interval.rate("requests_failed") },
    { label: "timed out", colour: "c-write", value: (d) => d.interval.rate("requests_timed_out") },
    { label: "overloaded", colour: "c-p999", value: (d) => d.interval.rate("requests_overloaded") },
    { label: "retried", colour: "c-read", value: (d) => d.interval.rate("requests_retried") },
  ],
  scale: (values) => linear(values, 4),
  format: count,
};

export const CLIENTS: Kind = {
  title: "Client connections",
  unit: "open",
  series: [{ label: "connections", colour: "c-read", filled: true, value: (d) => d.snapshot.clients }],
  scale: (values) => linear(values, 4),
  format: count,
};

export const NETWORK: Kind = {
  title: "Client traffic",
  unit: "bytes per second",
  series: [
    { label: "received", colour: "c-read", value: (d) => d.interval.rate("client_bytes_in") },
    { label: "sent", colour: "c-write", value: (d) => d.interval.rate("client_bytes_out") },
  ],
  scale: (values) => binary(values, 1024),
  format: bytesPerSecond,
  formatTick: bytes,
};

export const CPU: Kind = {
  title: "Processor time",
  unit: "100 % is one core",
  series: [{ label: "proxy", colour: "c-read", filled: true, value: (d) => d.interval.cpu_cores }],
  scale: (values) => linear(values, 0.2),
  format: cores,
};

export const MEMORY: Kind = {
  title: "Memory",
  unit: "resident",
  series: [{ label: "proxy", colour: "c-read", filled: true, value: (d) => d.snapshot.resident_bytes }],
  scale: (values) => binary(values, 2 ** 20),
  format: bytes,
};

export function onNodes(snapshot: Snapshot, key: "in_flight" | "queued"): number {
  return snapshot.nodes.reduce((sum, node) => sum + node[key], 0);
}
