// What every table gets of the load.

import { html, text } from "./dom";
import { count, duration, NONE, perSecond } from "./format";
import { type TableInterval, tableKey } from "./interval";
import type { Frame } from "./plot";
import type { Table } from "./snapshot";

interface Row {
  table: Table;
  now: TableInterval | undefined;
}

interface Column {
  title: string;
  sort: (row: Row) => number | string;
  show: (row: Row) => string;
}

const number = (title: string, value: (row: Row) => number | null | undefined, format: (v: number) => string): Column => ({
  title,
  sort: (row) => -(value(row) ?? -1),
  show: (row) => {
    const v = value(row);
    return v === null || v === undefined ? NONE : format(v);
  },
});

const COLUMNS: Column[] = [
  { title: "Table", sort: ({ table }) => name(table), show: ({ table }) => name(table) },
  number("Reads", (r) => r.now?.reads_per_s, perSecond),
  number("Writes", (r) => r.now?.writes_per_s, perSecond),
  number("Errors", (r) => r.now?.errors_per_s, perSecond),
  number("Mean", (r) => r.now?.traffic.mean_us, duration),
  number("p50", (r) => r.now?.traffic.p50_us, duration),
  number("p99", (r) => r.now?.traffic.p99_us, duration),
  number("p99.9", (r) => r.now?.traffic.p999_us, duration),
  number("All reads", (r) => r.table.reads, count),
  number("All writes", (r) => r.table.writes, count),
  number("All errors", (r) => r.table.errors, count),
];

/** A thousand tables would make the page slow and nobody wiser. */
const ROWS_MAX = 100;

export class Tables {
  private readonly body = html("tbody");
  private readonly heads: HTMLButtonElement[];
  private readonly more = html("p", { class: "hint" });
  /** At first by total, which does not make rows jump about. */
  private sorted: (row: Row) => number | string = ({ table }) => -(table.reads + table.writes);

  constructor(element: HTMLElement, redraw: () => void) {
    this.heads = COLUMNS.map((column) => {
      const button = html("button", { type: "button", title: `Sort by “${column.title}”` }, column.title);
      button.addEventListener("click", () => {
        this.sorted = column.sort;
        for (const head of this.heads) head.classList.toggle("sorted", head === button);
        redraw();
      });
      return button;
    });
    const head = html("tr", {}, ...this.heads.map((button) => html("th", { scope: "col" }, button)));
    element.append(
      html("div", { class: "scroll panel" }, html("table", {}, html("thead", {}, head), this.body)),
      this.more,
    );
  }

  draw(frame: Frame): void {
    const data = frame.shown?.data;
    if (!data) return;
    const rows = data.snapshot.tables
      .map((table): Row => ({ table, now: data.interval.tables.get(tableKey(table)) }))
      .map((row) => ({ row, key: this.sorted(row) }))
      .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : name(a.row.table).localeCompare(name(b.row.table))))
      .map(({ row }) => row);
    const shown = rows.slice(0, ROWS_MAX);
    while (this.body.rows.length > shown.length) this.body.deleteRow(-1);
    shown.forEach((row, i) => {
      const line = this.body.rows[i] ?? this.body.insertRow();
      COLUMNS.forEach((column, c) => text(line.cells[c] ?? line.insertCell(), column.show(row)));
    });
    const left = rows.length - shown.length;
    text(this.more, rows.length === 0 ? "No table has been used yet." : left > 0 ? `${left} more tables are not shown.` : "");
  }
}

function name(table: Table): string {
  return `${table.keyspace}.${table.table}`;
}
