// Polls, keeps the history and draws the page.

import { byId, html, text } from "./dom";
import { age, bytes, cores, count, duration, NONE, perSecond, timeOfDay } from "./format";
import { HISTORY_MS_MAX, History, type Moment } from "./history";
import { HotPartitions } from "./hot";
import { interval } from "./interval";
import { Layouts } from "./layouts";
import { Nodes } from "./nodes";
import { type Frame, type Kind, Plot } from "./plot";
import { CALLS, CLASSES_FIRST, CLIENTS, CPU, LAYOUTS, latency, MEMORY, NETWORK, onNodes, PASSING, QUEUES, SCHEDULED, SPARED, THROUGHPUT, TOGETHER, TROUBLE, WAITING } from "./plots";
import { Operators } from "./operators";
import { poll, TokenNeeded } from "./poll";
import type { Snapshot } from "./snapshot";
import { Tables } from "./tables";
import { askForToken, currentToken, onToken } from "./token";

const POLL_MS = 1_000;
const WINDOWS_MIN = [1, 5, HISTORY_MS_MAX / 60_000];

const history = new History();
/** The latest good answer, and when it came. */
let latest: { snapshot: Snapshot; time_ms: number } | null = null;
let failure: string | null = null;
let window_ms = 60_000;
let hover: number | null = null;

const nodes = new Nodes(byId("nodes"));
const hot = new HotPartitions(byId("hot"));
const layouts = new Layouts(byId("layouts"), byId("layouts-head"));
const tables = new Tables(byId("tables"), redrawSoon);
const plots = new Map<string, Plot>();
const tiles = new Map<string, { value: HTMLElement; note: HTMLElement }>();

function addPlot(kind: Kind, before: Plot | undefined): void {
  const onHover = (share: number | null) => {
    hover = share;
    redrawSoon();
  };
  const plot = new Plot(kind, onHover, redrawSoon);
  plots.set(kind.title, plot);
  byId("plots").insertBefore(plot.element, before?.element ?? null);
}

for (const kind of [THROUGHPUT, ...CLASSES_FIRST.map(latency), WAITING, PASSING, QUEUES, SCHEDULED, TOGETHER, CALLS, SPARED, LAYOUTS, TROUBLE, CLIENTS, NETWORK, CPU, MEMORY]) {
  addPlot(kind, undefined);
}

/** Classes of requests get their plot when there are such requests. */
function addClassPlots(snapshot: Snapshot): void {
  for (const { class: name, latency: histogram } of snapshot.classes) {
    const kind = latency(name);
    if (histogram.count > 0 && !plots.has(kind.title)) addPlot(kind, plots.get(WAITING.title));
  }
}

for (const minutes of WINDOWS_MIN) {
  const button = html("button", { type: "button" }, `${minutes} min`);
  const press = () => {
    window_ms = minutes * 60_000;
    for (const other of byId("windows").children) other.setAttribute("aria-pressed", String(other === button));
    redrawSoon();
  };
  button.addEventListener("click", press);
  byId("windows").append(button);
  if (minutes * 60_000 === window_ms) press();
}

async function tick(): Promise<void> {
  try {
    take(await poll(currentToken()));
    failure = null;
    askForToken(false);
  } catch (error) {
    askForToken(error instanceof TokenNeeded);
    failure = error instanceof Error ? error.message : String(error);
    history.add({ time_ms: Date.now(), data: null });
  }
  redrawSoon();
}

function take(snapshot: Snapshot): void {
  const time_ms = Date.now();
  const between = latest && interval(latest.snapshot, snapshot);
  history.add({ time_ms, data: between ? { snapshot, interval: between } : null });
  latest = { snapshot, time_ms };
  addClassPlots(snapshot);
}

let redrawing = false;
function redrawSoon(): void {
  if (redrawing) return;
  redrawing = true;
  requestAnimationFrame(() => {
    redrawing = false;
    redraw();
  });
}

function redraw(): void {
  const now_ms = Date.now();
  drawBanner(now_ms);
  if (!latest) return;
  drawHead(latest.snapshot);
  const frame = frameAt(now_ms);
  if (!frame.shown) return;
  document.body.classList.remove("loading");
  drawTiles(frame.shown);
  for (const plot of plots.values()) plot.draw(frame);
  nodes.draw(frame);
  tables.draw(frame);
  hot.draw(frame);
  layouts.draw(frame);
}

function frameAt(now_ms: number): Frame {
  const pointed = hover === null ? null : now_ms - (1 - hover) * window_ms;
  const under = pointed === null ? null : history.nearest(pointed, Math.max(1.5 * POLL_MS, window_ms / 200));
  return {
    moments: history.moments,
    now_ms,
    window_ms,
    shown: under ?? history.moments.findLast((m) => m.data !== null) ?? null,
    hovering: under !== null,
  };
}

function drawBanner(now_ms: number): void {
  const banner = byId("banner");
  const stale = failure !== null;
  banner.hidden = !stale;
  document.body.classList.toggle("stale", stale && latest !== null);
  document.title = `${stale ? "⚠ " : ""}Helenus${latest ? ` · ${latest.snapshot.cluster}` : ""}`;
  if (!stale) return;
  const since = latest
    ? `The numbers below are ${age(now_ms - latest.time_ms)} old, from ${timeOfDay(latest.time_ms)}.`
    : "Nothing has been received yet.";
  text(banner, `No current numbers from the proxy: ${failure}. ${since} Trying again every second.`);
}

function drawHead(snapshot: Snapshot): void {
  text(byId("cluster"), snapshot.cluster);
  const ready = byId("ready");
  text(ready, snapshot.ready ? "ready" : `not ready: ${snapshot.ready_reason ?? "unknown reason"}`);
  ready.className = `pill ${snapshot.ready ? "up" : "down"}`;
  const up = age(snapshot.now_unix_ms - snapshot.started_unix_ms);
  const facts = [
    `version ${snapshot.version}`,
    `up ${up}`,
    `protocol v${snapshot.protocol}`,
    `datacenter ${snapshot.local_dc}`,
    `${snapshot.prepared} prepared statements`,
  ];
  text(byId("facts"), facts.join(" · "));
}

function drawTiles(shown: Moment | null): void {
  const data = shown?.data;
  const now = data?.interval;
  const snapshot = data?.snapshot;
  const point = now?.classes.get("point");
  const write = now?.classes.get("write");
  const up = snapshot?.nodes.filter((n) => n.state === "up").length;
  const here = snapshot?.nodes.filter((n) => n.state !== "gone").length;
  const queued = snapshot && onNodes(snapshot, "queued");
  tile("Throughput", perSecond(now?.all_per_s), now ? `${count(now.reads_per_s)} reads, ${count(now.writes_per_s)} writes` : "");
  tile("Point reads p99", duration(point?.p99_us), `p50 ${duration(point?.p50_us)}`);
  tile("Writes p99", duration(write?.p99_us), `p50 ${duration(write?.p50_us)}`);
  tile("In flight", snapshot ? count(onNodes(snapshot, "in_flight")) : NONE, `${count(queued)} queued`);
  tile("Failed", perSecond(now?.rate("requests_failed")), `${perSecond(now?.rate("requests_overloaded"))} overloaded`);
  tile("Nodes up", snapshot ? `${up} of ${here}` : NONE, `${count(snapshot?.nodes.reduce((s, n) => s + n.links_up, 0))} links`);
  const sent = now?.sent;
  tile("Queries per frame", count(sent?.mean), `p99 ${count(sent?.p99)}, window ${duration(snapshot?.window_us)}`);
  tile("Clients", count(snapshot?.clients), `of at most ${count(snapshot?.clients_max)}`);
  tile("Proxy", cores(now?.cpu_cores), `of a core, ${bytes(snapshot?.resident_bytes)}`);
}

function tile(label: string, value: string, note: string): void {
  let made = tiles.get(label);
  if (!made) {
    made = { value: html("b"), note: html("small") };
    tiles.set(label, made);
    byId("tiles").append(html("div", { class: "tile panel" }, html("span", {}, label), made.value, made.note));
  }
  text(made.value, value);
  text(made.note, note);
}

/** The next poll begins a second after this one began, or when it ends if it took longer. */
async function run(): Promise<never> {
  for (;;) {
    const next_ms = Date.now() + POLL_MS;
    await tick();
    await new Promise((wake) => setTimeout(wake, Math.max(0, next_ms - Date.now())));
  }
}

onToken(() => void tick());
void run();
void new Operators(currentToken).run();
