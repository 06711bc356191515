// What of the history is shown, and how tables are sorted and filtered. It is in the address behind "#", so that it
// can be passed on; the token never is.

export const WINDOWS: [name: string, ms: number][] = [
  ["1m", 60_000],
  ["5m", 300_000],
  ["15m", 900_000],
  ["1h", 3_600_000],
];
const WINDOW = "5m";

export interface Range {
  from_ms: number;
  to_ms: number;
}

/** Less than that shows nothing. */
const ZOOM_MS_MIN = 3_000;
const ZOOM_MS_MAX = 3_600_000;
/** Further away there is nothing, and a plot would look for it. */
const AWAY_MS_MAX = 30 * 86_400_000;

export class View {
  private values = new URLSearchParams();
  private paused_ms: number | null = null;

  constructor(
    fragment: string,
    /** Hears the new fragment, and whether it is another time, to which one may want to go back. */
    private readonly onChange: (fragment: string, is_other_time: boolean) => void,
    private readonly clock_ms: () => number = Date.now,
  ) {
    this.load(fragment);
  }

  /** Takes what is in the address. */
  load(fragment: string): void {
    this.values = new URLSearchParams(fragment.replace(/^#/, ""));
    // Whatever else somebody has put there: it may be a secret.
    for (const name of [...this.values.keys()]) {
      if (!/^(window|from|to|[a-z]+\.(sort|filter|open))$/.test(name)) this.values.delete(name);
    }
  }

  get window(): string {
    const name = this.values.get("window") ?? "";
    return WINDOWS.some(([known]) => known === name) ? name : WINDOW;
  }

  set window(name: string) {
    this.values.delete("from");
    this.values.delete("to");
    if (name === WINDOW) this.values.delete("window");
    else this.values.set("window", name);
    this.onChange(this.fragment, true);
  }

  get window_ms(): number {
    return WINDOWS.find(([name]) => name === this.window)?.[1] ?? 0;
  }

  /** A time that was chosen by dragging. */
  get zoom(): Range | null {
    const [from_ms, to_ms] = ["from", "to"].map((name) => Number(this.values.get(name) ?? NaN));
    if (from_ms === undefined || to_ms === undefined) return null;
    const isNear = (ms: number) => Number.isSafeInteger(ms) && Math.abs(ms - this.clock_ms()) <= AWAY_MS_MAX;
    if (!isNear(from_ms) || !isNear(to_ms)) return null;
    const length_ms = to_ms - from_ms;
    return length_ms >= ZOOM_MS_MIN && length_ms <= ZOOM_MS_MAX ? { from_ms, to_ms } : null;
  }

  set zoom(range: Range | null) {
    if (range === null) {
      this.values.delete("from");
      this.values.delete("to");
    } else {
      const middle_ms = (range.from_ms + range.to_ms) / 2;
      const wanted_ms = range.to_ms - range.from_ms;
      const half_ms = Math.min(Math.max(wanted_ms, ZOOM_MS_MIN), ZOOM_MS_MAX) / 2;
      this.values.set("from", String(Math.round(middle_ms - half_ms)));
      this.values.set("to", String(Math.round(middle_ms + half_ms)));
    }
    this.onChange(this.fragment, true);
  }

  get is_paused(): boolean {
    return this.paused_ms !== null;
  }

  pause(now_ms: number | null): void {
    this.paused_ms = now_ms;
  }

  range(now_ms: number): Range {
    const to_ms = this.paused_ms ?? now_ms;
    return this.zoom ?? { from_ms: to_ms - this.window_ms, to_ms };
  }

  get(name: string): string {
    return this.values.get(name) ?? "";
  }

  set(name: string, value: string | null): void {
    if (value === null || value === "") this.values.delete(name);
    else this.values.set(name, value);
    this.onChange(this.fragment, false);
  }

  get fragment(): string {
    return this.values.toString();
  }
}
