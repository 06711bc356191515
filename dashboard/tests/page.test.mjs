import assert from "node:assert/strict";
import { test } from "node:test";

import { Held } from "../src/held.ts";
import { badness, rowsOf, trouble, worstFirst } from "../src/nodes.ts";
import { dashboardOf } from "../src/proxies.ts";
import { linear, logarithmic } from "../src/scale.ts";
import { Summaries } from "../src/summary.ts";
import { compare } from "../src/table.ts";
import { View } from "../src/view.ts";

test("what is shown is in the address, and nothing else ever", () => {
  let fragment = "";
  const view = new View("#window=1h&nodes.sort=-p99&token=s3cret&x=y", (of) => (fragment = of));
  assert.equal(view.window, "1h");
  assert.equal(view.get("nodes.sort"), "-p99");
  view.set("nodes.filter", "rack 1");
  assert.ok(!fragment.includes("s3cret") && !fragment.includes("x="), fragment);
  const again = new View(`#${fragment}`, () => {});
  assert.equal(again.get("nodes.filter"), "rack 1");
  assert.equal(again.window_ms, 3_600_000);
  // What is usual is not said.
  view.window = "5m";
  assert.ok(!fragment.includes("window"), fragment);
});

test("another address is taken over, and another time is something to go back to", () => {
  const heard = [];
  const view = new View("#window=1h", (fragment, is_other_time) => heard.push([fragment, is_other_time]), () => 1_000_000);
  view.load("#nodes.filter=down&from=500000&to=600000&token=s3cret");
  assert.deepEqual([view.window, view.get("nodes.filter")], ["5m", "down"]);
  assert.deepEqual(view.zoom, { from_ms: 500_000, to_ms: 600_000 });
  view.set("nodes.filter", null);
  view.zoom = null;
  view.window = "15m";
  assert.deepEqual(heard, [["from=500000&to=600000", false], ["", true], ["window=15m", true]]);
});

test("while the page is paused all of it is as it was", () => {
  const view = new View("", () => {}, () => 1_000_000);
  const held = new Held(view);
  let now_ms = 1_000_000;
  const now = () => ({ now_ms, frame: view.range(now_ms), events: [now_ms], snapshot: now_ms, summary: now_ms, proxies: [now_ms] });
  assert.equal(held.shown(now).snapshot, 1_000_000);
  held.hold(now());
  const then = held.shown(now);
  now_ms = 5_000_000;
  assert.equal(held.shown(now), then);
  assert.deepEqual(then.frame, { from_ms: 700_000, to_ms: 1_000_000 });
  // Another time is looked at: its plots and sums, beside what was so when it was paused.
  view.zoom = { from_ms: 900_000, to_ms: 950_000 };
  const zoomed = held.shown(now);
  assert.deepEqual([zoomed.frame.from_ms, zoomed.now_ms, zoomed.snapshot, zoomed.events], [900_000, 1_000_000, 1_000_000, [1_000_000]]);
  view.zoom = null;
  assert.equal(held.shown(now), then);
  view.pause(null);
  assert.equal(held.shown(now).now_ms, 5_000_000);
  // A pause that has ended is forgotten.
  held.hold(now());
  assert.equal(held.shown(now).now_ms, 5_000_000);
});

test("a wrong address shows the usual", () => {
  for (const wrong of ["#window=2y", "#%%%", "#from=x&to=5", "#from=1", "#from=5&to=4", "#from=8640000000000001&to=8640000000010001", "#from=5&to=9000", "#from=1e15&to=1000000000010000", "#from=0&to=99999999999"]) {
    const view = new View(wrong, () => {});
    assert.equal(view.window, "5m", wrong);
    assert.equal(view.zoom, null, wrong);
  }
});

test("a time that was chosen stays, and a short one is not too short", () => {
  const view = new View("", () => {}, () => 1_000_000);
  assert.deepEqual(view.range(1_000_000), { from_ms: 700_000, to_ms: 1_000_000 });
  view.zoom = { from_ms: 500_000.4, to_ms: 600_000 };
  assert.deepEqual(view.range(2_000_000), { from_ms: 500_000, to_ms: 600_000 });
  view.zoom = { from_ms: 500_000, to_ms: 500_100 };
  assert.deepEqual(view.zoom, { from_ms: 498_550, to_ms: 501_550 });
  view.zoom = null;
  view.pause(800_000);
  assert.deepEqual(view.range(2_000_000), { from_ms: 500_000, to_ms: 800_000 });
});

test("a summary is shown of the time that it is of, and asked for until that is over", () => {
  const summaries = new Summaries();
  const of = (ms) => ({ ms, nodes: [], tables: [], layouts: [] });
  assert.ok(summaries.isDue("5m", null, 1_000, 0));
  // Somebody zooms while the answer is on its way.
  assert.ok(summaries.isDue("500 3500", 3_500, 4_000, 100));
  summaries.take("5m", of(300_000));
  assert.equal(summaries.latest, null);
  const zoomed = of(10_000);
  summaries.take("500 3500", zoomed);
  assert.equal(summaries.latest, zoomed);
  // The step that shares its end may not be over.
  assert.ok(!summaries.isDue("500 3500", 3_500, 5_000, 1_100));
  assert.ok(summaries.isDue("500 3500", 3_500, 9_000, 5_100));
  summaries.fail("500 3500", 5_200);
  assert.ok(!summaries.isDue("500 3500", 3_500, 9_500, 5_900));
  assert.ok(summaries.isDue("500 3500", 3_500, 20_000, 16_200));
  assert.ok(!summaries.isDue("500 3500", 3_500, 90_000, 90_000));
  assert.ok(summaries.isDue("5m", null, 90_100, 90_100));
  assert.equal(summaries.latest, null);
  // Nothing is kept of that time: no number is better than 0.
  summaries.take("5m", of(0));
  assert.equal(summaries.latest, null);
});

function row(address, state, sum = {}, ejected = 0) {
  return { node: { address, state, ejected }, sum: { errors_per_s: 0, timeouts_per_s: 0, down_s: 0, ejected_s: 0, p99_us: 500, ...sum }, read_share: 0, top_per_s: 1 };
}

test("the worst node comes first", () => {
  const rows = [
    row("10.0.0.10", "up"),
    row("10.0.0.2", "up"),
    row("10.0.0.3", "up", { p99_us: 9_000 }),
    row("10.0.0.4", "up", { errors_per_s: 1 }),
    row("10.0.0.5", "up", { down_s: 20 }),
    row("10.0.0.6", "up", {}, 2),
    row("10.0.0.7", "down"),
    row("10.0.0.8", "gone"),
    { ...row("10.0.0.9", "up"), sum: null },
  ];
  const order = rows.sort(worstFirst).map(({ node }) => Number(node.address.split(".")[3]));
  assert.deepEqual(order, [7, 6, 5, 4, 3, 2, 10, 9, 8]);
  assert.equal(badness(row("a", "gone")), -1);
  assert.equal(trouble(row("a", "up", { down_s: 20, ejected_s: 61 }, 1)), "ejected by 1 worker, down for 20 s, ejected for 1 min 1 s");
});

test("a node that has left is shown in the time in which it was there, beside its successor at the same address", () => {
  const node = (number, state) => ({ address: "10.0.0.1:9042", number, state, ejected: 0 });
  const sum = (number, gone, reads_per_s) => ({ address: "10.0.0.1:9042", number, gone, reads_per_s, errors_per_s: 0, timeouts_per_s: 0, down_s: 0, ejected_s: 0, p99_us: 1, points: [reads_per_s] });
  const nodes = [node(0, "gone"), node(1, "gone"), node(2, "up")];
  const rows = rowsOf(nodes, [sum(0, true, 30), sum(2, false, 10)]);
  assert.deepEqual(rows.map(({ node, read_share }) => [node.number, node.state, read_share]), [[2, "up", 0.25], [0, "gone", 0.75]]);
  // Later nothing is known of it in that time.
  assert.deepEqual(rowsOf(nodes, [sum(2, false, 10)]).map(({ node }) => node.number), [2]);
  // The proxy was started again, and the summary is from before.
  const other = rowsOf([{ ...node(2, "up"), address: "10.0.0.9:9042" }], [sum(2, false, 10)]);
  assert.equal(other[0].sum, null);
});

test("tables are sorted by number or by name, and what is not known comes last", () => {
  const sorted = (values, is_falling) => [...values].sort((a, b) => compare(a, b, is_falling));
  assert.deepEqual(sorted([3, null, 10, 2], true), [10, 3, 2, null]);
  assert.deepEqual(sorted([3, null, 10, 2], false), [2, 3, 10, null]);
  assert.deepEqual(sorted(["node10", "node9"], false), ["node9", "node10"]);
});

test("axes enclose what there is in round numbers", () => {
  assert.deepEqual(linear(10).range(0, 37), [0, 40]);
  assert.deepEqual(linear(10).ticks(0, 40), [0, 10, 20, 30, 40]);
  assert.deepEqual(linear(10).range(null, null)[0], 0);
  assert.deepEqual(logarithmic(100, 10_000).range(430, 7_200), [200, 10_000]);
  assert.deepEqual(logarithmic(100, 10_000).range(null, null), [100, 10_000]);
  assert.deepEqual(logarithmic(100, 10_000).range(500, 500), [500, 5_000]);
});

test("others of the tier are looked for at the same port", () => {
  const here = { protocol: "http:", port: "9180" };
  assert.equal(dashboardOf("10.0.0.12:9042", here, "window=1h"), "http://10.0.0.12:9180/#window=1h");
  assert.equal(dashboardOf("[fd00::2]:9042", here, ""), "http://[fd00::2]:9180/");
  assert.equal(dashboardOf("", here, ""), null);
});
