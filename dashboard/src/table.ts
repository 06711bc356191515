// A table that can be sorted and filtered; both are in the page's address.

import { html, plain, text } from "./dom";
import { NONE } from "./format";
import type { View } from "./view";

export interface Column<Row> {
  title: string;
  /** What the words and numbers below mean. */
  help?: string;
  /** Words stand at the left. */
  is_text?: boolean;
  /** Null comes last. */
  sort: (row: Row) => number | string | null;
  show: (row: Row) => string;
  /** What is drawn in place of a text. */
  draw?: (row: Row, cell: HTMLTableCellElement) => void;
}

export interface TableOptions<Row> {
  /** In the page's address. */
  name: string;
  /** Of a filter's field; without it there is none. */
  filter?: string;
  /** What a filter looks for; else the texts of all columns. */
  words?: (row: Row) => string;
  rows_max: number;
}

export function number<Row>(
  title: string,
  value: (row: Row) => number | null | undefined,
  format: (value: number) => string,
  help = "",
): Column<Row> {
  const known = (row: Row) => value(row) ?? null;
  return {
    title,
    help,
    sort: known,
    show: (row) => {
      const v = known(row);
      return v === null ? NONE : format(v);
    },
  };
}

export function words<Row>(title: string, show: (row: Row) => string, help = ""): Column<Row> {
  return { title, help, is_text: true, sort: show, show };
}

export class Table<Row> {
  private readonly body = html("tbody");
  private readonly heads: HTMLTableCellElement[];
  private readonly hint = html("p", { class: "hint" });
  private readonly found = html("small", { class: "found" });
  private rows: Row[] = [];
  private said = "";
  private field: HTMLInputElement | null = null;

  constructor(
    element: HTMLElement,
    private readonly columns: Column<Row>[],
    private readonly view: View,
    private readonly options: TableOptions<Row>,
  ) {
    this.heads = columns.map((column, i) => {
      const button = html("button", { type: "button", title: `${column.help ?? ""}\nSort by this`.trim() }, column.title);
      button.addEventListener("click", () => this.sortBy(i));
      return html("th", { scope: "col", class: column.is_text ? "text" : "" }, button);
    });
    const table = html("table", {}, html("thead", {}, html("tr", {}, ...this.heads)), this.body);
    if (options.filter !== undefined) element.append(this.filterField(options.filter));
    element.append(html("div", { class: "scroll panel", tabindex: "0" }, table), this.hint);
  }

  /** What is sorted and filtered by has changed in the address. */
  reload(): void {
    if (this.field) this.field.value = this.view.get(this.filter_name);
    this.redraw();
  }

  private get filter_name(): string {
    return `${this.options.name}.filter`;
  }

  /** In the order in which they are shown unless somebody sorts them. */
  draw(rows: Row[], said: string): void {
    this.rows = rows;
    this.said = said;
    this.redraw();
  }

  private redraw(): void {
    const wanted = this.view.get(this.filter_name).toLowerCase().split(/\s+/).filter(Boolean);
    const matching = this.rows.filter((row) => {
      const of = this.wordsOf(row).toLowerCase();
      return wanted.every((word) => of.includes(word));
    });
    text(this.found, wanted.length > 0 ? `${matching.length} of ${this.rows.length}` : "");
    const shown = this.sorted(matching).slice(0, this.options.rows_max);
    while (this.body.rows.length > shown.length) this.body.deleteRow(-1);
    shown.forEach((row, i) => {
      const line = this.body.rows[i] ?? this.body.insertRow();
      this.columns.forEach((column, c) => this.fill(line, c, column, row));
    });
    const left = matching.length - shown.length;
    text(this.hint, [left > 0 ? `${left} more are not shown.` : "", this.said].filter(Boolean).join(" "));
  }

  private fill(line: HTMLTableRowElement, at: number, column: Column<Row>, row: Row): void {
    let cell = line.cells[at];
    if (!cell) {
      cell = line.insertCell();
      if (column.is_text) cell.className = "text";
    }
    if (column.draw) return column.draw(row, cell);
    const shows = column.show(row);
    text(cell, shows);
    // Long ones are cut by the page.
    const title = shows.length > 24 ? plain(shows) : "";
    if (cell.title !== title) cell.title = title;
  }

  private wordsOf(row: Row): string {
    return this.options.words?.(row) ?? this.columns.map((column) => column.show(row)).join(" ");
  }

  private sorted(rows: Row[]): Row[] {
    const { at, is_falling } = this.order();
    this.heads.forEach((head, i) => {
      if (i === at) head.setAttribute("aria-sort", is_falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const column = this.columns[at];
    if (!column) return rows;
    const keyed = rows.map((row) => ({ row, key: column.sort(row) }));
    return keyed.sort((a, b) => compare(a.key, b.key, is_falling)).map(({ row }) => row);
  }

  /** Of which column, as the address has it; −1 for none. */
  private order(): { at: number; is_falling: boolean } {
    const wanted = this.view.get(`${this.options.name}.sort`);
    const is_falling = wanted.startsWith("-");
    const id = is_falling ? wanted.slice(1) : wanted;
    return { at: id === "" ? -1 : this.columns.findIndex((column) => idOf(column) === id), is_falling };
  }

  /** First as one most likely wants it, then the other way round, then as it was. */
  private sortBy(i: number): void {
    const column = this.columns[i];
    if (!column) return;
    const { at, is_falling } = this.order();
    const falls_first = !column.is_text;
    const id = idOf(column);
    const next = at !== i ? falls_first : is_falling === falls_first ? !falls_first : null;
    this.view.set(`${this.options.name}.sort`, next === null ? null : `${next ? "-" : ""}${id}`);
    this.redraw();
  }

  private filterField(label: string): HTMLElement {
    const field = html("input", { type: "search", placeholder: label, "aria-label": label, spellcheck: "false" });
    field.value = this.view.get(this.filter_name);
    field.addEventListener("input", () => {
      this.view.set(this.filter_name, field.value);
      this.redraw();
    });
    this.field = field;
    return html("p", { class: "filter" }, field, this.found);
  }
}

/** Null last, whichever way. */
export function compare(a: number | string | null, b: number | string | null, is_falling: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  const rising =
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return is_falling ? -rising : rising;
}

function idOf(column: { title: string }): string {
  return column.title.toLowerCase().replace(/[^a-z0-9]+/g, "_");
}
