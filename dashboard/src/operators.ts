// What operators look for when something is wrong: slow requests, errors, statements, clients. Asked for
// every two seconds, while somebody looks at it, for workers answer for themselves.

import { byId } from "./dom";
import { age, bytes, bytesPerSecond, count, duration, NONE, perSecond, share } from "./format";
import { ask, TokenNeeded } from "./poll";
import { type Column, number, Table, words } from "./table";
import type { View } from "./view";

const ASK_MS = 2_000;
const ROWS_MAX = 50;

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

/** When the latest answers came: they grow older when the next ones come. */
let answered_ms = Date.now();
const ago = (at_unix_ms: number) => age(answered_ms - at_unix_ms);
const statement = (of: { statement: string | null; keyspace: string | null }) =>
  `${of.keyspace === null ? "" : `[${of.keyspace}] `}${of.statement ?? NONE}`;

const STATEMENT_HELP = "Values are shown as ?, and the keyspace in force in brackets";

/** How long ago; the latest first when it is sorted. */
function since<Row>(title: string, at: (of: Row) => number | undefined): Column<Row> {
  return { title, sort: (of) => at(of) ?? null, show: (of) => (at(of) === undefined ? NONE : ago(at(of) ?? 0)) };
}

const SLOW: Column<Slow>[] = [
  words("Statement", statement, STATEMENT_HELP),
  since("Ago", (of) => of.at_unix_ms),
  words("Class", (of) => of.class, "What kind of request it was taken for"),
  number("Took", (of) => of.took_us, duration, "From the client’s request to its answer"),
  number("Queued", (of) => of.queued_us, duration, "In the proxy’s queues of nodes"),
  number("At nodes", (of) => of.at_nodes_us, duration, "From sending to the answer"),
  number("Elsewhere", (of) => of.elsewhere_us, duration, "Waiting for a turn, for a link, for an identical read"),
  words("Slowest node", (of) => of.slowest_node ?? NONE),
  words("Sent, tried", (of) => `${of.node_requests}, ${of.attempts}`, "Requests to nodes, and nodes tried"),
  words("How", (of) => [of.execution, of.hedged ? "hedged" : "", of.error ?? ""].filter(Boolean).join(", "), "How it was carried out; hedged: a second replica was asked as well"),
  words("Client", (of) => of.client ?? NONE),
  words("Role", (of) => of.role ?? NONE),
];

const CODES: Column<Code>[] = [
  words("Error", (of) => of.error),
  number("So far", (of) => of.count, count, "Since the proxy was started"),
  since("Last", (of) => of.last?.at_unix_ms),
  words("Node", (of) => of.last?.node ?? NONE),
  words("Client", (of) => of.last?.client ?? NONE),
  words("Role", (of) => of.last?.role ?? NONE),
  words("Statement", (of) => (of.last ? statement(of.last) : NONE), STATEMENT_HELP),
  words("Message", (of) => of.last?.message ?? NONE, "Those that may quote values are shown only with admin.show_keys"),
];

const COSTS: Column<Cost>[] = [
  words("Statement", statement, STATEMENT_HELP),
  number("Of all time", (of) => of.time_share, share, "Of the time that clients have waited for answers"),
  number("Calls", (of) => of.calls_per_s, perSecond),
  number("Mean", (of) => of.mean_us, duration, "From a client’s request to its answer"),
  number("p99", (of) => of.p99_us, duration, "99 of 100 calls took less"),
  number("At nodes", (of) => of.at_nodes_mean_us, duration, "Mean time at the nodes"),
  number("p99 there", (of) => of.at_nodes_p99_us, duration),
  number("Rows", (of) => of.rows_per_s, perSecond),
  number("Bytes", (of) => of.bytes_per_s, bytesPerSecond),
  number("Errors", (of) => of.errors_per_s, perSecond),
  words("Role", (of) => of.role ?? NONE),
];

const CLIENTS: Column<Client>[] = [
  words("Address", (of) => of.address),
  words("Id", (of) => of.id, "For helenus ctl kill"),
  words("Role", (of) => of.role ?? NONE),
  words("Application", (of) => of.application || NONE, "By its own word"),
  words("Driver", (of) => `${of.driver} ${of.driver_version}`.trim() || NONE, "By its own word"),
  words("Protocol", (of) => `${of.protocol === null ? NONE : `v${of.protocol}`}${of.tls ? ", TLS" : ""}`),
  words("Keyspace", (of) => of.keyspace ?? NONE),
  {
    title: "In flight",
    help: "Requests that it waits for; not read: it does not take its answers",
    sort: (of) => of.in_flight,
    show: (of) => `${count(of.in_flight)}${of.held ? ", not read" : ""}`,
  },
  number("Requests", (of) => of.requests, count, "Since it has connected"),
  number("Received", (of) => of.bytes_in, bytes),
  number("Sent", (of) => of.bytes_out, bytes),
  number("Age", (of) => of.age_s * 1_000, age),
  number("Idle", (of) => of.idle_s * 1_000, age),
];

export class Operators {
  private readonly slow: Table<Slow>;
  private readonly codes: Table<Code>;
  private readonly costs: Table<Cost>;
  private readonly clients: Table<Client>;

  constructor(
    private readonly token: () => string | null,
    private readonly view: View,
  ) {
    const table = <Row>(name: string, columns: Column<Row>[], filter: string) =>
      new Table(byId(name), columns, view, { name, filter, rows_max: ROWS_MAX });
    this.slow = table("slow", SLOW, "Statement, class, node, client, role");
    this.codes = table("errors", CODES, "Error, statement, node, client, role");
    this.costs = table("statements", COSTS, "Statement, role");
    this.clients = table("clients", CLIENTS, "Address, role, application, driver");
  }

  reload(): void {
    for (const table of [this.slow, this.codes, this.costs, this.clients]) table.reload();
  }

  async run(): Promise<never> {
    for (;;) {
      if (!document.hidden && !this.view.is_paused) {
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
    // Paused meanwhile.
    if (this.view.is_paused) return;
    answered_ms = Date.now();
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
