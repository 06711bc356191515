// Lines over time.

import { html, svg, text } from "./dom";
import { NONE, timeOfDay } from "./format";
import type { Moment } from "./history";
import type { Scale } from "./scale";

export interface Series {
  label: string;
  /** Names a colour of the style sheet. */
  colour: string;
  filled?: boolean;
  value: (data: NonNullable<Moment["data"]>) => number | null;
}

export interface Kind {
  title: string;
  /** What the axis counts; the numbers carry it too where there is room. */
  unit: string;
  series: Series[];
  scale: (values: number[]) => Scale;
  /** For the legend. */
  format: (value: number | null) => string;
  /** For the axis, if it should be shorter. */
  formatTick?: (value: number) => string;
  /** Takes no room while it has nothing to show. */
  optional?: boolean;
}

/** What all plots of the page have in common at one moment. */
export interface Frame {
  moments: Moment[];
  now_ms: number;
  window_ms: number;
  /** The moment that the legend speaks of: under the pointer, else the latest. */
  shown: Moment | null;
  hovering: boolean;
}

const HEIGHT = 168;
const LEFT = 56;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;

export class Plot {
  readonly element: HTMLElement;
  private readonly drawing: SVGSVGElement;
  private readonly values: HTMLElement[];
  private width = 0;

  constructor(
    private readonly kind: Kind,
    /** Hears the time under the pointer as a share of the window, null when it leaves. */
    onHover: (share: number | null) => void,
    onResize: () => void,
  ) {
    this.drawing = svg("svg", { height: HEIGHT, role: "img", "aria-label": `${kind.title}, ${kind.unit}` });
    this.values = kind.series.map(() => html("b", {}, NONE));
    const legend = kind.series.map((series, i) =>
      html("span", { class: `key ${series.colour}` }, html("i"), `${series.label} `, this.values[i] ?? ""),
    );
    this.element = html(
      "section",
      { class: "plot panel" },
      html("h3", {}, kind.title, html("small", {}, ` ${kind.unit}`)),
      html("div", { class: "legend" }, ...legend),
      this.drawing,
    );
    this.drawing.addEventListener("pointermove", (event) => {
      const inside = event.clientX - this.drawing.getBoundingClientRect().left - LEFT;
      const share = inside / (this.width - LEFT - RIGHT);
      onHover(share >= 0 && share <= 1 ? share : null);
    });
    this.drawing.addEventListener("pointerleave", () => onHover(null));
    new ResizeObserver(([entry]) => {
      this.width = Math.floor(entry?.contentRect.width ?? 0);
      onResize();
    }).observe(this.drawing);
  }

  draw(frame: Frame): void {
    this.kind.series.forEach((series, i) => {
      const element = this.values[i];
      if (element) text(element, this.kind.format(frame.shown?.data ? series.value(frame.shown.data) : null));
    });
    const begin_ms = frame.now_ms - frame.window_ms;
    // One moment before the window, so that lines enter it at its edge.
    const first = Math.max(0, frame.moments.findIndex((m) => m.time_ms >= begin_ms) - 1);
    const moments = frame.moments.slice(first);
    const lines = this.kind.series.map((series) => moments.map((m) => (m.data ? series.value(m.data) : null)));
    this.element.hidden = this.kind.optional === true && lines.every((line) => line.every((v) => v === null));
    if (this.width <= LEFT + RIGHT) return;

    const scale = this.kind.scale(lines.flat().filter((v): v is number => v !== null));
    const inner = this.width - LEFT - RIGHT;
    const x = (time_ms: number) => LEFT + ((time_ms - begin_ms) / frame.window_ms) * inner;
    const y = (value: number) => HEIGHT - BOTTOM - scale.position(value) * (HEIGHT - TOP - BOTTOM);

    const parts: SVGElement[] = [];
    const formatTick = this.kind.formatTick ?? this.kind.format;
    for (const tick of scale.ticks) {
      const at = Math.round(y(tick)) + 0.5;
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: at, y2: at }));
      parts.push(svg("text", { class: "tick", x: LEFT - 6, y: at + 3.5, "text-anchor": "end" }, formatTick(tick)));
    }
    parts.push(...timeAxis(frame, x));
    const clip = svg("svg", { x: LEFT, y: 0, width: inner, height: HEIGHT, viewBox: `${LEFT} 0 ${inner} ${HEIGHT}` });
    lines.forEach((values, i) => {
      const series = this.kind.series[i];
      if (!series) return;
      for (const run of runs(moments, values)) {
        const path = run.map(([time, value]) => `${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
        const [from, to] = [run[0], run.at(-1)];
        if (series.filled && from && to) {
          const floor = HEIGHT - BOTTOM;
          const d = `M${x(from[0]).toFixed(1)} ${floor}L${path}L${x(to[0]).toFixed(1)} ${floor}Z`;
          clip.append(svg("path", { class: `area ${series.colour}`, d }));
        }
        // A run of one moment is a dot: round caps show a line of no length.
        clip.append(svg("path", { class: `line ${series.colour}`, d: `M${path}${run.length === 1 ? "h0" : ""}` }));
      }
    });
    parts.push(clip);
    if (frame.hovering && frame.shown) {
      const at = x(frame.shown.time_ms).toFixed(1);
      parts.push(svg("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.drawing.replaceChildren(...parts);
  }
}

/** The pieces of a line between the moments of which nothing is known. */
export function runs(moments: Moment[], values: (number | null)[]): [number, number][][] {
  const all: [number, number][][] = [[]];
  moments.forEach((moment, i) => {
    const value = values[i] ?? null;
    if (value === null) all.push([]);
    else all.at(-1)?.push([moment.time_ms, value]);
  });
  return all.filter((run) => run.length > 0);
}

function timeAxis(frame: Frame, x: (time_ms: number) => number): SVGElement[] {
  const y = HEIGHT - 5;
  if (frame.hovering && frame.shown) {
    const time_ms = frame.shown.time_ms;
    const share = (time_ms - frame.now_ms) / frame.window_ms + 1;
    const anchor = share < 0.2 ? "start" : share > 0.8 ? "end" : "middle";
    return [svg("text", { class: "tick", x: x(time_ms), y, "text-anchor": anchor }, timeOfDay(time_ms))];
  }
  const label = (part: number) => {
    const seconds = (frame.window_ms / 1000) * part;
    return seconds === 0 ? "now" : seconds < 60 ? `−${seconds} s` : `−${seconds / 60} min`;
  };
  return [1, 0.5, 0].map((part) => {
    const anchor = part === 1 ? "start" : part === 0 ? "end" : "middle";
    return svg("text", { class: "tick", x: x(frame.now_ms - part * frame.window_ms), y, "text-anchor": anchor }, label(part));
  });
}
