// What steps come to: rates per second and percentiles of one step, or of any number of them.

import type { ClassAnswer, FramesAnswer, Gauges, Pairs, Step } from "./history";
import { CLASSES } from "./history";

/** Requests of one kind. Latencies are null if there were none. */
export interface Traffic {
  per_s: number;
  mean_us: number | null;
  p50_us: number | null;
  p99_us: number | null;
  p999_us: number | null;
}

/** Queries in one frame. Null if there were none. */
export interface Together {
  mean: number | null;
  p99: number | null;
}

export class Values {
  readonly seconds: number;
  private readonly made = new Map<string, Traffic>();

  /** At least one step, in the order of time. */
  constructor(
    private readonly steps: Step[],
    private readonly bounds_us: number[],
    private readonly packed_bounds: number[],
  ) {
    this.seconds = steps.reduce((sum, of) => sum + of.answer.ms, 0) / 1_000;
  }

  /** A counter of `totals`, per second. */
  rate(name: string): number {
    return this.per_s(this.count(name));
  }

  /** How often it was counted. */
  count(name: string): number {
    return this.sum((of) => pair(of.answer.counters, of.names.indexOf(name)));
  }

  latency(name: string): Traffic {
    return this.traffic(`latency ${name}`, name, (of) => [of.latency, of.latency_sum_us]);
  }

  /** How long requests waited for a node, of those that did. */
  waits(name: string): Traffic {
    return this.traffic(`waits ${name}`, name, (of) => [of.waits, of.waits_sum_us]);
  }

  /** How long one in a hundred of all requests of these classes waited for a node, or longer; null without requests. */
  waitP99(names: string[]): number | null {
    const counts: number[] = [];
    for (const step of this.steps) for (const name of names) add(counts, step.answer.classes[name]?.waits ?? []);
    const waited = counts.reduce((sum, n) => sum + (n ?? 0), 0);
    const all = Math.max(waited, this.per_s_of(...names) * this.seconds);
    if (all === 0) return null;
    // Most do not wait at all.
    const below = waited - 0.01 * all;
    return below <= 0 ? 0 : percentile(counts, waited, this.bounds_us, below / waited);
  }

  /** Of all schedules; null if there were no such requests. */
  scheduled(name: string, counter: "dispatched" | "aged" | "refused"): number {
    return this.per_s(this.sum((of) => of.answer.classes[name]?.[counter] ?? 0));
  }

  per_s_of(...names: string[]): number {
    return names.reduce((sum, name) => sum + this.latency(name).per_s, 0);
  }

  get reads_per_s(): number {
    return this.per_s_of("point", "multi", "slice", "scan");
  }

  get writes_per_s(): number {
    return this.per_s_of("write", "lwt");
  }

  get all_per_s(): number {
    return this.per_s_of(...CLASSES);
  }

  /** 1 is one core. */
  get cpu_cores(): number {
    return this.per_s(this.sum((of) => of.answer.cpu_us)) / 1e6;
  }

  /** System calls of the proxy for one query: reads, writes and waits for sockets. */
  get calls_per_query(): number | null {
    const own = ["client_reads", "client_writes", "worker_sleeps"];
    const calls = own.reduce((sum, name) => sum + this.count(name), 0) + this.sum((of) => of.answer.link_calls);
    const queries = this.all_per_s * this.seconds;
    return queries > 0 ? calls / queries : null;
  }

  get sent(): Together {
    return this.together((of) => of.answer.sent);
  }

  get received(): Together {
    return this.together((of) => of.answer.received);
  }

  /** As things stood at the end. */
  get latest(): Gauges {
    const last = this.steps.at(-1);
    if (!last) throw new Error("there is no step");
    return last.answer.gauges;
  }

  /** The most that there was. */
  most(of: (gauges: Gauges) => number): number {
    return this.steps.reduce((most, step) => Math.max(most, of(step.answer.gauges)), 0);
  }

  private per_s(count: number): number {
    return this.seconds > 0 ? count / this.seconds : 0;
  }

  private sum(of: (step: Step) => number): number {
    return this.steps.reduce((sum, step) => sum + of(step), 0);
  }

  private traffic(key: string, name: string, of: (answer: ClassAnswer) => [Pairs, number]): Traffic {
    const known = this.made.get(key);
    if (known) return known;
    const counts: number[] = [];
    let sum_us = 0;
    for (const step of this.steps) {
      const answer = step.answer.classes[name];
      if (!answer) continue;
      const [pairs, step_sum_us] = of(answer);
      add(counts, pairs);
      sum_us += step_sum_us;
    }
    const count = counts.reduce((sum, n) => sum + (n ?? 0), 0);
    const at = (share: number) => (count === 0 ? null : percentile(counts, count, this.bounds_us, share));
    const made = {
      per_s: this.per_s(count),
      mean_us: count === 0 ? null : sum_us / count,
      p50_us: at(0.5),
      p99_us: at(0.99),
      p999_us: at(0.999),
    };
    this.made.set(key, made);
    return made;
  }

  private together(of: (step: Step) => FramesAnswer): Together {
    const frames: number[] = [];
    for (const step of this.steps) add(frames, of(step).frames);
    const queries = this.sum((step) => of(step).queries);
    const total = frames.reduce((sum, n) => sum + (n ?? 0), 0);
    if (total === 0) return { mean: null, p99: null };
    let below = 0;
    const index = frames.findIndex((n) => (below += n ?? 0) >= 0.99 * total);
    return { mean: queries / total, p99: this.packed_bounds[index] ?? this.packed_bounds.at(-1) ?? null };
  }
}

function pair(pairs: Pairs, index: number): number {
  for (let at = 0; at < pairs.length; at += 2) if (pairs[at] === index) return pairs[at + 1] ?? 0;
  return 0;
}

function add(to: number[], pairs: Pairs): void {
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    const index = pairs[at] ?? 0;
    to[index] = (to[index] ?? 0) + (pairs[at + 1] ?? 0);
  }
}

/** Values are taken to be spread evenly within their bucket, which is about 12 % wide. */
export function percentile(counts: number[], count: number, bounds: number[], share: number): number {
  let wanted = share * count;
  for (let index = 0; index < counts.length; index += 1) {
    const n = counts[index] ?? 0;
    if (n > 0 && wanted <= n) {
      const low = index === 0 ? 0 : (bounds[index - 1] ?? 0);
      const high = bounds[index] ?? low;
      return low + ((high - low) * wanted) / n;
    }
    wanted -= n;
  }
  return bounds[counts.length - 1] ?? 0;
}
