// One plot over time, drawn by uPlot: drag to zoom, double-click to go back, a legend that hides lines, the arrow
// keys for whoever has no pointer.

import uPlot from "uplot";

import { html, svg, text } from "./dom";
import { NONE, timeOfDay } from "./format";
import { begin, type Happened, type Step } from "./history";
import type { Scale } from "./scale";
import type { Values } from "./values";
import type { Range } from "./view";

export interface Series {
  label: string;
  /** Names a colour of the style sheet, and dashes. */
  colour: Colour;
  filled?: boolean;
  value: (values: Values) => number | null;
}

export interface Kind {
  title: string;
  /** What the axis counts; the numbers carry it too where there is room. */
  unit: string;
  /** What it is about, for whoever meets it for the first time. */
  help: string;
  series: Series[];
  scale: Scale;
  /** For the legend. */
  format: (value: number | null) => string;
  /** For the axis, if it should be shorter. */
  formatTick?: (value: number) => string;
  /** Takes no room while it has nothing to show. */
  optional?: boolean;
}

/** What all plots of the page have in common. */
export interface Frame extends Range {
  /** A moment each, with gaps where nothing is known. */
  moments: { t_ms: number; values: Values | null }[];
  /** Of the whole time; null if nothing is known of it. */
  whole: Values | null;
  events: Happened[];
}

/** Told apart by their dashes as well. */
const DASHES = {
  all: [10, 3, 2, 3],
  read: [],
  write: [7, 3],
  bad: [14, 4],
  p50: [],
  p99: [7, 3],
  p999: [2, 3],
} satisfies Record<string, number[]>;

export type Colour = keyof typeof DASHES;

const HEIGHT = 176;
const AXIS = 58;
/** How near an event must be to the pointer to be told. */
const NEAR_PX = 6;

/** What a plot asks for. */
export interface Wishes {
  zoom: (range: Range) => void;
  reset: () => void;
}

/** A moment for each group of steps, and gaps. */
export function moments(groups: Step[][], values: (steps: Step[]) => Values): Frame["moments"] {
  const all: Frame["moments"] = [];
  groups.forEach((steps, i) => {
    const [last, first, end] = [groups[i - 1]?.at(-1), steps[0], steps.at(-1)];
    if (!first || !end) return;
    const is_gap = last && (begin(first) - last.t_ms > 1_500 || last.started_unix_ms !== first.started_unix_ms);
    if (is_gap) all.push({ t_ms: (last.t_ms + first.t_ms) / 2, values: null });
    all.push({ t_ms: end.t_ms, values: values(steps) });
  });
  return all;
}

export class Plot {
  readonly element: HTMLElement;
  private readonly drawing = html("div", { class: "drawing", tabindex: "0", role: "img" });
  private readonly when = html("small", { class: "when" });
  private readonly keys: { button: HTMLButtonElement; value: HTMLElement }[];
  private readonly shown: boolean[];
  private frame: Frame | null = null;
  private u: uPlot | null = null;
  private width = 0;
  private is_in_sight = false;

  constructor(
    private readonly kind: Kind,
    private readonly wishes: Wishes,
  ) {
    this.shown = kind.series.map(() => true);
    this.keys = kind.series.map((series, i) => {
      const value = html("b", {}, NONE);
      const button = html("button", { type: "button", class: "key", "aria-pressed": "true", title: "Show or hide this line" });
      button.append(swatch(series.colour), `${series.label} `, value);
      button.addEventListener("click", () => this.toggle(i));
      return { button, value };
    });
    this.drawing.setAttribute("aria-label", `${kind.title}, ${kind.unit}. Arrow keys move along the time, plus and minus zoom, Escape goes back.`);
    this.element = html(
      "section",
      { class: "plot panel" },
      html("h3", { title: kind.help }, kind.title, html("small", { class: "unit" }, ` ${kind.unit}`), this.when),
      html("div", { class: "legend" }, ...this.keys.map((key) => key.button)),
      this.drawing,
    );
    this.drawing.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(([entry]) => {
      this.width = Math.floor(entry?.contentRect.width ?? 0);
      if (this.u) this.u.setSize({ width: this.width, height: HEIGHT });
      else this.redraw();
    }).observe(this.drawing);
    const sight = new IntersectionObserver(
      (entries) => {
        this.is_in_sight = entries.at(-1)?.isIntersecting ?? false;
        this.redraw();
      },
      { rootMargin: "300px" },
    );
    sight.observe(this.element);
  }

  draw(frame: Frame): void {
    this.frame = frame;
    if (this.kind.optional) {
      const knows = (of: Values | null) => of !== null && this.kind.series.some((series) => series.value(of) !== null);
      this.element.hidden = !knows(frame.whole);
    }
    this.redraw();
  }

  /** Colours have changed. */
  repaint(): void {
    this.u?.redraw(false);
  }

  private redraw(): void {
    const frame = this.frame;
    if (!frame || !this.is_in_sight || this.element.hidden || this.width < 2 * AXIS) return;
    const times = frame.moments.map((moment) => moment.t_ms / 1_000);
    const lines = this.kind.series.map((series) =>
      frame.moments.map(({ values }) => (values ? series.value(values) : null)),
    );
    const data = [times, ...lines] as uPlot.AlignedData;
    this.u ??= this.make(data);
    const { u } = this;
    u.batch(() => {
      u.setData(data, false);
      u.setScale("x", { min: frame.from_ms / 1_000, max: frame.to_ms / 1_000 });
    });
    this.tell();
  }

  private make(data: uPlot.AlignedData): uPlot {
    const { scale, format, formatTick } = this.kind;
    const dim = () => css("--dim");
    const grid = { stroke: () => css("--grid"), width: 1 };
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const options: uPlot.Options = {
      width: this.width,
      height: HEIGHT,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { size: 7 },
        drag: { x: true, y: false, setScale: false, dist: 5 },
        // The selection is of one plot only; the cursor of all of them.
        sync: { key: "time", filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        bind: {
          dblclick: () => () => {
            this.wishes.reset();
            return null;
          },
        },
      },
      scales: {
        x: { time: true, auto: false, range: (_, min, max) => [min, max] },
        y: {
          distr: scale.is_logarithmic ? 3 : 1,
          range: (_, min, max) => scale.range(min, max),
        },
      },
      series: [{}, ...this.kind.series.map((series) => line(series))],
      axes: [
        {
          stroke: dim,
          grid,
          ticks: { show: false },
          font,
          size: 24,
          gap: 4,
          space: 70,
          values: (u, splits) => splits.map((s) => timeLabel(s, u)),
        },
        {
          stroke: dim,
          grid,
          ticks: { show: false },
          font,
          size: AXIS,
          gap: 6,
          splits: (_u, _axis, min, max) => scale.ticks(min, max),
          filter: (_u, splits) => splits,
          values: (_u, splits) => splits.map((value) => (formatTick ?? format)(value)),
        },
      ],
      hooks: {
        draw: [(u) => this.drawEvents(u)],
        setCursor: [() => this.tell()],
        setSelect: [(u) => this.onSelect(u)],
      },
    };
    const made = new uPlot(options, data, this.drawing);
    this.shown.forEach((show, i) => made.setSeries(i + 1, { show }));
    return made;
  }

  private toggle(i: number): void {
    const show = !this.shown[i];
    this.shown[i] = show;
    this.keys[i]?.button.setAttribute("aria-pressed", String(show));
    this.u?.setSeries(i + 1, { show });
  }

  /** The legend: of the moment under the pointer, else of the whole time. */
  private tell(): void {
    const frame = this.frame;
    if (!frame) return;
    const { left, idx } = this.u?.cursor ?? {};
    const is_pointed = left !== undefined && left >= 0 && idx !== null && idx !== undefined;
    const moment = is_pointed ? frame.moments[idx] : undefined;
    const values = moment ? moment.values : frame.whole;
    this.kind.series.forEach((series, i) => {
      const key = this.keys[i];
      if (key) text(key.value, this.kind.format(values ? series.value(values) : null));
    });
    const near = is_pointed && this.u ? this.eventNear(this.u, left) : undefined;
    text(this.when, moment ? ` ${timeOfDay(moment.t_ms)}${near ? ` · ${near.answer.text}` : ""}` : "");
  }

  private eventNear(u: uPlot, left: number): Happened | undefined {
    const distance = (of: Happened) => Math.abs(u.valToPos(of.t_ms / 1_000, "x") - left);
    const near = this.frame?.events.filter((of) => distance(of) <= NEAR_PX) ?? [];
    return near.sort((a, b) => rank(b) - rank(a) || distance(a) - distance(b))[0];
  }

  private drawEvents(u: uPlot): void {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    for (const of of [...(this.frame?.events ?? [])].sort((a, b) => rank(a) - rank(b))) {
      const x = Math.round(u.valToPos(of.t_ms / 1_000, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = css(`--event-${of.answer.severity}`);
      ctx.lineWidth = ratio;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x + 0.5, bbox.top);
      ctx.lineTo(x + 0.5, bbox.top + bbox.height);
      ctx.stroke();
      // Bad ones point down, good ones up, others are square.
      const size = 4 * ratio;
      const tip = { bad: 1, good: -1, note: 0 }[of.answer.severity];
      ctx.beginPath();
      if (tip === 0) ctx.rect(x - size * 0.7, bbox.top - size * 0.7, size * 1.4, size * 1.4);
      else {
        ctx.moveTo(x, bbox.top + tip * size);
        ctx.lineTo(x - size, bbox.top - tip * size);
        ctx.lineTo(x + size, bbox.top - tip * size);
      }
      ctx.fill();
    }
    ctx.restore();
  }

  private onSelect(u: uPlot): void {
    const { left, width } = u.select;
    if (width <= 0) return;
    const [from, to] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.wishes.zoom({ from_ms: from * 1_000, to_ms: to * 1_000 });
  }

  private onKey(event: KeyboardEvent): void {
    const { u, frame } = this;
    if (!u || !frame || event.ctrlKey || event.metaKey || event.altKey) return;
    const count = frame.moments.length;
    const at = u.cursor.idx ?? count;
    const move = (to: number) => {
      const moment = frame.moments[Math.min(Math.max(to, 0), count - 1)];
      if (moment) point(u, u.valToPos(moment.t_ms / 1_000, "x"));
    };
    const zoom = (factor: number) => {
      const middle_ms = frame.moments[at]?.t_ms ?? (frame.from_ms + frame.to_ms) / 2;
      const half_ms = ((frame.to_ms - frame.from_ms) * factor) / 2;
      this.wishes.zoom({ from_ms: middle_ms - half_ms, to_ms: middle_ms + half_ms });
    };
    const actions: Record<string, () => void> = {
      ArrowLeft: () => move(at - (event.shiftKey ? 10 : 1)),
      ArrowRight: () => move(at + (event.shiftKey ? 10 : 1)),
      Home: () => move(0),
      End: () => move(count - 1),
      "+": () => zoom(0.5),
      "-": () => zoom(2),
      Escape: () => {
        point(u, -10);
        this.wishes.reset();
      },
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

/** Puts the cursor of all plots somewhere, or away. What is behind the second parameter is missing in uPlot's types. */
function point(u: uPlot, left: number): void {
  const setCursor: (at: { left: number; top: number }, fires?: boolean, publishes?: boolean) => void = u.setCursor;
  setCursor({ left, top: left < 0 ? left : 10 }, true, true);
}

/** What is bad is in front. */
function rank(of: Happened): number {
  return { note: 0, good: 1, bad: 2 }[of.answer.severity];
}

function line(series: Series): uPlot.Series {
  const made: uPlot.Series = {
    label: series.label,
    stroke: () => css(`--${series.colour}`),
    width: 1.5,
    dash: DASHES[series.colour],
    points: { show: (u, i, from, to) => alone(u.data[i] ?? [], from, to).length > 0, filter: (u, i, show, gaps) => (show ? points(u, i, gaps) : null), size: 3 },
  };
  if (series.filled) made.fill = () => `${css(`--${series.colour}`)}22`;
  return made;
}

/** Values without neighbours, of which a line shows nothing. */
function alone(values: ArrayLike<number | null | undefined>, from: number, to: number): number[] {
  const is_known = (i: number) => values[i] !== null && values[i] !== undefined;
  const found: number[] = [];
  for (let i = from; i <= to; i += 1) if (is_known(i) && !is_known(i - 1) && !is_known(i + 1)) found.push(i);
  return found;
}

function points(u: uPlot, i: number, _gaps: unknown): number[] {
  const values = u.data[i] ?? [];
  return alone(values, 0, values.length - 1);
}

function swatch(colour: Colour): SVGSVGElement {
  const stroke = svg("line", { x1: 0, x2: 22, y1: 4, y2: 4, "stroke-dasharray": DASHES[colour].join(" "), class: `line ${colour}` });
  return svg("svg", { class: "swatch", width: 22, height: 8, "aria-hidden": "true" }, stroke);
}

function timeLabel(s: number, u: uPlot): string {
  const span = (u.scales["x"]?.max ?? 0) - (u.scales["x"]?.min ?? 0);
  const clock = timeOfDay(s * 1_000);
  return span > 600 || s % 60 === 0 ? clock.slice(0, 5) : clock;
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
