// Which plots the page has.

import { bytes, bytesPerSecond, cores, count, duration, perSecond } from "./format";
import { CLASSES } from "./history";
import { failed } from "./judge";
import type { Colour, Kind, Series } from "./plot";
import { binary, linear, logarithmic } from "./scale";
import type { Traffic, Values } from "./values";

/** Of latencies, in microseconds. */
const TIMES = logarithmic(100, 10_000);

export const THROUGHPUT: Kind = {
  title: "Throughput",
  unit: "requests per second",
  help: "Requests of clients per second; pages of a scan count one by one.",
  series: [
    { label: "all", colour: "all", value: (d) => d.all_per_s },
    { label: "reads", colour: "read", value: (d) => d.reads_per_s },
    { label: "writes", colour: "write", value: (d) => d.writes_per_s },
  ],
  scale: linear(10),
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
  const series = (label: string, colour: Colour, key: keyof Traffic): Series => ({
    label,
    colour,
    value: (d) => d.latency(name)[key],
  });
  return {
    title: CLASS_TITLES[name] ?? `Latency of class ${name}`,
    unit: "logarithmic",
    help: "From a client’s request to its answer. p99: 99 of 100 requests took less.",
    series: [
      series("p50", "p50", "p50_us"),
      series("p99", "p99", "p99_us"),
      series("p99.9", "p999", "p999_us"),
    ],
    scale: TIMES,
    format: duration,
    optional: !CLASSES_FIRST.includes(name),
  };
}

export const WAITING: Kind = {
  title: "Towards the nodes",
  unit: "requests",
  help: "Requests that nodes are working on, and requests that wait in the proxy because their node has enough to do: the most of each step.",
  series: [
    { label: "in flight", colour: "read", value: (d) => d.most((of) => of.in_flight) },
    { label: "queued", colour: "write", value: (d) => d.most((of) => of.queued) },
  ],
  scale: linear(4),
  format: count,
};

/** The two that must not get in each other's way. */
export const PASSING: Kind = {
  title: "Points and scans, p99",
  unit: "logarithmic",
  help: "Scans are cut into pieces so that reads of single partitions pass them. What scans cost points would show here.",
  series: [
    { label: "points", colour: "read", value: (d) => d.latency("point").p99_us },
    { label: "scans", colour: "p999", value: (d) => d.latency("scan").p99_us },
    { label: "wait of a piece", colour: "write", value: (d) => d.waits("scan").p99_us },
  ],
  scale: TIMES,
  format: duration,
  optional: true,
};

/** The most that there were. */
const queuedOf = (...names: string[]) => (d: Values) =>
  d.most((of) => names.reduce((sum, name) => sum + (of.queued_by_class[CLASSES.indexOf(name)] ?? 0), 0));

export const QUEUES: Kind = {
  title: "Waiting for a node",
  unit: "requests; of scans, pieces",
  help: "What waits in the proxy for a node, by class; the most of each step. Waiting scans are meant to be: others pass them.",
  series: [
    { label: "reads", colour: "read", value: queuedOf("system", "point", "multi", "slice") },
    { label: "writes", colour: "write", value: queuedOf("write", "lwt") },
    { label: "scans", colour: "p999", value: queuedOf("scan") },
    { label: "others", colour: "all", value: queuedOf("other") },
  ],
  scale: linear(4),
  format: count,
};

const scheduledOf = (counter: "aged" | "refused") => (d: Values) =>
  CLASSES.reduce((sum, name) => sum + d.scheduled(name, counter), 0);

export const SCHEDULED: Kind = {
  title: "Scheduling",
  unit: "per second",
  help: "Pieces of scans that were sent; requests that had waited for half of their bound and went first; requests refused because more comes than the nodes serve.",
  series: [
    { label: "pieces of scans", colour: "read", value: (d) => d.scheduled("scan", "dispatched") },
    { label: "aged", colour: "write", value: scheduledOf("aged") },
    { label: "shed", colour: "bad", value: scheduledOf("refused") },
  ],
  scale: linear(4),
  format: count,
};

export const TOGETHER: Kind = {
  title: "Queries per frame",
  unit: "logarithmic",
  help: "How many queries travel together between proxy and nodes: the more, the fewer system calls.",
  series: [
    { label: "sent, mean", colour: "read", value: (d) => d.sent.mean },
    { label: "sent, p99", colour: "p99", value: (d) => d.sent.p99 },
    { label: "received, mean", colour: "write", value: (d) => d.received.mean },
  ],
  scale: logarithmic(1, 10),
  format: count,
};

export const SPARED: Kind = {
  title: "Aggregation",
  unit: "per second",
  help: "Reads that got the answer of an identical read on its way, and conditional writes that waited for others of their partition.",
  series: [
    { label: "reads that shared a query", colour: "read", value: (d) => d.rate("reads_shared") },
    { label: "conditional writes that waited", colour: "write", value: (d) => d.rate("lwt_waited") },
  ],
  scale: linear(4),
  format: count,
};

/** Null where no table has layouts that are read. */
const ofLayouts = (counter: string) => (d: Values) =>
  ["layout_reads", "layout_reads_of_table"].some((name) => d.count(name) > 0) ? d.rate(counter) : null;

export const LAYOUTS: Kind = {
  title: "Reads of tables with layouts",
  unit: "per second",
  help: "A layout is a copy of a table in another clustering order; reads go to whichever reads the fewest rows.",
  series: [
    { label: "of a layout", colour: "read", value: ofLayouts("layout_reads") },
    { label: "of the table", colour: "all", value: ofLayouts("layout_reads_of_table") },
    { label: "repeated on the table", colour: "bad", value: ofLayouts("layout_reads_fallen_back") },
  ],
  scale: linear(4),
  format: count,
  optional: true,
};

export const CALLS: Kind = {
  title: "System calls per query",
  unit: "reads, writes and waits of the proxy",
  help: "Reads, writes and waits of the proxy for each client request.",
  series: [{ label: "proxy", colour: "read", filled: true, value: (d) => d.calls_per_query }],
  scale: linear(0.2),
  format: count,
};

export const TROUBLE: Kind = {
  title: "Trouble",
  unit: "requests per second",
  help: "Failed: answered with an error of Helenus’s own, which includes those that timed out at a node and those refused, with OVERLOADED or otherwise. Retried: sent to another node, which clients do not notice.",
  series: [
    { label: "failed", colour: "bad", value: failed },
    { label: "timed out", colour: "write", value: (d) => d.rate("requests_timed_out") },
    { label: "overloaded", colour: "p999", value: (d) => d.rate("requests_overloaded") },
    { label: "retried", colour: "read", value: (d) => d.rate("requests_retried") },
  ],
  scale: linear(4),
  format: count,
};

export const CLIENTS: Kind = {
  title: "Client connections",
  unit: "open",
  help: "Open connections of clients.",
  series: [{ label: "connections", colour: "read", filled: true, value: (d) => d.latest.clients }],
  scale: linear(4),
  format: count,
};

export const NETWORK: Kind = {
  title: "Client traffic",
  unit: "bytes per second",
  help: "Bytes from and to clients.",
  series: [
    { label: "received", colour: "read", value: (d) => d.rate("client_bytes_in") },
    { label: "sent", colour: "write", value: (d) => d.rate("client_bytes_out") },
  ],
  scale: binary(1024),
  format: bytesPerSecond,
  formatTick: bytes,
};

export const CPU: Kind = {
  title: "Processor time",
  unit: "100 % is one core",
  help: "Of all threads of the proxy.",
  series: [{ label: "proxy", colour: "read", filled: true, value: (d) => d.cpu_cores }],
  scale: linear(0.2),
  format: cores,
};

export const MEMORY: Kind = {
  title: "Memory",
  unit: "resident",
  help: "Resident memory of the proxy.",
  series: [{ label: "proxy", colour: "read", filled: true, value: (d) => d.latest.resident_bytes }],
  scale: binary(2 ** 20),
  format: bytes,
};
