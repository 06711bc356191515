'use strict';
// Paging, sizes, concurrency and protocol versions. This driver speaks at most version 4 and never compresses.

const assert = require('node:assert');
const crypto = require('node:crypto');
const { concurrent } = require('cassandra-driver');
const { rejects } = require('./harness');

const ROWS = 1100;
const PAGE = 97;
const prepare = true;

async function subset({ open, keyspace }, maxVersion) {
  const client = open({ keyspace, protocolOptions: { maxVersion } });
  try {
    await client.connect();
    assert.strictEqual(client.controlConnection.protocolVersion, maxVersion);
    const table = `short_${maxVersion}`;
    await client.execute(`CREATE TABLE ${table} (k int PRIMARY KEY, v text)`);
    const insert = `INSERT INTO ${table} (k, v) VALUES (?, ?)`;
    await Promise.all(Array.from({ length: 40 }, (_, n) => client.execute(insert, [n, 'v'.repeat(n)], { prepare })));
    await client.batch([{ query: insert, params: [40, 'b'] }], { prepare });
    const rows = [];
    for await (const row of await client.execute(`SELECT k FROM ${table}`, [], { fetchSize: 10 })) {
      rows.push(row.k);
    }
    assert.strictEqual(new Set(rows).size, 41);
    await client.execute(insert, [99, 'z'.repeat(200_000)], { prepare });
    const row = (await client.execute(`SELECT v FROM ${table} WHERE k = 99`)).first();
    assert.strictEqual(row.v.length, 200_000);
    await rejects(() => client.execute('SELECT * FROM nowhere'));
  } finally {
    await client.shutdown();
  }
}

module.exports = {
  async paging({ client, table }) {
    await client.execute(`CREATE TABLE ${table('paged')} (p int, c int, v text, PRIMARY KEY (p, c))`);
    const rows = Array.from({ length: ROWS }, (_, n) => [n % 7, n, `row ${n}`]);
    await concurrent.executeConcurrent(client, `INSERT INTO ${table('paged')} (p, c, v) VALUES (?, ?, ?)`, rows);
    const found = new Set();
    let count = 0;
    for await (const row of await client.execute(`SELECT c FROM ${table('paged')}`, [], { fetchSize: PAGE })) {
      found.add(row.c);
      count++;
    }
    assert.deepStrictEqual([count, found.size], [ROWS, ROWS]);
    let streamed = 0;
    for await (const row of client.stream(`SELECT c FROM ${table('paged')} WHERE p = 3`, [], {
      prepare,
      fetchSize: PAGE,
      autoPage: true,
    })) {
      assert.strictEqual(row.c, 3 + 7 * streamed);
      streamed++;
    }
    assert.strictEqual(streamed, Math.ceil((ROWS - 3) / 7));
  },

  async paging_resumes_elsewhere({ client, table, open }) {
    const found = new Set();
    let count = 0;
    let pages = 0;
    let pageState;
    do {
      const one = pages < 3 ? open() : client;
      const result = await one.execute(`SELECT c FROM ${table('paged')}`, [], {
        prepare,
        fetchSize: PAGE,
        pageState,
      });
      assert.ok(result.rowLength <= PAGE, `page of ${result.rowLength} rows`);
      result.rows.forEach((row) => found.add(row.c));
      count += result.rowLength;
      pageState = result.pageState;
      pages++;
      if (one !== client) {
        await one.shutdown();
      }
    } while (pageState);
    assert.deepStrictEqual([count, found.size], [ROWS, ROWS]);
  },

  async five_hundred_at_once({ client, table }) {
    const select = `SELECT v FROM ${table('paged')} WHERE p = ? AND c = ?`;
    const results = await Promise.all(
      Array.from({ length: 500 }, (_, n) => client.execute(select, [n % 7, n], { prepare })),
    );
    results.forEach((result, n) => assert.strictEqual(result.first().v, `row ${n}`));
  },

  async large_values({ client, table }) {
    await client.execute(`CREATE TABLE ${table('large')} (k int PRIMARY KEY, v blob)`);
    for (const [k, size] of [131_000, 131_071, 131_072, 300_000, 1 << 20].entries()) {
      const value = crypto.createHash('shake256', { outputLength: size }).update(String(k)).digest();
      await client.execute(`INSERT INTO ${table('large')} (k, v) VALUES (?, ?)`, [k, value], { prepare });
      const row = (await client.execute(`SELECT v FROM ${table('large')} WHERE k = ?`, [k], { prepare })).first();
      assert.ok(row.v.equals(value), `${size} bytes came back otherwise`);
    }
  },

  protocol_v3: (context) => subset(context, 3),
  protocol_v4: (context) => subset(context, 4),
};
