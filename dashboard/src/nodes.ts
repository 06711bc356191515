// One card for each Cassandra node.

import { html, svg, text } from "./dom";
import { bytesPerSecond, count, duration, NONE, perSecond, share } from "./format";
import type { Moment } from "./history";
import type { NodeInterval } from "./interval";
import { type Frame, runs } from "./plot";
import type { Node, Report } from "./snapshot";

const STATES: Record<Node["state"], string> = {
  up: "The proxy has links to this node.",
  down: "The proxy has no link to this node and tries to open one.",
  unused: "No links yet; they are opened when a client logs in.",
  gone: "The node left the cluster.",
};

type Value = (node: Node, now: NodeInterval | undefined, reads_per_s: number) => string;

const FACTS: [label: string, value: Value][] = [
  ["Requests", (_, now) => perSecond(now?.traffic.per_s)],
  ["Latency p50", (_, now) => duration(now?.traffic.p50_us)],
  ["Latency p99", (_, now) => duration(now?.traffic.p99_us)],
  ["Links", (node) => count(node.links_up)],
  ["In flight", (node) => count(node.in_flight)],
  ["Queued", (node) => count(node.queued)],
  ["Scan slots", (node) => `${count(node.scan_slots_taken)} of ${count(node.scan_slots)}`],
  ["Window", (node) => count(node.window)],
  ["Share of reads", (_, now, reads_per_s) => share(now && reads_per_s > 0 ? now.rate("read_requests") / reads_per_s : null)],
  ["Score", (node) => duration(node.score_us)],
  ["Slowdown", (node) => `${node.slowdown.toFixed(1)} ×`],
  ["Ejected by", (node) => (node.ejected > 0 ? `${count(node.ejected)} workers` : "nobody")],
  ["Errors", (_, now) => perSecond(now?.rate("errors"))],
  ["Timeouts", (_, now) => perSecond(now?.rate("timeouts"))],
  ["Requests/frame", (_, now) => (now?.requests_per_frame ? now.requests_per_frame.toFixed(2) : NONE)],
  ["Sent", (_, now) => bytesPerSecond(now?.rate("bytes_out"))],
  ["Received", (_, now) => bytesPerSecond(now?.rate("bytes_in"))],
];

/** Shown if nodes are asked for reports. */
const REPORTED: [label: string, value: (report: Report) => string][] = [
  ["CPU", (report) => share(report.resources?.cpu)],
  ["Heap", (report) => share(report.memory)],
  ["Disk", (report) => share(report.resources?.disk)],
  ["Reads waiting", (report) => count(report.resources?.read_pending)],
  ["Compactions", (report) => count(report.resources?.compactions_pending)],
  ["Report", told],
];

function told(report: Report): string {
  if (report.age_ms === null) return report.connected ? "none yet" : "no agent";
  const age = `${duration(report.age_ms * 1_000)} old`;
  return report.contradicted > 0 ? `${age}, not believed` : age;
}

const WIDTH = 300;
const HEIGHT = 36;

class Card {
  readonly element: HTMLElement;
  private readonly state = html("span", { class: "pill" });
  private readonly place = html("p", { class: "place" });
  private readonly values = FACTS.map(() => html("dd", {}, NONE));
  private readonly reported = REPORTED.map(() => html("dd", {}, NONE));
  private readonly report: HTMLElement;
  private readonly spark = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" });

  constructor(private readonly address: string) {
    const facts = FACTS.map(([label], i) => html("div", {}, html("dt", {}, label), this.values[i] ?? ""));
    const reported = REPORTED.map(([label], i) => html("div", {}, html("dt", {}, label), this.reported[i] ?? ""));
    this.report = html("dl", { class: "report" }, ...reported);
    this.spark.append(svg("title", {}, "Requests per second; the same scale for all nodes"));
    this.element = html(
      "section",
      { class: "node panel" },
      html("header", {}, html("h3", {}, address), this.state),
      this.place,
      this.spark,
      html("dl", {}, ...facts),
      this.report,
    );
  }

  draw(node: Node, frame: Frame, top_per_s: number, reads_per_s: number): void {
    const now = frame.shown?.data?.interval.nodes.get(this.address);
    text(this.state, node.state);
    this.state.className = `pill ${node.state}`;
    this.state.title = STATES[node.state];
    text(this.place, `${node.dc} · ${node.rack} · Cassandra ${node.release_version || "unknown"}`);
    FACTS.forEach(([, value], i) => {
      const element = this.values[i];
      if (element) text(element, value(node, now, reads_per_s));
    });
    this.report.hidden = node.report === null;
    REPORTED.forEach(([, value], i) => {
      const element = this.reported[i];
      if (element && node.report) text(element, value(node.report));
    });
    const begin_ms = frame.now_ms - frame.window_ms;
    const moments = frame.moments.filter((m) => m.time_ms >= begin_ms);
    const lines = runs(moments, moments.map((m) => requests(m, this.address)));
    const paths = lines.map((run) => {
      const points = run.map(([time_ms, value]) => {
        const x = ((time_ms - begin_ms) / frame.window_ms) * WIDTH;
        return `${x.toFixed(1)} ${(HEIGHT - 1 - (value / top_per_s) * (HEIGHT - 3)).toFixed(1)}`;
      });
      return svg("path", { class: "line c-read", d: `M${points.join("L")}` });
    });
    const title = this.spark.firstElementChild;
    this.spark.replaceChildren(...(title ? [title] : []), ...paths);
  }
}

function requests(moment: Moment, address: string): number | null {
  return moment.data?.interval.nodes.get(address)?.traffic.per_s ?? null;
}

export class Nodes {
  private readonly cards = new Map<string, Card>();

  constructor(private readonly element: HTMLElement) {}

  draw(frame: Frame): void {
    const snapshot = frame.shown?.data?.snapshot;
    if (!snapshot) return;
    const rates = frame.moments
      .filter((m) => m.time_ms >= frame.now_ms - frame.window_ms)
      .flatMap((m) => snapshot.nodes.map((node) => requests(m, node.address) ?? 0));
    const top_per_s = Math.max(1, ...rates);
    const intervals = [...(frame.shown?.data?.interval.nodes.values() ?? [])];
    const reads_per_s = intervals.reduce((sum, now) => sum + now.rate("read_requests"), 0);

    const sorted = [...snapshot.nodes].sort((a, b) => order(a).localeCompare(order(b), "en", { numeric: true }));
    const shown = new Set(sorted.map((n) => n.address));
    for (const [address, card] of this.cards) {
      if (shown.has(address)) continue;
      card.element.remove();
      this.cards.delete(address);
    }
    sorted.forEach((node, i) => {
      let card = this.cards.get(node.address);
      if (!card) {
        card = new Card(node.address);
        this.cards.set(node.address, card);
      }
      // Moving an element that is already in its place would lose the reader's selection.
      const there = this.element.children[i];
      if (there !== card.element) this.element.insertBefore(card.element, there ?? null);
      card.draw(node, frame, top_per_s, reads_per_s);
    });
  }
}

/** By place, then address; nodes that left come last. */
function order(node: Node): string {
  return `${node.state === "gone" ? 1 : 0} ${node.dc} ${node.rack} ${node.address}`;
}
