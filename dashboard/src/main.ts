// Asks the proxy, keeps what it tells, and draws the page.

import { byId, html, plain, text } from "./dom";
import { Events } from "./events";
import { age, timeOfDay } from "./format";
import { Held, type Shown } from "./held";
import { History, type HistoryAnswer, type Step } from "./history";
import { HotPartitions } from "./hot";
import { Layouts } from "./layouts";
import { Nodes } from "./nodes";
import { Operators } from "./operators";
import { type Frame, type Kind, moments, Plot } from "./plot";
import { CALLS, CLASSES_FIRST, CLIENTS, CPU, LAYOUTS, latency, MEMORY, NETWORK, PASSING, QUEUES, SCHEDULED, SPARED, THROUGHPUT, TOGETHER, TROUBLE, WAITING } from "./plots";
import { ask, TokenNeeded } from "./poll";
import { drawProxies, type Proxy } from "./proxies";
import type { Snapshot } from "./snapshot";
import { type Summary, Summaries } from "./summary";
import { Tables } from "./tables";
import { Tiles } from "./tiles";
import { askForToken, currentToken, onToken } from "./token";
import { Values } from "./values";
import { type Range, View, WINDOWS } from "./view";

const POLL_MS = 1_000;
/** How often the rest is asked for while nothing else is shown. */
const REST_MS = 2_000;
const PROXIES_MS = 10_000;
/** Of the small plots in the table of nodes. */
const POINTS = 60;

const history = new History();
const view = new View(location.hash, (fragment, is_other_time) => {
  const address = fragment === "" ? location.pathname : `#${fragment}`;
  if (is_other_time && fragment !== location.hash.replace(/^#/, "")) globalThis.history.pushState(null, "", address);
  else globalThis.history.replaceState(null, "", address);
});
let snapshot: Snapshot | null = null;
const summaries = new Summaries();
let proxies: Proxy[] = [];
const held = new Held(view);
/** When the last good answer came, by the browser's clock. */
let answered_ms: number | null = null;
let failure: string | null = null;
const asked_ms = { rest: -Infinity, proxies: -Infinity };

const zoom = (range: Range) => {
  view.zoom = range;
  lookElsewhere();
};
const reset = () => {
  view.zoom = null;
  lookElsewhere();
};

const tiles = new Tiles(byId("tiles"), byId("small"));
const events = new Events(byId("events"), zoom);
const nodes = new Nodes(byId("nodes"), view);
const hot = new HotPartitions(byId("hot"), view);
const layouts = new Layouts(byId("layouts"), byId("layouts-head"), view);
const tables = new Tables(byId("tables"), view);
const operators = new Operators(currentToken, view);
const plots = [THROUGHPUT, ...CLASSES_FIRST.map(latency), PASSING, TROUBLE, WAITING, QUEUES, ...["multi", "slice", "lwt", "scan", "other", "system"].map(latency), SCHEDULED, TOGETHER, SPARED, LAYOUTS, CALLS, CLIENTS, NETWORK, CPU, MEMORY].map(addPlot);

function addPlot(kind: Kind): Plot {
  const plot = new Plot(kind, { zoom, reset });
  byId("plots").append(plot.element);
  return plot;
}

const windows = WINDOWS.map(([name]) => {
  const button = html("button", { type: "button", title: `Show the last ${name}` }, name.replace(/(\d+)/, "$1 "));
  button.addEventListener("click", () => {
    view.window = name;
    view.pause(null);
    lookElsewhere();
  });
  byId("windows").append(button);
  return { name, button };
});
byId("pause").addEventListener("click", () => {
  const now_ms = history.now_ms(performance.now());
  if (view.is_paused || now_ms === null) view.pause(null);
  else held.hold(shownAt(now_ms));
  lookElsewhere();
});
byId("reset").addEventListener("click", reset);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const plot of plots) plot.repaint();
});

/** What is asked of the proxy depends on the time that is shown. */
function lookElsewhere(): void {
  redrawSoon();
  void askForRest().catch(() => {});
}

let is_ticking = false;
/** One at a time: what two answers brought would be there twice. */
async function tick(): Promise<void> {
  if (is_ticking) return;
  is_ticking = true;
  try {
    await askForNews();
  } finally {
    is_ticking = false;
  }
}

async function askForNews(): Promise<void> {
  try {
    const token = currentToken();
    history.take(await ask<HistoryAnswer>(history.path(), token), performance.now());
    await askForRest();
    answered_ms = Date.now();
    failure = null;
    askForToken(false);
  } catch (error) {
    askForToken(error instanceof TokenNeeded);
    failure = error instanceof Error ? error.message : String(error);
  }
  redrawSoon();
}

/** Whether it is time to ask for something again. */
function isDue(what: keyof typeof asked_ms, every_ms: number): boolean {
  const now_ms = performance.now();
  if (now_ms - asked_ms[what] < every_ms) return false;
  asked_ms[what] = now_ms;
  return true;
}

async function askForRest(): Promise<void> {
  const token = currentToken();
  const now_ms = history.now_ms(performance.now());
  if (now_ms === null) return;
  const asked: Promise<void>[] = [];
  if (isDue("rest", REST_MS)) asked.push(ask<Snapshot>("api/snapshot", token).then((answer) => void (snapshot = answer)));
  asked.push(askForSummary(now_ms, token));
  if (isDue("proxies", PROXIES_MS)) {
    asked.push(ask<Proxy[]>("api/proxies", token).then((answer) => void (proxies = answer)));
  }
  await Promise.all(asked);
  redrawSoon();
}

async function askForSummary(now_ms: number, token: string | null): Promise<void> {
  const is_live = !view.zoom;
  // It stays as it is.
  if (is_live && view.is_paused) return;
  const { from_ms, to_ms } = view.range(now_ms);
  const time_shown = is_live ? view.window : `${from_ms} ${to_ms}`;
  if (!summaries.isDue(time_shown, is_live ? null : to_ms, now_ms, performance.now())) return;
  const [from, to] = [history.since_zero_ms(from_ms), history.since_zero_ms(to_ms)];
  const time = is_live ? `seconds=${Math.round(view.window_ms / 1_000)}` : `from_ms=${from}&to_ms=${Math.max(to, from + 1)}`;
  try {
    summaries.take(time_shown, await ask<Summary>(`api/summary?${time}&points=${POINTS}`, token));
  } catch (error) {
    summaries.fail(time_shown, performance.now());
    throw error;
  }
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

const known = new WeakMap<Step, Values>();
/** Those of single steps are kept, for they are looked at once a second. */
function valuesOf(steps: Step[]): Values {
  const [step] = steps;
  const kept = steps.length === 1 && step ? known.get(step) : undefined;
  const values = kept ?? new Values(steps, history.bounds_us, history.packed_bounds);
  if (steps.length === 1 && step) known.set(step, values);
  return values;
}

function frameAt(now_ms: number): Frame {
  const { from_ms, to_ms } = view.range(now_ms);
  const steps = history.moments(from_ms, to_ms, false).flat();
  return {
    from_ms,
    to_ms,
    moments: moments(history.moments(from_ms, to_ms, true), valuesOf),
    whole: steps.length > 0 ? valuesOf(steps) : null,
    events: history.events.filter((of) => of.t_ms > from_ms && of.t_ms <= to_ms),
  };
}

function shownAt(now_ms: number): Shown {
  return { now_ms, frame: frameAt(now_ms), events: [...history.events], snapshot, summary: summaries.latest, proxies };
}

function redraw(): void {
  drawBanner();
  const now_ms = history.now_ms(performance.now());
  if (now_ms === null) return;
  document.body.classList.remove("loading");
  const of = held.shown(() => shownAt(now_ms));
  drawToolbar(of);
  tiles.draw(of.frame.whole);
  for (const plot of plots) plot.draw(of.frame);
  events.draw(of.frame, of.events, of.now_ms);
  drawOthers(of.proxies);
  if (!of.snapshot) return;
  drawHead(of.snapshot);
  const { summary } = of;
  nodes.draw(of.snapshot.nodes, summary?.nodes ?? []);
  tables.draw(of.snapshot.tables, summary?.tables ?? []);
  hot.draw(of.snapshot.hot);
  layouts.draw(of.snapshot.layouts, summary);
}

let drawn: { proxies: Proxy[]; fragment: string } | null = null;
/** Only when something has changed: links that are made anew lose a click. */
function drawOthers(proxies: Proxy[]): void {
  const { fragment } = view;
  if (drawn?.proxies === proxies && drawn.fragment === fragment) return;
  drawn = { proxies, fragment };
  drawProxies(byId("proxies"), proxies, fragment);
}

function drawToolbar({ frame, now_ms }: Shown): void {
  const zoomed = view.zoom !== null;
  for (const { name, button } of windows) button.setAttribute("aria-pressed", String(!zoomed && name === view.window));
  const pause = byId("pause");
  text(pause, view.is_paused ? "Go on" : "Pause");
  pause.setAttribute("aria-pressed", String(view.is_paused));
  pause.hidden = zoomed;
  byId("reset").hidden = !zoomed;
  const said_held = byId("held");
  said_held.hidden = !view.is_paused;
  text(said_held, `Paused at ${timeOfDay(now_ms)}: everything on this page is as it was then. What comes meanwhile is kept.`);
  const length = age(frame.to_ms - frame.from_ms);
  const first_ms = frame.moments.find((moment) => moment.values !== null)?.t_ms;
  // A proxy that was started lately knows of less.
  const of_less = first_ms !== undefined && first_ms - frame.from_ms > 0.1 * (frame.to_ms - frame.from_ms);
  const said = zoomed || view.is_paused ? `${timeOfDay(frame.from_ms)} – ${timeOfDay(frame.to_ms)}` : of_less ? `known from ${timeOfDay(first_ms)} on` : "";
  text(byId("range"), said);
  byId("range").title = length;
}

function drawBanner(): void {
  const banner = byId("banner");
  const stale = failure !== null;
  banner.hidden = !stale;
  document.body.classList.toggle("stale", stale && answered_ms !== null);
  document.title = plain(`${stale ? "⚠ " : ""}Helenus${snapshot ? ` · ${snapshot.cluster}` : ""}`);
  if (!stale) return;
  const since =
    answered_ms !== null
      ? `The numbers below are ${age(Date.now() - answered_ms)} old, from ${timeOfDay(answered_ms)}.`
      : "Nothing has been received yet.";
  text(banner, `No current numbers from the proxy: ${failure}. ${since} Trying again every second.`);
}

function drawHead(of: Snapshot): void {
  text(byId("cluster"), of.cluster);
  const ready = byId("ready");
  text(ready, of.ready ? "ready" : `not ready: ${of.ready_reason ?? "unknown reason"}`);
  ready.className = `pill ${of.ready ? "up" : "down"}`;
  const facts = [
    `version ${of.version}`,
    `up ${age(of.now_unix_ms - of.started_unix_ms)}`,
    `protocol v${of.protocol}`,
    `data centre ${of.local_dc}`,
    `${of.prepared} prepared statements`,
    `${of.clients} of at most ${of.clients_max} clients`,
  ];
  text(byId("facts"), facts.join(" · "));
}

/** The next poll begins a second after this one began, or when it ends if it took longer. */
async function run(): Promise<never> {
  for (;;) {
    const next_ms = performance.now() + POLL_MS;
    // What is missed is asked for when somebody looks again.
    if (!document.hidden) await tick();
    await new Promise((wake) => setTimeout(wake, Math.max(0, next_ms - performance.now())));
  }
}

/** Somebody goes back or forward, has changed the address by hand, or has followed a link to another time. */
function onAddress(): void {
  view.load(location.hash);
  view.pause(null);
  for (const of of [nodes, hot, layouts, tables, operators]) of.reload();
  lookElsewhere();
}

onToken(() => void tick());
document.addEventListener("visibilitychange", () => void (document.hidden || tick()));
addEventListener("hashchange", onAddress);
void run();
void operators.run();
