// The copies of tables in other clustering orders, and what they get of the reads.

import { html, text } from "./dom";
import { count, perSecond, share } from "./format";
import type { Layout, Layouts as LayoutsSnapshot } from "./snapshot";
import { layoutKey, type Summary, tableKey } from "./summary";
import { type Column, number, Table, words } from "./table";
import type { View } from "./view";

interface Row {
  layout: Layout;
  reads_per_s: number | undefined;
  /** All reads of its table. */
  table_reads_per_s: number | undefined;
}

const COLUMNS: Column<Row>[] = [
  words("Table", ({ layout }) => `${layout.keyspace}.${layout.table}`),
  words("Layout", ({ layout }) => layout.physical, "The table that holds the copy"),
  words("Sorted by", ({ layout }) => layout.clustering.join(", "), "Its clustering columns"),
  words("State", ({ layout }) => (layout.is_read ? "read and written" : "only written"), "Reads begin when a layout is complete"),
  number("Reads", (row) => row.reads_per_s, perSecond),
  number(
    "Of the table’s",
    ({ reads_per_s: own, table_reads_per_s: all }) => (own === undefined || !all ? null : Math.min(1, own / all)),
    share,
    "Share of the table’s reads that went to this layout",
  ),
  number("All reads", ({ layout }) => layout.reads, count, "Since the proxy was started"),
];

export class Layouts {
  private readonly trouble = html("p", { class: "trouble" });
  private readonly table: Table<Row>;

  constructor(
    private readonly element: HTMLElement,
    private readonly heading: HTMLElement,
    view: View,
  ) {
    element.append(this.trouble);
    this.table = new Table(element, COLUMNS, view, { name: "layouts", rows_max: 100 });
  }

  reload(): void {
    this.table.reload();
  }

  draw(layouts: LayoutsSnapshot | null, sum: Summary | null): void {
    this.element.hidden = this.heading.hidden = layouts === null;
    if (!layouts) return;
    const reads = new Map(sum?.layouts.map((of) => [layoutKey(of), of.reads_per_s]));
    const all = new Map(sum?.tables.map((of) => [tableKey(of), of.reads_per_s]));
    const rows = layouts.layouts.map(
      (layout): Row => ({
        layout,
        reads_per_s: sum ? (reads.get(layoutKey(layout)) ?? 0) : undefined,
        table_reads_per_s: all.get(tableKey(layout)),
      }),
    );
    const refused = layouts.lease_held ? [] : ["Writes of these tables are refused: the catalogue cannot be read."];
    text(this.trouble, [...refused, ...layouts.problems].join(" "));
    this.table.draw(rows, rows.length === 0 ? "No table has layouts." : "");
  }
}
