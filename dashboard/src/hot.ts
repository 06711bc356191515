// The partitions that are asked for most.

import { bytesPerSecond, NONE, perSecond, share } from "./format";
import type { Hot, HotPartition } from "./snapshot";
import { type Column, number, Table, words } from "./table";
import type { View } from "./view";

const COLUMNS: Column<HotPartition>[] = [
  words("Table", (hot) => `${hot.keyspace}.${hot.table}`),
  words("Partition", (hot) => hot.key ?? `token ${hot.token}`),
  words("Role", (hot) => hot.role ?? NONE),
  number("Of all work", (hot) => hot.share, share, "Of the predicted work of all requests: at least this share"),
  number("Reads", (hot) => hot.reads_per_s, perSecond),
  number("Writes", (hot) => hot.writes_per_s, perSecond),
  number("Bytes", (hot) => hot.bytes_per_s, bytesPerSecond),
  number(
    "Spared by sharing",
    (hot) => (hot.work_us_per_s > 0 ? Math.min(1, hot.shared_us_per_s / hot.work_us_per_s) : null),
    share,
    "Work that identical reads have spared the nodes by sharing an answer",
  ),
  words("Read from", (hot) => (hot.spread ? "all replicas" : "its first replica"), "Reads of hot partitions go to all of their replicas"),
];

export class HotPartitions {
  private readonly table: Table<HotPartition>;

  constructor(element: HTMLElement, view: View) {
    this.table = new Table(element, COLUMNS, view, { name: "hot", rows_max: 100 });
  }

  reload(): void {
    this.table.reload();
  }

  draw({ keys, keys_shown: shown }: Hot): void {
    const named = shown ? "" : " Partitions are named by their tokens because admin.show_keys is off.";
    const known = `Means of the last ten seconds or so, from one request in 16.${named}`;
    this.table.draw(keys, keys.length === 0 ? "No partition has been asked for lately." : known);
  }
}
