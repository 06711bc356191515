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

/** Neither name may hold this separator, so no two tables share a key. */
export function tableKey(table: { keyspace: string; table: string }): string {
  return `${table.keyspace}\0${table.table}`;
}

/** As that of a table of the layout's name. */
export function layoutKey(layout: { keyspace: string; physical: string }): string {
  return `${layout.keyspace}\0${layout.physical}`;
}
