// What every table got of the load.

import { count, duration, perSecond } from "./format";
import type { Table as TableSnapshot } from "./snapshot";
import { type TableSummary, tableKey } from "./summary";
import { type Column, number, Table, words } from "./table";
import type { View } from "./view";

interface Row {
  table: TableSnapshot;
  sum: TableSummary | undefined;
}

const name = ({ table }: Row) => `${table.keyspace}.${table.table}`;

const COLUMNS: Column<Row>[] = [
  words("Table", name),
  number("Reads", ({ sum }) => sum?.reads_per_s, perSecond),
  number("Writes", ({ sum }) => sum?.writes_per_s, perSecond),
  number("Errors", ({ sum }) => sum?.errors_per_s, perSecond, "Errors that clients were answered with, per second"),
  number("Mean", ({ sum }) => sum?.mean_us, duration, "From a client’s request to its answer"),
  number("p50", ({ sum }) => sum?.p50_us, duration, "Half of the requests took less"),
  number("p99", ({ sum }) => sum?.p99_us, duration, "99 of 100 requests took less"),
  number("p99.9", ({ sum }) => sum?.p999_us, duration, "999 of 1000 requests took less"),
  number("All reads", ({ table }) => table.reads, count, "Since the proxy was started"),
  number("All writes", ({ table }) => table.writes, count, "Since the proxy was started"),
  number("All errors", ({ table }) => table.errors, count, "Since the proxy was started"),
];

export class Tables {
  private readonly table: Table<Row>;

  constructor(element: HTMLElement, view: View) {
    this.table = new Table(element, COLUMNS, view, { name: "tables", filter: "Table", words: name, rows_max: 100 });
  }

  reload(): void {
    this.table.reload();
  }

  draw(tables: TableSnapshot[], sums: TableSummary[]): void {
    const byName = new Map(sums.map((sum) => [tableKey(sum), sum]));
    const rows = tables.map((table): Row => ({ table, sum: byName.get(tableKey(table)) }));
    // By total, which does not make rows jump about.
    const all = ({ table }: Row) => table.reads + table.writes;
    rows.sort((a, b) => all(b) - all(a) || name(a).localeCompare(name(b)));
    this.table.draw(rows, rows.length === 0 ? "No table has been used yet." : "");
  }
}
