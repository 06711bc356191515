// The copies of tables in other clustering orders, and what they get of the reads.

import { html, text } from "./dom";
import { count, NONE, perSecond, share } from "./format";
import { layoutKey, tableKey } from "./interval";
import type { Frame } from "./plot";
import type { Layout } from "./snapshot";

interface Row {
  layout: Layout;
  reads_per_s: number | undefined;
  /** All reads of its table. */
  table_reads_per_s: number | undefined;
}

const COLUMNS: [title: string, show: (row: Row) => string][] = [
  ["Table", ({ layout }) => `${layout.keyspace}.${layout.table}`],
  ["Layout", ({ layout }) => layout.physical],
  ["Sorted by", ({ layout }) => layout.clustering.join(", ")],
  ["State", ({ layout }) => (layout.is_read ? "read and written" : "only written")],
  ["Reads", (row) => perSecond(row.reads_per_s)],
  ["Of the table’s", (row) => part(row)],
  ["All reads", ({ layout }) => count(layout.reads)],
];

const ROWS_MAX = 100;

function part({ reads_per_s: own, table_reads_per_s: all }: Row): string {
  return own === undefined || !all ? NONE : share(Math.min(1, own / all));
}

export class Layouts {
  private readonly body = html("tbody");
  private readonly trouble = html("p", { class: "trouble" });
  private readonly hint = html("p", { class: "hint" });

  constructor(
    private readonly element: HTMLElement,
    private readonly heading: HTMLElement,
  ) {
    const head = html("tr", {}, ...COLUMNS.map(([title]) => html("th", { scope: "col" }, title)));
    const table = html("table", {}, html("thead", {}, head), this.body);
    element.append(this.trouble, html("div", { class: "scroll panel" }, table), this.hint);
  }

  draw(frame: Frame): void {
    const data = frame.shown?.data;
    if (!data) return;
    const layouts = data.snapshot.layouts;
    this.element.hidden = this.heading.hidden = layouts === null;
    if (!layouts) return;
    const rows = layouts.layouts.slice(0, ROWS_MAX).map(
      (layout): Row => ({
        layout,
        reads_per_s: data.interval.layouts.get(layoutKey(layout)),
        table_reads_per_s: data.interval.tables.get(tableKey(layout))?.reads_per_s,
      }),
    );
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((row, i) => {
      const line = this.body.rows[i] ?? this.body.insertRow();
      COLUMNS.forEach(([, show], c) => text(line.cells[c] ?? line.insertCell(), show(row)));
    });
    const refused = layouts.lease_held ? [] : ["Writes are refused: the catalogue of layouts cannot be read."];
    text(this.trouble, [...refused, ...layouts.problems].join(" "));
    const left = layouts.layouts.length - rows.length;
    text(this.hint, rows.length === 0 ? "No table has layouts." : left > 0 ? `${left} more layouts are not shown.` : "");
  }
}
