// The row of what matters most: each number is of the whole time that is shown, and says whether it is good.

import { html, text } from "./dom";
import { bytes, cores, count, duration, NONE, perSecond, share } from "./format";
import * as judge from "./judge";
import type { Verdict } from "./judge";
import type { Values } from "./values";

interface Tile {
  label: string;
  help: string;
  value: (of: Values) => string;
  note: (of: Values) => string;
  verdict?: (of: Values) => Verdict;
}

const VERDICTS: Record<Verdict, string> = { idle: "", good: "good", warn: "look", bad: "bad" };

const TILES: Tile[] = [
  {
    label: "Requests",
    help: "Requests of clients per second, without those that were refused. Not judged: what is much is yours to say.",
    value: (of) => perSecond(of.all_per_s),
    note: (of) => `${count(of.reads_per_s)} reads, ${count(of.writes_per_s)} writes`,
  },
  {
    label: "Point reads p99",
    help: `99 of 100 reads of a single row or small partition took less, from request to answer. Amber from ${duration(judge.POINT_WARN_US)}, red from ${duration(judge.POINT_BAD_US)}, as the alert HelenusPointReadsSlow.`,
    value: (of) => duration(of.latency("point").p99_us),
    note: (of) => `p50 ${duration(of.latency("point").p50_us)}`,
    verdict: judge.points,
  },
  {
    label: "Scans p99",
    help: `The same of pages of reads over many partitions. Amber from ${duration(judge.SCAN_WARN_US)}, red from ${duration(judge.SCAN_BAD_US)}, as the alert HelenusScansSlow: drivers wait for 12 s or less.`,
    value: (of) => duration(of.latency("scan").p99_us),
    note: (of) => `p50 ${duration(of.latency("scan").p50_us)}`,
    verdict: judge.scans,
  },
  {
    label: "Errors",
    help: `Requests per second that Helenus answered with an error of its own. Refused: not taken in, because a bound was reached, a rule is against it, or it is malformed. Failed: taken in, and refused in a full queue, timed out at a node, or no node that could be asked. Errors of Cassandra itself are below. Amber if there are any, red from ${share(judge.FAILED_BAD)} of all requests; the alert HelenusRequestsFailing counts only those that failed.`,
    value: (of) => perSecond(judge.failed(of)),
    note: (of) => `${part(judge.failedShare(of))}: ${count(of.rate("requests_failed"))} failed, ${count(of.rate("requests_refused"))} refused`,
    verdict: judge.errors,
  },
  {
    label: "Waiting",
    help: `The most requests that waited in the proxy for a node at a time. Judged by how long requests other than scans waited: amber if one in a hundred of them waited for ${duration(judge.WAIT_WARN_US)} or more, red from ${duration(judge.WAIT_BAD_US)}. Scans wait so that others do not.`,
    value: (of) => count(of.most((gauges) => gauges.queued)),
    note: (of) => waited(judge.waitP99(of)),
    verdict: judge.waiting,
  },
  {
    label: "Nodes up",
    help: "Nodes of Cassandra to which this proxy has links, now. Amber if one of them had none, or was ejected because it failed or was far slower than its peers, in the time that is shown; red if two at a time, or the only one. Nodes of other data centres that are not to be asked do not count.",
    value: (of) => (of.latest.nodes > 0 ? `${of.latest.nodes_up} of ${of.latest.nodes}` : NONE),
    note: (of) => {
      const out = judge.missing(of);
      return out > 0 ? `${out} down or ejected at a time` : `${count(of.latest.links)} links`;
    },
    verdict: judge.nodes,
  },
];

/** Small print: not what one looks at first. */
const FACTS: [label: string, value: (of: Values) => string, help: string][] = [
  ["Writes p99", (of) => duration(of.latency("write").p99_us), "99 of 100 writes took less, from request to answer"],
  ["In flight", (of) => count(of.most((gauges) => gauges.in_flight)), "The most requests that nodes worked on at a time"],
  ["Clients", (of) => count(of.latest.clients), "Connections of clients, at the end of the time that is shown"],
  ["Queries per frame", (of) => count(of.sent.mean), "How many queries travel to a node together: the more, the fewer system calls"],
  ["Processor", (of) => cores(of.cpu_cores), "Time of all threads of the proxy; 100 % is one core"],
  ["Memory", (of) => bytes(of.latest.resident_bytes), "Resident memory of the proxy"],
];

/** How long requests wait in the proxy; most of them not at all. */
export function waited(p99_us: number | null): string {
  if (p99_us === null) return "no requests";
  return p99_us === 0 ? "99 of 100 were sent at once" : `99 of 100 waited less than ${duration(p99_us)}`;
}

/** None, and few, are not the same. */
function part(of: number | null): string {
  return of !== null && of > 0 && of < 0.001 ? "< 0.1 %" : share(of);
}

export class Tiles {
  private readonly tiles = TILES.map((tile) => {
    const value = html("b", {}, NONE);
    const note = html("small");
    const verdict = html("em");
    const what = html("details", { class: "what" }, html("summary", { "aria-label": `What is ${tile.label}?` }, "?"), html("p", {}, tile.help));
    const element = html("div", { class: "tile panel", title: tile.help }, html("span", {}, tile.label, " ", verdict), value, note, what);
    return { tile, element, value, note, verdict };
  });
  private readonly facts = FACTS.map(([label, show, help]) => {
    const value = html("b", {}, NONE);
    return { show, value, element: html("span", { title: help }, `${label} `, value) };
  });

  constructor(tiles: HTMLElement, facts: HTMLElement) {
    tiles.append(...this.tiles.map(({ element }) => element));
    facts.append(...this.facts.map(({ element }) => element));
    // One at a time.
    tiles.addEventListener("toggle", ({ target }) => this.closeOthers(target), true);
  }

  draw(of: Values | null): void {
    for (const { tile, element, value, note, verdict } of this.tiles) {
      const judged = of && tile.verdict ? tile.verdict(of) : "idle";
      element.className = `tile panel ${judged}`;
      text(value, of ? tile.value(of) : NONE);
      text(note, of ? tile.note(of) : "");
      // Not by colour alone.
      text(verdict, VERDICTS[judged]);
    }
    for (const { show, value } of this.facts) text(value, of ? show(of) : NONE);
  }

  private closeOthers(opened: EventTarget | null): void {
    if (!(opened instanceof HTMLDetailsElement) || !opened.open) return;
    for (const { element } of this.tiles) {
      const what = element.querySelector("details");
      if (what && what !== opened) what.open = false;
    }
  }
}
