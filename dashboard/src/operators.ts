// What operators look for when something is wrong: slow requests, errors, statements, clients. Asked for
// every two seconds while somebody looks at it, for workers answer for themselves.

import { byId, html, text } from "./dom";
import { age, bytes, bytesPerSecond, count, duration, NONE, perSecond, share } from "./format";
import { ask, TokenNeeded } from "./poll";

const ASK_MS = 2_000;
const ROWS_MAX = 20;

/** What was asked, and by whom. */
interface Asked {
  statement: string | null;
  keyspace: string | null;
  role: string | null;
  client: string | null;
  opcode: string;
}

interface Slow extends Asked {
  at_unix_ms: number;
  class: string;
  execution: string;
  took_us: number;
  queued_us: number;
  at_nodes_us: number;
  elsewhere_us: number | null;
  slowest_node: string | null;
  node_requests: number;
  attempts: number;
  hedged: boolean;
  error: string | null;
}

interface Failure extends Asked {
  at_unix_ms: number;
  error: string;
  message: string | null;
  node: string | null;
}

interface Code {
  error: string;
  count: number;
  last: Failure | null;
}

interface Cost {
  statement: string | null;
  keyspace: string | null;
  role: string | null;
  calls_per_s: number;
  rows_per_s: number;
  bytes_per_s: number;
  errors_per_s: number;
  time_share: number;
  mean_us: number | null;
  p99_us: number | null;
  at_nodes_mean_us: number | null;
  at_nodes_p99_us: number | null;
}

interface Client {
  id: string;
  address: string;
  role: string | null;
  driver: string;
  driver_version: string;
  application: string;
  protocol: number | null;
  tls: boolean;
  keyspace: string | null;
  in_flight: number;
  requests: number;
  bytes_in: number;
  bytes_out: number;
  age_s: number;
  idle_s: number;
  held: boolean;
}

interface Answers {
  silent_workers: number;
}

type Column<Row> = [title: string, show: (row: Row) => string];

const ago = (at_unix_ms: number) => age(Date.now() - at_unix_ms);
const statement = (of: { statement: string | null; keyspace: string | null }) =>
  `${of.keyspace === null ? "" : `[${of.keyspace}] `}${of.statement ?? NONE}`;

const SLOW: Column<Slow>[] = [
  ["Statement", statement],
  ["Ago", (of) => ago(of.at_unix_ms)],
  ["Class", (of) => of.class],
  ["Took", (of) => duration(of.took_us)],
  ["Queued", (of) => duration(of.queued_us)],
  ["At nodes", (of) => duration(of.at_nodes_us)],
  ["Elsewhere", (of) => duration(of.elsewhere_us)],
  ["Slowest node", (of) => of.slowest_node ?? NONE],
  ["Sent, tried", (of) => `${of.node_requests}, ${of.attempts}`],
  ["How", (of) => [of.execution, of.hedged ? "hedged" : "", of.error ?? ""].filter(Boolean).join(", ")],
  ["Client", (of) => of.client ?? NONE],
  ["Role", (of) => of.role ?? NONE],
];

const CODES: Column<Code>[] = [
  ["Error", (of) => of.error],
  ["So far", (of) => count(of.count)],
  ["Last", (of) => (of.last ? `${ago(of.last.at_unix_ms)} ago` : NONE)],
  ["Node", (of) => of.last?.node ?? NONE],
  ["Client", (of) => of.last?.client ?? NONE],
  ["Role", (of) => of.last?.role ?? NONE],
  ["Statement", (of) => (of.last ? statement(of.last) : NONE)],
  ["Message", (of) => of.last?.message ?? NONE],
];

const COSTS: Column<Cost>[] = [
  ["Statement", statement],
  ["Of all time", (of) => share(of.time_share)],
  ["Calls", (of) => perSecond(of.calls_per_s)],
  ["Mean", (of) => duration(of.mean_us)],
  ["p99", (of) => duration(of.p99_us)],
  ["At nodes", (of) => duration(of.at_nodes_mean_us)],
  ["p99 there", (of) => duration(of.at_nodes_p99_us)],
  ["Rows", (of) => perSecond(of.rows_per_s)],
  ["Bytes", (of) => bytesPerSecond(of.bytes_per_s)],
  ["Errors", (of) => perSecond(of.errors_per_s)],
  ["Role", (of) => of.role ?? NONE],
];

const CLIENTS: Column<Client>[] = [
  ["Address", (of) => of.address],
  ["Id", (of) => of.id],
  ["Role", (of) => of.role ?? NONE],
  ["Application", (of) => of.application || NONE],
  ["Driver", (of) => `${of.driver} ${of.driver_version}`.trim() || NONE],
  ["Protocol", (of) => `${of.protocol === null ? NONE : `v${of.protocol}`}${of.tls ? ", TLS" : ""}`],
  ["Keyspace", (of) => of.keyspace ?? NONE],
  ["In flight", (of) => `${count(of.in_flight)}${of.held ? ", not read" : ""}`],
  ["Requests", (of) => count(of.requests)],
  ["Received", (of) => bytes(of.bytes_in)],
  ["Sent", (of) => bytes(of.bytes_out)],
  ["Age", (of) => age(of.age_s * 1_000)],
  ["Idle", (of) => age(of.idle_s * 1_000)],
];

/** One table, which keeps its rows. */
class Rows<Row> {
  private readonly body = html("tbody");
  private readonly hint = html("p", { class: "hint" });

  constructor(
    element: HTMLElement,
    private readonly columns: Column<Row>[],
  ) {
    const head = html("tr", {}, ...columns.map(([title]) => html("th", { scope: "col" }, title)));
    const table = html("table", {}, html("thead", {}, head), this.body);
    element.append(html("div", { class: "scroll panel" }, table), this.hint);
  }

  draw(rows: Row[], hint: string): void {
    const shown = rows.slice(0, ROWS_MAX);
    while (this.body.rows.length > shown.length) this.body.deleteRow(-1);
    shown.forEach((row, i) => {
      const line = this.body.rows[i] ?? this.body.insertRow();
      this.columns.forEach(([, show], c) => {
        const cell = line.cells[c] ?? line.insertCell();
        const shows = show(row);
        text(cell, shows);
        // Long ones are cut by the page.
        if (cell.title !== shows) cell.title = shows;
      });
    });
    text(this.hint, hint);
  }
}

export class Operators {
  private readonly slow = new Rows(byId("slow"), SLOW);
  private readonly codes = new Rows(byId("errors"), CODES);
  private readonly costs = new Rows(byId("statements"), COSTS);
  private readonly clients = new Rows(byId("clients"), CLIENTS);

  constructor(private readonly token: () => string | null) {}

  async run(): Promise<never> {
    for (;;) {
      if (!document.hidden) {
        // The banner tells of a proxy that does not answer; a token is asked for there as well.
        await this.tick().catch((error: unknown) => {
          if (!(error instanceof TokenNeeded)) console.warn(error);
        });
      }
      await new Promise((wake) => setTimeout(wake, ASK_MS));
    }
  }

  private async tick(): Promise<void> {
    const get = <T>(path: string) => ask<T & Answers>(path, this.token());
    const [slow, errors, costs, clients] = await Promise.all([
      get<{ slow: Slow[]; slow_ms: number; slow_scan_ms: number; left_out: number }>(`api/slow?limit=${ROWS_MAX}`),
      get<{ by_code: Code[] }>(`api/errors?limit=1`),
      get<{ statements: Cost[] }>(`api/statements?limit=${ROWS_MAX}`),
      get<{ clients: Client[]; all: number }>(`api/clients?limit=${ROWS_MAX}`),
    ]);
    const limit = (ms: number) => (ms === 0 ? "never" : `from ${duration(ms * 1_000)} on`);
    const more = slow.left_out > 0 ? ` ${count(slow.left_out)} were too many at a time to be described.` : "";
    this.slow.draw(slow.slow, `The latest first; slow: ${limit(slow.slow_ms)}, scans ${limit(slow.slow_scan_ms)}.${more}${silent(slow)}`);
    this.codes.draw(
      errors.by_code.sort((a, b) => (b.last?.at_unix_ms ?? 0) - (a.last?.at_unix_ms ?? 0)),
      `${errors.by_code.length === 0 ? "No client has been answered with an error yet." : "Since the proxy was started, with the last of each."}${silent(errors)}`,
    );
    this.costs.draw(costs.statements, `Means of the last minutes, from one answer in 16; what takes clients the most time comes first.${silent(costs)}`);
    const others = clients.all - Math.min(clients.all, ROWS_MAX);
    this.clients.draw(
      clients.clients,
      `Those with the most in flight come first.${others > 0 ? ` ${count(others)} more: helenus ctl show clients.` : ""}${silent(clients)}`,
    );
  }
}

function silent(of: Answers): string {
  return of.silent_workers > 0 ? ` ${of.silent_workers} workers have not answered.` : "";
}
