// What is good, what needs a look and what is wrong. The numbers are those of packaging/prometheus/alerts.yml,
// where there is an alert for it.

import type { Values } from "./values";

export type Verdict = "idle" | "good" | "warn" | "bad";

export const POINT_WARN_US = 100_000;
export const POINT_BAD_US = 250_000;
export const SCAN_WARN_US = 2_000_000;
export const SCAN_BAD_US = 10_000_000;
export const FAILED_BAD = 0.01;
export const WAIT_WARN_US = 10_000;
export const WAIT_BAD_US = 100_000;

function between(value: number | null, warn: number, bad: number): Verdict {
  if (value === null) return "idle";
  return value >= bad ? "bad" : value >= warn ? "warn" : "good";
}

export function points(values: Values): Verdict {
  return between(values.latency("point").p99_us, POINT_WARN_US, POINT_BAD_US);
}

export function scans(values: Values): Verdict {
  return between(values.latency("scan").p99_us, SCAN_WARN_US, SCAN_BAD_US);
}

/** Requests per second that Helenus has answered with an error of its own: none is counted twice. */
export function failed(values: Values): number {
  return values.rate("requests_failed") + values.rate("requests_refused");
}

/** Their share of all requests. */
export function failedShare(values: Values): number | null {
  // Those that failed are in their class's latency; those that were refused were never carried out.
  const all = Math.max(values.all_per_s, values.rate("requests_failed")) + values.rate("requests_refused");
  return all > 0 ? failed(values) / all : null;
}

export function errors(values: Values): Verdict {
  const share = failedShare(values);
  return share === null ? "idle" : share >= FAILED_BAD ? "bad" : share > 0 ? "warn" : "good";
}

/** Scans wait by design, so that others do not. */
export function waitP99(values: Values): number | null {
  return values.waitP99(["system", "point", "multi", "slice", "write", "lwt", "other"]);
}

export function waiting(values: Values): Verdict {
  return between(waitP99(values), WAIT_WARN_US, WAIT_BAD_US);
}

/** How many nodes were down or ejected at the same time, at the worst. */
export function missing(values: Values): number {
  return values.most((gauges) => gauges.nodes_out);
}

export function nodes(values: Values): Verdict {
  const now = values.latest;
  if (now.nodes === 0) return "idle";
  const out = missing(values);
  // Clients of whom none has logged in yet need none, and neither can be told of those who cannot.
  if (out === 0 && now.nodes_up === 0) return now.clients > 0 ? "warn" : "idle";
  return out === 0 ? "good" : out === 1 && now.nodes > 1 ? "warn" : "bad";
}
