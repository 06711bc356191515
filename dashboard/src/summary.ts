// What /api/summary answers: what nodes, tables and layouts got in the time that is shown.

export interface Summary {
  from_ms: number;
  to_ms: number;
  /** How long its steps have lasted. */
  ms: number;
  nodes: NodeSummary[];
  tables: TableSummary[];
  layouts: LayoutSummary[];
}

/** Null without requests. */
export interface Latency {
  mean_us: number | null;
  p50_us: number | null;
  p99_us: number | null;
  p999_us: number | null;
}

export interface NodeSummary extends Latency {
  address: string;
  /** As in the snapshot: a node that has left and its successor may share an address. */
  number: number;
  /** It has left the cluster since. */
  gone: boolean;
  requests_per_s: number;
  reads_per_s: number;
  errors_per_s: number;
  timeouts_per_s: number;
  bytes_in_per_s: number;
  bytes_out_per_s: number;
  requests_per_frame: number | null;
  /** For how long it had no link, and was ejected. */
  down_s: number;
  ejected_s: number;
  /** Requests per second by part of the time; null where nothing is known. */
  points: (number | null)[];
}

export interface TableSummary extends Latency {
  keyspace: string;
  table: string;
  reads_per_s: number;
  writes_per_s: number;
  errors_per_s: number;
}

export interface LayoutSummary {
  keyspace: string;
  physical: string;
  reads_per_s: number;
}

/** How often it is asked for while there is news. */
const EVERY_MS = 5_000;
/** After a refusal or another mishap. */
const AGAIN_MS = 1_000;
/** A step that shares the end of a time may end so much later. */
const STEP_MS = 11_000;

/** For which time the summary is that is shown, and whether to ask again. */
export class Summaries {
  private of: string | null = null;
  private wanted: string | null = null;
  private due_ms = -Infinity;
  private summary: Summary | null = null;

  /** Of the time that was wanted last; null until it has come, and if nothing is known of that time. */
  get latest(): Summary | null {
    return this.of === this.wanted && this.summary && this.summary.ms > 0 ? this.summary : null;
  }

  /** Whether to ask for a time now. `ends_ms`: when it does; null if it goes on. */
  isDue(time: string, ends_ms: number | null, now_ms: number, monotonic_ms: number): boolean {
    const is_other = this.wanted !== time;
    this.wanted = time;
    if (!is_other && monotonic_ms < this.due_ms) return false;
    // What has been is not asked for again.
    const is_over = ends_ms !== null && now_ms > ends_ms + STEP_MS;
    this.due_ms = is_over ? Infinity : monotonic_ms + EVERY_MS;
    return true;
  }

  /** Answers to what nobody wants any more are dropped. */
  take(time: string, summary: Summary): void {
    if (time !== this.wanted) return;
    this.of = time;
    this.summary = summary;
  }

  fail(time: string, monotonic_ms: number): void {
    if (time === this.wanted) this.due_ms = monotonic_ms + AGAIN_MS;
  }
}

/** Neither name may hold this separator, so no two tables share a key. */
export function tableKey(table: { keyspace: string; table: string }): string {
  return `${table.keyspace}\0${table.table}`;
}

/** As that of a table of the layout's name. */
export function layoutKey(layout: { keyspace: string; physical: string }): string {
  return `${layout.keyspace}\0${layout.physical}`;
}
