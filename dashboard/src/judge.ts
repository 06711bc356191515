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

/** The share of requests that Helenus has answered with an error of its own. */
export function failedShare(values: Values): number | null {
  const failed = values.rate("requests_failed");
  const all = values.all_per_s;
  if (failed === 0) return all > 0 ? 0 : null;
  // Those that fail are in no class's latency if they have never been sent.
  return Math.min(1, failed / Math.max(all, failed));
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
  return values.most((gauges) => Math.max(gauges.nodes_down, gauges.nodes_ejected));
}

export function nodes(values: Values): Verdict {
  const now = values.latest;
  if (now.nodes === 0) return "idle";
  const out = missing(values);
  return out === 0 ? "good" : out === 1 && now.nodes > 1 ? "warn" : "bad";
}
