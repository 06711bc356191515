import assert from "node:assert/strict";
import { test } from "node:test";

import * as judge from "../src/judge.ts";
import { waited } from "../src/tiles.ts";
import { Values } from "../src/values.ts";
import { step } from "./history.test.mjs";

/** Buckets of 10 µs. */
const BOUNDS = Array.from({ length: 50_000 }, (_, i) => 10 * (i + 1));
const NAMES = ["requests_failed", "requests_refused"];

function values(...answers) {
  const steps = answers.map((answer) => ({ t_ms: answer.end_ms, answer, names: NAMES, started_unix_ms: 1 }));
  return new Values(steps, BOUNDS, [1, 2, 4]);
}

function of(latency, waits = []) {
  const sum = latency.reduce((all, n, i) => (i % 2 === 0 ? all : all + n * BOUNDS[latency[i - 1]]), 0);
  return { latency, latency_sum_us: sum, waits, waits_sum_us: 0, dispatched: 4, aged: 0, refused: 1 };
}

test("percentiles of several steps are those of all their requests", () => {
  const fast = step(1_000, 1_000, { classes: { point: of([10, 990]) } });
  const slow = step(2_000, 1_000, { classes: { point: of([10, 90, 900, 10]) } });
  assert.equal(Math.round(values(fast).latency("point").p99_us / 10), 11);
  const both = values(fast, slow).latency("point");
  assert.equal(both.per_s, 545);
  // 10 of 1090 were slow: fewer than one in a hundred.
  assert.ok(both.p99_us < 200 && both.p999_us > 8_000, JSON.stringify(both));
  assert.ok(values(slow).latency("point").p99_us > 8_000);
  assert.equal(values(fast).latency("scan").p99_us, null);
});

test("rates are of the time that steps have really lasted", () => {
  const held_up = step(5_000, 4_000, { counters: [0, 8, 1, 4], cpu_us: 2e6, classes: { scan: of([5, 4]) } });
  const all = values(step(1_000, 1_000, { counters: [1, 1] }), held_up);
  assert.equal(all.rate("requests_failed"), 1.6);
  assert.equal(all.rate("requests_refused"), 1);
  assert.equal(all.rate("no_such_counter"), 0);
  assert.equal(all.cpu_cores, 0.4);
  assert.equal(all.scheduled("scan", "dispatched"), 0.8);
  assert.equal(all.reads_per_s, 0.8);
});

test("queries per frame are means and bounds", () => {
  const all = values(step(1_000, 1_000, { sent: { queries: 30, frames: [0, 10, 2, 5] } }));
  assert.deepEqual(all.sent, { mean: 2, p99: 4 });
  assert.deepEqual(all.received, { mean: null, p99: null });
});

test("latencies are judged at the stated thresholds", () => {
  const point = (bucket) => judge.points(values(step(1_000, 1_000, { classes: { point: of([bucket, 100]) } })));
  assert.equal(judge.points(values(step(1_000, 1_000))), "idle");
  assert.equal(point(9_000), "good");
  assert.equal(point(11_000), "warn");
  assert.equal(point(26_000), "bad");
});

test("any error wants a look and one in a hundred is bad", () => {
  const failing = (failed) => judge.errors(values(step(1_000, 1_000, { counters: [0, failed], classes: { point: of([5, 1_000]) } })));
  assert.equal(failing(0), "good");
  assert.equal(failing(1), "warn");
  assert.equal(failing(10), "bad");
  // Where all are refused there are no latencies.
  assert.equal(judge.errors(values(step(1_000, 1_000, { counters: [0, 5] }))), "bad");
  assert.equal(judge.errors(values(step(1_000, 1_000))), "idle");
});

test("scans may wait, others not, but for one in a hundred", () => {
  const wait = (name, waited) => judge.waiting(values(step(1_000, 1_000, { classes: { [name]: of([5, 1_000], [20_000, waited]) } })));
  assert.equal(wait("scan", 900), "idle");
  assert.equal(wait("point", 900), "bad");
  assert.equal(wait("point", 9), "good");
  assert.equal(wait("point", 11), "bad");
});

test("a node that was away in the time that is shown is not forgotten", () => {
  const up = (more) => step(1_000, 1_000, { gauges: { nodes: 3, ...more, nodes_out: more.nodes_out ?? (more.nodes_down ?? 0) + (more.nodes_ejected ?? 0) } });
  assert.equal(judge.nodes(values(up({}))), "good");
  assert.equal(judge.nodes(values(up({ nodes_down: 1 }), up({}))), "warn");
  assert.equal(judge.nodes(values(up({ nodes_down: 2 }), up({}))), "bad");
  assert.equal(judge.nodes(values(up({ nodes_ejected: 1 }))), "warn");
  assert.equal(judge.nodes(values(up({ nodes: 1, nodes_down: 1 }))), "bad");
  // One down and another ejected are two; one that is both is one.
  assert.equal(judge.nodes(values(up({ nodes_down: 1, nodes_ejected: 1 }))), "bad");
  assert.equal(judge.nodes(values(up({ nodes_down: 1, nodes_ejected: 1, nodes_out: 1 }))), "warn");
  // Clients, and no node that could answer them.
  assert.equal(judge.nodes(values(up({ nodes_up: 0, clients: 3 }))), "warn");
  assert.equal(judge.nodes(values(up({ nodes_up: 0, clients: 0 }))), "idle");
});

test("requests that were refused before they were carried out are errors", () => {
  const names = ["requests_failed", "requests_refused", "requests_overloaded"];
  const point = { latency: [0, 1_000], latency_sum_us: 0, waits: [], waits_sum_us: 0 };
  const of = (counts) => {
    const answer = step(1_000, 1_000, { counters: counts.flatMap((n, i) => [i, n]), classes: { point } });
    return new Values([{ t_ms: 1_000, answer, names, started_unix_ms: 1 }], [1_000], [1]);
  };
  assert.equal(judge.errors(of([0, 0, 0])), "good");
  assert.equal(judge.errors(of([0, 1, 0])), "warn");
  assert.equal(judge.errors(of([0, 50, 0])), "bad");
  // Each of them is one or the other, and those with OVERLOADED are among both.
  assert.equal(judge.failed(of([20, 30, 45])), 50);
  // Requests that failed are among those that were answered.
  assert.equal(judge.failedShare(of([100, 0, 0])), 0.1);
  assert.equal(judge.failedShare(of([0, 1_000, 0])), 0.5);
});

test("a wait is said in words, above all where there is none", () => {
  assert.equal(waited(null), "no requests");
  assert.equal(waited(0), "99 of 100 were sent at once");
  assert.equal(waited(12_000), "99 of 100 waited less than 12 ms");
});
