'use strict';
// The common script with the Node.js driver.

const { parseArgs } = require('node:util');
const cassandra = require('cassandra-driver');
const { runAll } = require('./harness');

const { values: options } = parseArgs({
  options: {
    name: { type: 'string', default: 'node' },
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '9042' },
    'expect-nodes': { type: 'string', default: '0' },
    direct: { type: 'string' },
  },
});

const keyspace = `conf_${options.name.replaceAll('-', '_')}`;
const here = `${options.host}:${options.port}`;

function open(more = {}, contactPoint = here) {
  return new cassandra.Client({
    contactPoints: [contactPoint],
    localDataCenter: 'datacenter1',
    ...more,
  });
}

const context = {
  keyspace,
  expectNodes: Number(options['expect-nodes']),
  client: open(),
  open,
  /** A client behind the proxy, if the caller named the cluster itself. */
  openDirect: () => open({}, options.direct ?? here),
  table: (name) => `${keyspace}.${name}`,
};

async function connect({ client }) {
  await client.connect();
  await client.execute(`DROP KEYSPACE IF EXISTS ${keyspace}`, [], { readTimeout: 30_000 });
  await client.execute(
    `CREATE KEYSPACE ${keyspace} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
    [],
    { readTimeout: 30_000 },
  );
}

async function main() {
  let failed = await runAll(options.name, [['connect', connect]], context);
  if (failed === 0) {
    const checks = ['./metadata', './values', './statements', './transport'].flatMap((file) =>
      Object.entries(require(file)),
    );
    failed = await runAll(options.name, checks, context);
    await context.client.execute(`DROP KEYSPACE ${keyspace}`);
  }
  await context.client.shutdown();
  process.exit(failed === 0 ? 0 : 1);
}

main();
