// What /api/history answers, and what of it the page keeps: the same two rows of steps as the proxy.

export interface HistoryAnswer {
  /** Differs after a restart, when everything begins anew. */
  started_unix_ms: number;
  now_unix_ms: number;
  /** What 0 is in the times of steps and events, by the proxy's clock as it is now. */
  zero_unix_ms: number;
  counters: string[];
  /** Upper bounds of buckets: exclusive of latencies; of queries in a frame, the last of which has none. */
  bounds_us: number[];
  packed_bounds: number[];
  fine?: SeriesAnswer;
  coarse?: SeriesAnswer;
  events?: { next: number; events: EventAnswer[] };
}

export interface SeriesAnswer {
  step_ms: number;
  steps_max: number;
  next: number;
  steps: StepAnswer[];
}

/** Index and value, one after the other; what is missing is 0. */
export type Pairs = number[];

export interface StepAnswer {
  seq: number;
  end_ms: number;
  ms: number;
  counters: Pairs;
  classes: Partial<Record<string, ClassAnswer>>;
  cpu_us: number;
  link_calls: number;
  sent: FramesAnswer;
  received: FramesAnswer;
  gauges: Gauges;
}

export interface ClassAnswer {
  latency: Pairs;
  latency_sum_us: number;
  waits: Pairs;
  waits_sum_us: number;
  dispatched: number;
  aged: number;
  refused: number;
}

export interface FramesAnswer {
  queries: number;
  frames: Pairs;
}

export interface Gauges {
  clients: number;
  links: number;
  nodes: number;
  nodes_up: number;
  /** Without a link that they should have. */
  nodes_down: number;
  nodes_ejected: number;
  /** Down or ejected. */
  nodes_out: number;
  in_flight: number;
  queued: number;
  queued_by_class: number[];
  resident_bytes: number;
  window_us: number;
}

export interface EventAnswer {
  seq: number;
  at_ms: number;
  kind: string;
  severity: Severity;
  text: string;
}

export type Severity = "bad" | "good" | "note";

/** The order of `queued_by_class`. */
export const CLASSES = ["system", "point", "multi", "slice", "write", "lwt", "scan", "other"];

export interface Step {
  /** When it ended, by the proxy's clock. */
  t_ms: number;
  answer: StepAnswer;
  /** What the counters of its run of the proxy are called. */
  names: string[];
  /** Which run of the proxy it is of. */
  started_unix_ms: number;
}

export interface Happened {
  t_ms: number;
  answer: EventAnswer;
  started_unix_ms: number;
}

const FINE_MS = 600_000;
const COARSE_MS = 3_600_000;
const EVENTS_MAX = 1_000;
/** Of one kind, as in the proxy. */
const OF_A_KIND_MAX = 250;
/** A clock that is set by less than this bends nothing that anybody could see. */
const CLOCK_MS = 100;

export class History {
  fine: Step[] = [];
  coarse: Step[] = [];
  events: Happened[] = [];
  bounds_us: number[] = [];
  packed_bounds: number[] = [];
  /** Changes with everything that is taken, for whoever keeps what it has made of it. */
  revision = 0;
  private latest: { answer: HistoryAnswer; received_ms: number } | null = null;
  private next = { fine: 0, coarse: 0, events: 0 };

  /** What to ask for. */
  path(): string {
    const { fine, coarse, events } = this.next;
    return `api/history?fine=${fine}&coarse=${coarse}&events=${events}`;
  }

  /** `monotonic_ms`: a clock of the browser that only goes forward. */
  take(answer: HistoryAnswer, monotonic_ms: number): void {
    const before = this.latest?.answer;
    const is_same_run = before?.started_unix_ms === answer.started_unix_ms;
    if (is_same_run) this.setClock(answer.zero_unix_ms - before.zero_unix_ms, answer.started_unix_ms);
    this.latest = { answer, received_ms: monotonic_ms };
    if (before && !is_same_run) {
      // Its numbers have begun anew, and may have passed those that were asked for: all of it is asked for next.
      this.next = { fine: 0, coarse: 0, events: 0 };
      return;
    }
    const { started_unix_ms, zero_unix_ms, counters: names } = answer;
    const step = (of: StepAnswer): Step => ({ t_ms: zero_unix_ms + of.end_ms, answer: of, names, started_unix_ms });
    // An answer to a question that was asked twice brings what is known already.
    const next = this.next;
    this.fine.push(...(answer.fine?.steps ?? []).filter((of) => of.seq >= next.fine).map(step));
    this.coarse.push(...(answer.coarse?.steps ?? []).filter((of) => of.seq >= next.coarse).map(step));
    const happened = (answer.events?.events ?? []).filter((of) => of.seq >= next.events);
    this.events.push(
      ...happened.map((of) => ({ t_ms: zero_unix_ms + of.at_ms, answer: of, started_unix_ms })),
    );
    this.next = {
      fine: Math.max(next.fine, answer.fine?.next ?? 0),
      coarse: Math.max(next.coarse, answer.coarse?.next ?? 0),
      events: Math.max(next.events, answer.events?.next ?? 0),
    };
    const { bounds_us, packed_bounds } = answer;
    Object.assign(this, { bounds_us, packed_bounds });
    const now_ms = answer.now_unix_ms;
    this.fine = this.fine.filter((of) => of.t_ms > now_ms - FINE_MS);
    this.coarse = this.coarse.filter((of) => of.t_ms > now_ms - COARSE_MS);
    this.events = latest(this.events);
    this.revision += 1;
  }

  /** The proxy's clock; null while nothing is known. */
  now_ms(monotonic_ms: number): number | null {
    return this.latest && this.latest.answer.now_unix_ms + monotonic_ms - this.latest.received_ms;
  }

  get started_unix_ms(): number | null {
    return this.latest?.answer.started_unix_ms ?? null;
  }

  /** By the clock of the present run of the proxy, for questions to it. */
  since_zero_ms(t_ms: number): number {
    return Math.max(0, Math.round(t_ms - (this.latest?.answer.zero_unix_ms ?? 0)));
  }

  /** The steps that end in some time, by what is to be one moment: short ones if there are any so far back, else long
   *  ones, and then all that has come since the last of these. `before`: also the one before, so that lines enter at
   *  the edge. */
  moments(from_ms: number, to_ms: number, before: boolean): Step[][] {
    const first = this.fine[0];
    // A proxy that was just started has nothing older.
    const is_all = this.coarse.length === 0 || (this.coarse[0]?.t_ms ?? 0) >= (first?.t_ms ?? 0);
    const is_fine = first !== undefined && to_ms - from_ms <= FINE_MS && (is_all || begin(first) <= from_ms + 1_500);
    if (is_fine) return within(this.fine, from_ms, to_ms, before).map((of) => [of]);
    const last_ms = this.coarse.at(-1)?.t_ms ?? 0;
    const rest = this.fine.filter((of) => of.t_ms > last_ms && of.t_ms <= to_ms && of.t_ms > from_ms);
    const coarse = within(this.coarse, from_ms, to_ms, before).map((of) => [of]);
    return rest.length > 0 ? [...coarse, rest] : coarse;
  }

  private setClock(by_ms: number, started_unix_ms: number): void {
    if (Math.abs(by_ms) < CLOCK_MS) return;
    for (const of of [...this.fine, ...this.coarse, ...this.events]) {
      if (of.started_unix_ms === started_unix_ms) of.t_ms += by_ms;
    }
  }
}

/** Many of one kind are not to hide what else there was. */
function latest(events: Happened[]): Happened[] {
  const counts = new Map<string, number>();
  const kept = [...events].reverse().filter(({ answer: { kind } }) => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return count <= OF_A_KIND_MAX;
  });
  return kept.slice(0, EVENTS_MAX).reverse();
}

export function begin(step: Step): number {
  return step.t_ms - step.answer.ms;
}

function within(steps: Step[], from_ms: number, to_ms: number, before: boolean): Step[] {
  const first = steps.findIndex((of) => of.t_ms > from_ms);
  if (first < 0) return [];
  return steps.slice(before ? Math.max(0, first - 1) : first).filter((of) => of.t_ms <= to_ms);
}
