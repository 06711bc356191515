'use strict';
// Kinds of statements, and the answers and errors a driver makes of them.

const assert = require('node:assert');
const { types, errors } = require('cassandra-driver');
const { eventually, rejects } = require('./harness');

const { consistencies, responseErrorCodes } = types;
const prepare = true;

async function textOf({ client, table }, k) {
  return (await client.execute(`SELECT v FROM ${table('plain')} WHERE k = ${k}`)).first().v;
}

module.exports = {
  async simple_statements(c) {
    const { client, table } = c;
    await client.execute(`CREATE TABLE ${table('plain')} (k int PRIMARY KEY, v text, w int)`);
    const insert = `INSERT INTO ${table('plain')} (k, v) VALUES (?, ?)`;
    await client.execute(insert, [1, "it's"], { hints: ['int', 'text'] });
    await client.execute(
      `INSERT INTO ${table('plain')} (k, v) VALUES (:key, :val)`,
      { key: 2, val: 'named' },
      { hints: { key: 'int', val: 'text' } },
    );
    assert.strictEqual(await textOf(c, 1), "it's");
    assert.strictEqual(await textOf(c, 2), 'named');
    assert.strictEqual((await client.execute(`SELECT * FROM ${table('plain')} WHERE k = -1`)).first(), null);
  },

  async prepared_statements({ client, table }) {
    const insert = `INSERT INTO ${table('plain')} (k, v, w) VALUES (?, ?, ?)`;
    const select = `SELECT v, w FROM ${table('plain')} WHERE k = :key`;
    const read = async () => Object.values((await client.execute(select, { key: 10 }, { prepare })).first());
    await client.execute(insert, [10, 'ten', 10], { prepare });
    await client.execute(insert, [10, 'again', types.unset], { prepare });
    assert.deepStrictEqual(await read(), ['again', 10]);
    await client.execute(insert, [10, null, types.unset], { prepare });
    assert.deepStrictEqual(await read(), [null, 10]);
  },

  async prepared_survives_alter({ client, table }) {
    await client.execute(`CREATE TABLE ${table('altered')} (k int PRIMARY KEY, b int)`);
    await client.execute(`INSERT INTO ${table('altered')} (k, b) VALUES (1, 2)`);
    const read = async () =>
      ({ ...(await client.execute(`SELECT * FROM ${table('altered')} WHERE k = ?`, [1], { prepare })).first() });
    assert.deepStrictEqual(await read(), { k: 1, b: 2 });
    await client.execute(`ALTER TABLE ${table('altered')} ADD a text`);
    await client.execute(`UPDATE ${table('altered')} SET a = 'new' WHERE k = 1`);
    for (let n = 0; n < 3; n++) {
      assert.deepStrictEqual(await read(), { k: 1, a: 'new', b: 2 });
    }
  },

  async batches(c) {
    const { client, table } = c;
    const insert = `INSERT INTO ${table('plain')} (k, v) VALUES (?, ?)`;
    for (const [base, logged] of [[100, true], [200, false]]) {
      for (const prepared of [true, false]) {
        const at = base + (prepared ? 0 : 10);
        const queries = [0, 1, 2, 3].map((n) => ({ query: insert, params: [at + n, 'batch'] }));
        await client.batch(queries, {
          prepare: prepared,
          logged,
          hints: prepared ? undefined : queries.map(() => ['int', 'text']),
        });
        assert.strictEqual(await textOf(c, at + 3), 'batch');
      }
    }
    await client.execute(`CREATE TABLE ${table('tally')} (k int PRIMARY KEY, n counter)`);
    const add = `UPDATE ${table('tally')} SET n = n + ? WHERE k = 1`;
    await client.batch([1, 2, 3].map((n) => ({ query: add, params: [n] })), { prepare, counter: true });
    const row = (await client.execute(`SELECT n FROM ${table('tally')} WHERE k = 1`)).first();
    assert.strictEqual(row.n.toString(), '6');
  },

  async lightweight_transactions({ client, table }) {
    const insert = `INSERT INTO ${table('plain')} (k, v, w) VALUES (?, ?, ?) IF NOT EXISTS`;
    const options = { prepare, serialConsistency: consistencies.localSerial };
    assert.strictEqual((await client.execute(insert, [400, 'one', 1], options)).wasApplied(), true);
    const second = await client.execute(insert, [400, 'two', 2], options);
    assert.strictEqual(second.wasApplied(), false);
    assert.strictEqual(second.first().v, 'one');
    const update = `UPDATE ${table('plain')} SET w = 5 WHERE k = 400 IF w = ?`;
    const serial = { prepare, serialConsistency: consistencies.serial };
    assert.strictEqual((await client.execute(update, [9], serial)).wasApplied(), false);
    assert.strictEqual((await client.execute(update, [1], serial)).wasApplied(), true);
    const batch = [{ query: `UPDATE ${table('plain')} SET v = ? WHERE k = 400 IF w = 5`, params: ['cas'] }];
    assert.strictEqual((await client.batch(batch, { prepare })).wasApplied(), true);
    const read = await client.execute(`SELECT v FROM ${table('plain')} WHERE k = 400`, [], {
      consistency: consistencies.serial,
    });
    assert.strictEqual(read.first().v, 'cas');
  },

  async tracing({ client, table }) {
    const result = await client.execute(`SELECT * FROM ${table('plain')} WHERE k = 1`, [], {
      prepare,
      traceQuery: true,
    });
    assert.ok(result.info.traceId, 'no trace id');
    await eventually('the trace', async () => {
      const trace = await client.metadata.getTrace(result.info.traceId, consistencies.one).catch(() => null);
      return trace !== null && trace.events.length > 0 && trace.duration > 0;
    });
  },

  async warnings({ client, table }) {
    const counted = await client.execute(`SELECT count(*) FROM ${table('plain')}`);
    assert.match(String(counted.info.warnings), /Aggregation query used without partition key/);
    const insert = `INSERT INTO ${table('plain')} (k, v) VALUES (?, ?)`;
    const queries = [0, 1, 2, 3, 4, 5].map((n) => ({ query: insert, params: [500 + n, 'w'.repeat(1000)] }));
    const batch = await client.batch(queries, { prepare, logged: false });
    assert.match(String(batch.info.warnings), /exceeding specified threshold/);
  },

  async custom_payload({ client, table }) {
    const result = await client.execute(`SELECT v FROM ${table('plain')} WHERE k = 1`, [], {
      customPayload: { who: Buffer.from('a driver'), empty: Buffer.alloc(0) },
    });
    assert.strictEqual(result.first().v, "it's");
  },

  async keyspaces_of_clients({ client, keyspace, open }) {
    const other = `${keyspace}_two`;
    await client.execute(`DROP KEYSPACE IF EXISTS ${other}`);
    await client.execute(
      `CREATE KEYSPACE ${other} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
    );
    await client.execute(`CREATE TABLE ${other}.plain (k int PRIMARY KEY, v text)`);
    await client.execute(`INSERT INTO ${other}.plain (k, v) VALUES (1, 'of the other')`);
    const first = open();
    const second = open({ keyspace: other });
    const query = 'SELECT v FROM plain WHERE k = ?';
    try {
      const error = await rejects(() => first.execute('SELECT v FROM plain WHERE k = 1'));
      assert.strictEqual(error.code, responseErrorCodes.invalid);
      await first.execute(`USE ${keyspace}`);
      assert.strictEqual(first.keyspace, keyspace);
      for (let n = 0; n < 10; n++) {
        const options = n % 2 ? { prepare } : { hints: ['int'] };
        assert.strictEqual((await first.execute(query, [1], options)).first().v, "it's");
        assert.strictEqual((await second.execute(query, [1], options)).first().v, 'of the other');
      }
    } finally {
      await first.shutdown();
      await second.shutdown();
      await client.execute(`DROP KEYSPACE ${other}`);
    }
  },

  async errors(c) {
    const { client, table, keyspace } = c;
    const code = async (query, options) => {
      const error = await rejects(() => client.execute(query, [], options));
      assert.ok(error instanceof errors.ResponseError, `${error.name}: ${error.message}`);
      return error;
    };
    assert.strictEqual((await code('SELEC * FROM nowhere')).code, responseErrorCodes.syntaxError);
    assert.strictEqual((await code('SELECT FROM', { prepare })).code, responseErrorCodes.syntaxError);
    const invalid = await code(`SELECT nothing FROM ${table('plain')}`);
    assert.strictEqual(invalid.code, responseErrorCodes.invalid);
    assert.match(invalid.message, /Undefined column name nothing/);
    const exists = await code(`CREATE TABLE ${table('plain')} (k int PRIMARY KEY)`);
    assert.deepStrictEqual(
      [exists.code, exists.keyspace, exists.table],
      [responseErrorCodes.alreadyExists, keyspace, 'plain'],
    );
    for (const query of [`SELECT * FROM ${table('plain')} WHERE k = 1`, `INSERT INTO ${table('plain')} (k) VALUES (1)`]) {
      let error = await rejects(() => client.execute(query, [], { consistency: consistencies.three }));
      if (error instanceof errors.NoHostAvailableError) {
        [error] = Object.values(error.innerErrors); // a single host: the retry found no other
      }
      assert.deepStrictEqual(
        [error.code, error.consistencies, error.required, error.alive],
        [responseErrorCodes.unavailableException, consistencies.three, 3, 1],
      );
    }
    assert.strictEqual(await textOf(c, 1), "it's");
  },

  async idempotence(c) {
    for (const isIdempotent of [true, false]) {
      await c.client.execute(`UPDATE ${c.table('plain')} SET v = 'i' WHERE k = 700`, [], { isIdempotent });
    }
    assert.strictEqual(await textOf(c, 700), 'i');
  },
};
