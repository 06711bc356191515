// What /api/snapshot answers. Counters are cumulative since the start of the proxy.

export interface Snapshot {
  version: string;
  /** Differs after a restart, when all counters begin anew. */
  started_unix_ms: number;
  now_unix_ms: number;
  cluster: string;
  protocol: number;
  local_dc: string;
  epoch: number;
  ready: boolean;
  ready_reason: string | null;
  clients: number;
  clients_max: number;
  prepared: number;
  resident_bytes: number | null;
  cpu_seconds: number | null;
  /** How long links wait for further queries before they send. */
  window_us: number;
  totals: Counters;
  /** Upper bounds of the buckets of `Packed`; the last bucket has none. */
  packed_bounds: number[];
  /** Exclusive upper bounds of the buckets of all histograms. */
  bounds_us: number[];
  classes: Class[];
  nodes: Node[];
  tables: Table[];
  hot: Hot;
  /** Null if the proxy does not use layouts. */
  layouts: Layouts | null;
}

export interface Class {
  class: string;
  latency: Histogram;
  /** What follows is about the schedules of all nodes; of scans it counts pieces. */
  queued: number;
  dispatched: number;
  aged: number;
  refused: number;
  /** Of those that waited. */
  waits: Histogram;
}

export type Counters = Partial<Record<string, number>>;

export interface Histogram {
  count: number;
  sum_us: number;
  /** Index and count of the buckets that are not empty. */
  buckets: [number, number][];
}

export interface Node {
  address: string;
  /** Its place in the list, for as long as the proxy runs. */
  number: number;
  dc: string;
  rack: string;
  release_version: string;
  state: "up" | "down" | "unused" | "gone";
  links_up: number;
  in_flight: number;
  queued: number;
  /** In use, and in force. */
  scan_slots_taken: number;
  scan_slots: number;
  /** Predicted finish of a request of a millisecond of work, and how much longer answers take than predicted. */
  score_us: number;
  slowdown: number;
  failures: number;
  outstanding_us: number;
  /** Workers that have ejected it. */
  ejected: number;
  /** Requests in flight that the schedule allows a worker. */
  window: number;
  /** Null if nodes are not asked for reports. */
  report: Report | null;
  counters: Counters;
  latency: Histogram;
  packed_out: Packed;
  packed_in: Packed;
}

/** What a node's agent reports. */
export interface Report {
  connected: boolean;
  received: number;
  rejected: number;
  /** Workers to whom the last one contradicts what they see. */
  contradicted: number;
  /** Null if there was none. */
  age_ms: number | null;
  memory: number | null;
  resources: Resources | null;
}

/** Shares from 0 to 1; null where they cannot be measured. */
export interface Resources {
  cpu: number | null;
  disk: number | null;
  read_pending: number;
  compactions_pending: number;
}

/** Frames by the queries they carried. */
export interface Packed {
  queries: number;
  frames: number[];
}

export interface Table {
  keyspace: string;
  table: string;
  reads: number;
  writes: number;
  errors: number;
  latency: Histogram;
}

/** The partitions that are asked for most; rates are means of the last ten seconds or so. */
export interface Hot {
  keys_shown: boolean;
  keys: HotPartition[];
}

export interface HotPartition {
  keyspace: string;
  table: string;
  /** Null where it cannot be told. */
  role: string | null;
  token: string;
  /** Null unless keys are shown. */
  key: string | null;
  /** Of all predicted work: at least this. */
  share: number;
  work_us_per_s: number;
  shared_us_per_s: number;
  reads_per_s: number;
  writes_per_s: number;
  bytes_per_s: number;
  /** Its reads go to all of its replicas. */
  spread: boolean;
}

export interface Layouts {
  /** If not, writes are refused: what is known of the catalogue is too old. */
  lease_held: boolean;
  /** What is wrong, as sentences. */
  problems: string[];
  layouts: Layout[];
}

/** A copy of a table in another clustering order. */
export interface Layout {
  keyspace: string;
  table: string;
  physical: string;
  clustering: string[];
  is_read: boolean;
  reads: number;
}
