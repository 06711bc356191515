import assert from "node:assert/strict";
import { test } from "node:test";

import { History } from "../src/history.ts";
import { moments } from "../src/plot.ts";
import { Values } from "../src/values.ts";

const GAUGES = { clients: 1, links: 1, nodes: 3, nodes_up: 3, nodes_down: 0, nodes_out: 0, nodes_ejected: 0, in_flight: 0, queued: 0, queued_by_class: [0, 0, 0, 0, 0, 0, 0, 0], resident_bytes: 1, window_us: 0 };
const EMPTY = { queries: 0, frames: [] };

export function step(end_ms, ms, more = {}) {
  return { seq: Math.round(end_ms / ms) - 1, end_ms, ms, counters: [], classes: {}, cpu_us: 0, link_calls: 0, sent: EMPTY, received: EMPTY, ...more, gauges: { ...GAUGES, ...more.gauges } };
}

/** What a proxy answers that has run for so many seconds. */
function answer(seconds, { fine = 0, coarse = 0, zero = 1_000_000, started = 1 } = {}) {
  const series = (step_ms, from) => {
    const next = Math.floor((seconds * 1_000) / step_ms);
    const steps = Array.from({ length: Math.max(0, next - from) }, (_, i) => step((from + i + 1) * step_ms, step_ms));
    return { step_ms, steps_max: 600, next, steps };
  };
  return {
    started_unix_ms: started, now_unix_ms: zero + seconds * 1_000, zero_unix_ms: zero, counters: ["requests_failed"], bounds_us: [], packed_bounds: [],
    fine: series(1_000, fine), coarse: series(10_000, coarse), events: { next: 0, events: [] },
  };
}

const ends = (groups) => groups.map((steps) => steps.map((of) => of.t_ms - 1_000_000));

test("what has come since is asked for by number", () => {
  const history = new History();
  assert.equal(history.path(), "api/history?fine=0&coarse=0&events=0");
  history.take(answer(25), 0);
  assert.equal(history.path(), "api/history?fine=25&coarse=2&events=0");
  history.take(answer(27, { fine: 25, coarse: 2 }), 2_000);
  assert.deepEqual(ends(history.moments(1_024_000, 1_027_000, false)), [[25_000], [26_000], [27_000]]);
  assert.equal(history.now_ms(2_500), 1_027_500);
});

test("what two answers bring is known once", () => {
  const history = new History();
  const event = { seq: 0, at_ms: 5, kind: "node_down", severity: "bad", text: "down" };
  const both = [answer(25), answer(27)].map((of) => ({ ...of, events: { next: 1, events: [event] } }));
  // Asked for at the same time, and the older one comes last.
  history.take(both[1], 0);
  history.take(both[0], 1);
  assert.equal(history.path(), "api/history?fine=27&coarse=2&events=1");
  assert.deepEqual([history.fine.length, history.coarse.length, history.events.length], [27, 2, 1]);
});

test("many events of one kind hide no other", () => {
  const history = new History();
  const events = Array.from({ length: 1_200 }, (_, seq) => ({ seq, at_ms: seq, kind: seq === 0 ? "node_down" : "schema_changed", severity: "note", text: "" }));
  history.take({ ...answer(2), events: { next: 1_200, events } }, 0);
  assert.equal(history.events.length, 251);
  assert.equal(history.events[0].answer.kind, "node_down");
});

test("long times are drawn in long steps, and what has come since the last of them is one moment", () => {
  const history = new History();
  history.take(answer(1_803), 0);
  const groups = history.moments(1_000_000, 2_803_000, false);
  assert.equal(groups.length, 181);
  assert.deepEqual(ends(groups.slice(-2)), [[1_800_000], [1_801_000, 1_802_000, 1_803_000]]);
  // The last minute is known by the second, an earlier one is not.
  assert.equal(history.moments(2_743_000, 2_803_000, false).length, 60);
  assert.equal(history.moments(1_600_000, 1_660_000, false).length, 6);
  assert.equal(history.moments(1_600_000, 1_660_000, true).length, 7);
});

test("a proxy that was just started is shown by the second whatever is asked for, up to ten minutes", () => {
  const history = new History();
  history.take(answer(45), 0);
  assert.equal(history.moments(1_045_000 - 300_000, 1_045_000, false).length, 45);
});

test("nothing is kept for longer than an hour, and seconds for ten minutes", () => {
  const history = new History();
  history.take(answer(9_000), 0);
  assert.equal(history.fine.length, 600);
  assert.equal(history.coarse.length, 360);
});

test("a wall clock that is set moves what is known of this run of the proxy along", () => {
  const history = new History();
  history.take(answer(10), 0);
  history.take(answer(11, { fine: 10, coarse: 1, zero: 1_000_000 + 3_600_000 }), 1_000);
  const t = history.fine.map((of) => of.t_ms);
  assert.equal(t.length, 11);
  assert.ok(t.every((at, i) => i === 0 || at - t[i - 1] === 1_000), String(t));
});

test("a proxy that was started again is asked for everything, and what was before stays", () => {
  const history = new History();
  history.take(answer(20), 0);
  // It has run for longer than the one before.
  history.take(answer(30, { fine: 20, coarse: 2, zero: 1_060_000, started: 2 }), 1_000);
  assert.equal(history.path(), "api/history?fine=0&coarse=0&events=0");
  history.take(answer(30, { zero: 1_060_000, started: 2 }), 1_100);
  assert.equal(history.fine.length, 50);
  const drawn = moments(history.moments(1_000_000, 1_090_000, false), (steps) => new Values(steps, [], []));
  // The line breaks where nothing is known.
  assert.deepEqual(drawn.map((of, i) => (of.values === null ? i : -1)).filter((i) => i >= 0), [20]);
});
