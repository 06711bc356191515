// The partitions that are asked for most.

import { html, text } from "./dom";
import { bytesPerSecond, NONE, perSecond, share } from "./format";
import type { Frame } from "./plot";
import type { HotPartition } from "./snapshot";

const COLUMNS: [title: string, show: (hot: HotPartition) => string][] = [
  ["Table", (hot) => `${hot.keyspace}.${hot.table}`],
  ["Partition", (hot) => hot.key ?? `token ${hot.token}`],
  ["Role", (hot) => hot.role ?? NONE],
  ["Of all work", (hot) => share(hot.share)],
  ["Reads", (hot) => perSecond(hot.reads_per_s)],
  ["Writes", (hot) => perSecond(hot.writes_per_s)],
  ["Bytes", (hot) => bytesPerSecond(hot.bytes_per_s)],
  ["Spared by sharing", (hot) => share(hot.work_us_per_s > 0 ? Math.min(1, hot.shared_us_per_s / hot.work_us_per_s) : null)],
  ["Read from", (hot) => (hot.spread ? "all replicas" : "its first replica")],
];

export class HotPartitions {
  private readonly body = html("tbody");
  private readonly hint = html("p", { class: "hint" });

  constructor(element: HTMLElement) {
    const head = html("tr", {}, ...COLUMNS.map(([title]) => html("th", { scope: "col" }, title)));
    const table = html("table", {}, html("thead", {}, head), this.body);
    element.append(html("div", { class: "scroll panel" }, table), this.hint);
  }

  draw(frame: Frame): void {
    const data = frame.shown?.data;
    if (!data) return;
    const { keys, keys_shown: shown } = data.snapshot.hot;
    while (this.body.rows.length > keys.length) this.body.deleteRow(-1);
    keys.forEach((hot, i) => {
      const line = this.body.rows[i] ?? this.body.insertRow();
      COLUMNS.forEach(([, show], c) => text(line.cells[c] ?? line.insertCell(), show(hot)));
    });
    const named = shown ? "" : " Partitions are named by their tokens because admin.show_keys is off.";
    text(this.hint, keys.length === 0 ? "No partition has been asked for lately." : `Means of the last ten seconds or so, from one request in 16.${named}`);
  }
}
