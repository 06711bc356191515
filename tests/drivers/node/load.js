'use strict';
// A small closed loop with the Node.js driver, until standard input ends.

const { parseArgs } = require('node:util');
const cassandra = require('cassandra-driver');

const { values: options } = parseArgs({
  options: {
    name: { type: 'string', default: 'node' },
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '9042' },
  },
});

const TASKS = 8;
const ERRORS_MAX = 3;
const WRITE = 'INSERT INTO load_node.t (k, v) VALUES (?, ?)';
const READ = 'SELECT v FROM load_node.t WHERE k = ?';

const found = { requests: 0, failed: 0, longest_ms: 0, errors: [] };
let isStopped = false;

/** Carries out a request; whether it has been answered as it should. */
async function one(request) {
  const began = performance.now();
  let why = null;
  try {
    why = await request();
  } catch (error) {
    why = `${error.name}: ${error.message}`;
  }
  found.requests++;
  found.longest_ms = Math.max(found.longest_ms, Math.round(performance.now() - began));
  if (why) {
    found.failed++;
    if (found.errors.length < ERRORS_MAX) {
      found.errors.push(why.slice(0, 300));
    }
  }
  return !why;
}

async function task(client, key) {
  for (let value = 1; !isStopped; value++) {
    const written = await one(async () => {
      await client.execute(WRITE, [key, value], { prepare: true });
    });
    if (written) {
      await one(async () => {
        const { v } = (await client.execute(READ, [key], { prepare: true })).first();
        return v === value ? null : `key ${key} is ${v}, not ${value}`;
      });
    }
  }
}

async function main() {
  const client = new cassandra.Client({
    contactPoints: [`${options.host}:${options.port}`],
    localDataCenter: 'datacenter1',
    policies: { retry: new cassandra.policies.retry.FallthroughRetryPolicy() },
    pooling: { coreConnectionsPerHost: { [cassandra.types.distance.local]: 2 } },
  });
  await client.connect();
  await client.execute(
    "CREATE KEYSPACE IF NOT EXISTS load_node WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    [],
    { readTimeout: 30_000 },
  );
  await client.execute('CREATE TABLE IF NOT EXISTS load_node.t (k int PRIMARY KEY, v int)', [], {
    readTimeout: 30_000,
  });
  const tasks = Array.from({ length: TASKS }, (_, key) => task(client, key));
  console.log('running');
  process.stdin.on('end', () => {
    isStopped = true;
  });
  process.stdin.resume();
  await Promise.all(tasks);
  await client.shutdown();
  console.log(JSON.stringify(found));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
