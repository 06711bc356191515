// Cassandra's nodes, the worst first; one of them in detail.

import { html, svg, text } from "./dom";
import { age, bytesPerSecond, count, duration, NONE, perSecond, share } from "./format";
import type { Node, Report } from "./snapshot";
import type { NodeSummary } from "./summary";
import { type Column, number, Table } from "./table";
import type { View } from "./view";

const STATES: Record<Node["state"], string> = {
  up: "The proxy has links to this node.",
  down: "The proxy has no link to this node and tries to open one.",
  unused: "No links yet; they are opened when a client logs in, and never to other data centres unless that is allowed.",
  gone: "The node has left the cluster; it was there in the time that is shown.",
};

export interface Row {
  node: Node;
  /** In the time that is shown; null until it is known. */
  sum: NodeSummary | null;
  /** Of all reads of all nodes. */
  read_share: number | null;
  /** The most requests per second of any part of the time, of all nodes. */
  top_per_s: number;
}

const OPEN = "nodes.open";
const SPARK_WIDTH = 120;
const SPARK_HEIGHT = 22;

/** The higher the worse: whether it is asked, whether it was, whether it fails. */
export function badness({ node, sum }: Row): number {
  if (node.state === "gone") return -1;
  if (node.state === "down") return 4;
  if (node.ejected > 0) return 3;
  if (sum && sum.down_s + sum.ejected_s > 0) return 2;
  return sum && sum.errors_per_s + sum.timeouts_per_s > 0 ? 1 : 0;
}

/** Those that have left are shown if they were there in the time that is shown. */
export function rowsOf(nodes: Node[], sums: NodeSummary[]): Row[] {
  const byNumber = new Map(sums.map((sum) => [sum.number, sum]));
  const reads = sums.reduce((all, sum) => all + sum.reads_per_s, 0);
  const top_per_s = Math.max(1, ...sums.flatMap((sum) => sum.points.map((value) => value ?? 0)));
  const rows = nodes.map((node): Row => {
    const numbered = byNumber.get(node.number);
    // After a restart of the proxy the numbers of an older answer are those of others.
    const sum = numbered?.address === node.address ? numbered : null;
    return { node, sum, top_per_s, read_share: sum && reads > 0 ? sum.reads_per_s / reads : null };
  });
  return rows.filter(({ node, sum }) => node.state !== "gone" || sum !== null).sort(worstFirst);
}

/** Then by errors, and the slowest first. */
export function worstFirst(a: Row, b: Row): number {
  const failing = ({ sum }: Row) => (sum ? sum.errors_per_s + sum.timeouts_per_s : 0);
  const slow = ({ sum }: Row) => sum?.p99_us ?? 0;
  return (
    badness(b) - badness(a) ||
    failing(b) - failing(a) ||
    slow(b) - slow(a) ||
    a.node.address.localeCompare(b.node.address, "en", { numeric: true })
  );
}

/** What one should know of it, in words. */
export function trouble({ node, sum }: Row): string {
  const said: string[] = [];
  if (node.ejected > 0) said.push(`ejected by ${node.ejected} ${node.ejected === 1 ? "worker" : "workers"}`);
  if (sum && sum.down_s > 0) said.push(`down for ${age(sum.down_s * 1_000)}`);
  if (sum && sum.ejected_s > 0) said.push(`ejected for ${age(sum.ejected_s * 1_000)}`);
  return said.join(", ");
}

function columns(open: (address: string) => void): Column<Row>[] {
  return [
    {
      title: "Node",
      help: "Press one for everything that is known of it",
      is_text: true,
      sort: ({ node }) => node.address,
      show: ({ node }) => node.address,
      draw: ({ node }, cell) => {
        let button = cell.firstElementChild as HTMLButtonElement | null;
        if (!button) {
          button = html("button", { type: "button", class: "link" });
          button.addEventListener("click", () => open(button?.textContent ?? ""));
          cell.append(button);
        }
        text(button, node.address);
      },
    },
    {
      title: "State",
      help: "As this proxy sees it. Ejected: it fails or is far slower than its peers, and is asked only by way of trial",
      is_text: true,
      sort: (row) => -badness(row),
      show: (row) => `${row.node.state} ${trouble(row)}`,
      draw: (row, cell) => {
        if (cell.childElementCount === 0) cell.append(html("span"), " ", html("small"));
        const [pill, small] = cell.children;
        if (!pill || !small) return;
        text(pill, row.node.state);
        pill.className = `pill ${row.node.state === "up" && badness(row) >= 2 ? "warn" : row.node.state}`;
        text(small, trouble(row));
        cell.title = STATES[row.node.state];
      },
    },
    { title: "Where", is_text: true, sort: where, show: where },
    number("Requests", ({ sum }) => sum?.requests_per_s, perSecond, "Requests of this proxy to the node per second"),
    {
      title: "Over time",
      help: "Requests per second over the time that is shown; the same scale for all nodes",
      sort: ({ sum }) => sum?.requests_per_s ?? null,
      show: () => "",
      draw: drawSpark,
    },
    number("p50", ({ sum }) => sum?.p50_us, duration, "Half of the requests took less, from sending to the node’s answer"),
    number("p99", ({ sum }) => sum?.p99_us, duration, "99 of 100 requests took less, from sending to the node’s answer"),
    number("Errors", ({ sum }) => sum?.errors_per_s, perSecond, "Errors that the node has answered with, per second. Clients do not see all of them: some requests are sent again, and parts of scans are read otherwise. Statements that the node had forgotten, and was taught again, do not count"),
    number("Time-outs", ({ sum }) => sum?.timeouts_per_s, perSecond, "Requests that the node has not answered in time, per second"),
    number("In flight", ({ node }) => node.in_flight, count, "Requests that the node is working on, now"),
    number("Queued", ({ node }) => node.queued, count, "Requests that wait in the proxy for the node, now"),
    number("Slowdown", ({ node }) => node.slowdown, (v) => `${v.toFixed(1)} ×`, "How much longer answers take than predicted, now"),
    number("Of reads", ({ read_share }) => read_share, share, "Share of all reads that went to this node"),
  ];
}

function where({ node }: Row): string {
  return `${node.dc} · ${node.rack}`;
}

function drawSpark({ sum, top_per_s }: Row, cell: HTMLTableCellElement): void {
  let path = cell.querySelector("path");
  if (!path) {
    path = svg("path", { class: "line read" });
    const viewBox = `0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`;
    cell.append(svg("svg", { class: "spark", viewBox, preserveAspectRatio: "none", "aria-hidden": "true" }, path));
  }
  const points = sum?.points ?? [];
  const step = SPARK_WIDTH / Math.max(1, points.length - 1);
  const d = points.map((value, i) => {
    if (value === null) return "";
    const y = SPARK_HEIGHT - 1 - (value / top_per_s) * (SPARK_HEIGHT - 2);
    const begins = i === 0 || points[i - 1] === null;
    return `${begins ? "M" : "L"}${(i * step).toFixed(1)} ${y.toFixed(1)}${begins ? "h0" : ""}`;
  });
  path.setAttribute("d", d.join(""));
}

type Value = (row: Row) => string;

const FACTS: [label: string, value: Value, help: string][] = [
  ["Version", ({ node }) => node.release_version || NONE, "Of Cassandra"],
  ["Links", ({ node }) => count(node.links_up), "Connections of this proxy to the node, now"],
  ["Mean", ({ sum }) => duration(sum?.mean_us), "Mean time from sending to the node’s answer"],
  ["p99.9", ({ sum }) => duration(sum?.p999_us), "999 of 1000 requests took less"],
  ["Scan permits", ({ node }) => `${count(node.scan_slots_taken)} of ${count(node.scan_slots)}`, "Pieces of scans that the node works on at a time; the best number is found by trial"],
  ["Window", ({ node }) => count(node.window), "Requests in flight that one worker may have at the node"],
  ["Score", ({ node }) => duration(node.score_us), "When a request of a millisecond of work would be finished; replicas are chosen by it"],
  ["Failing", ({ node }) => share(node.failures), "Share of requests that fail, lately"],
  ["Ejected by", ({ node }) => (node.ejected > 0 ? `${count(node.ejected)} workers` : "nobody"), "Workers that ask it only by way of trial"],
  ["Queries/frame", ({ sum }) => (sum?.requests_per_frame ? sum.requests_per_frame.toFixed(2) : NONE), "How many queries travel to it together"],
  ["Sent", ({ sum }) => bytesPerSecond(sum?.bytes_out_per_s), "Bytes to the node"],
  ["Received", ({ sum }) => bytesPerSecond(sum?.bytes_in_per_s), "Bytes from the node"],
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
  const old = `${duration(report.age_ms * 1_000)} old`;
  return report.contradicted > 0 ? `${old}, not believed` : old;
}

export class Nodes {
  private readonly table: Table<Row>;
  private readonly detail = html("section", { class: "node panel", hidden: "" });
  private rows: Row[] = [];

  constructor(
    element: HTMLElement,
    private readonly view: View,
  ) {
    const open = (address: string) => {
      view.set(OPEN, view.get(OPEN) === address ? null : address);
      this.drawDetail();
    };
    this.table = new Table(element, columns(open), view, {
      name: "nodes",
      filter: "Address, state, data centre, rack",
      words: (row) => `${row.node.address} ${row.node.state} ${trouble(row)} ${where(row)} ${row.node.release_version}`,
      rows_max: 200,
    });
    element.append(this.detail);
  }

  reload(): void {
    this.table.reload();
    this.drawDetail();
  }

  draw(nodes: Node[], sums: NodeSummary[]): void {
    this.rows = rowsOf(nodes, sums);
    this.table.draw(this.rows, "The worst first: those that are down, ejected, or were so in the time that is shown; then those with errors; then the slowest; at the end those that have left the cluster.");
    this.drawDetail();
  }

  private drawDetail(): void {
    const row = this.rows.find(({ node }) => node.address === this.view.get(OPEN));
    this.detail.hidden = !row;
    if (!row) return;
    const { node } = row;
    const fact = (label: string, value: string, help: string) =>
      html("div", { title: help }, html("dt", {}, label), html("dd", {}, value));
    const facts = FACTS.map(([label, value, help]) => fact(label, value(row), help));
    const reported = node.report ? REPORTED.map(([label, value]) => fact(label, node.report ? value(node.report) : NONE, "As its agent reports")) : [];
    this.detail.replaceChildren(html("h3", {}, node.address), html("dl", {}, ...facts, ...reported));
  }
}
