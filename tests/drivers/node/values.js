'use strict';
// Every type goes to the cluster and comes back the same.

const assert = require('node:assert');
const { types } = require('cassandra-driver');

const SIMPLE = {
  tinyint: [-128, 127],
  smallint: [-32768, 32767],
  int: [-2147483648, 2147483647],
  bigint: [types.Long.MIN_VALUE, types.Long.MAX_VALUE],
  varint: [types.Integer.fromString('-1606938044258990275541962092341162602522202993782792835301376')],
  decimal: [types.BigDecimal.fromString('-1234567890.0987654321')],
  float: [1.5, -2.25],
  double: [0.1, -1e308],
  boolean: [true, false],
  text: ['', 'naïve 漢字 🜚', 'x'.repeat(70_000)],
  ascii: ['', 'plain'],
  blob: [Buffer.alloc(0), Buffer.from(Array.from({ length: 256 }, (_, n) => n))],
  uuid: [types.Uuid.fromString('f81d4fae-7dec-41d0-a765-00a0c91e6bf6')],
  timeuuid: [types.TimeUuid.fromString('f81d4fae-7dec-11d0-a765-00a0c91e6bf6')],
  timestamp: [new Date('2024-02-29T12:34:56.789Z'), new Date(-1)],
  date: [types.LocalDate.fromString('2024-02-29'), types.LocalDate.fromString('-0005-01-01')],
  time: [types.LocalTime.fromString('00:00:00'), types.LocalTime.fromString('23:59:59.999999999')],
  duration: [new types.Duration(14, 3, 123456789), new types.Duration(-1, -2, -3)],
  inet: [types.InetAddress.fromString('127.0.0.1'), types.InetAddress.fromString('2001:db8::1')],
};

const text = (value) => (Buffer.isBuffer(value) ? value.toString('hex') : String(value));

module.exports = {
  async simple_types({ client, table }) {
    const columns = Object.keys(SIMPLE).map((name) => `c_${name} ${name}`);
    await client.execute(`CREATE TABLE ${table('simple')} (k int PRIMARY KEY, ${columns.join(', ')})`);
    for (const [name, wanted] of Object.entries(SIMPLE)) {
      const insert = `INSERT INTO ${table('simple')} (k, c_${name}) VALUES (?, ?)`;
      const select = `SELECT c_${name} AS c FROM ${table('simple')} WHERE k = ?`;
      for (const value of wanted) {
        await client.execute(insert, [1, value], { prepare: true });
        const found = (await client.execute(select, [1], { prepare: true })).first().c;
        assert.strictEqual(text(found), text(value), name);
        // And once more without preparing, with a type hint.
        await client.execute(insert, [2, value], { hints: ['int', name] });
        const second = (await client.execute(select, [2], { hints: ['int'] })).first().c;
        assert.strictEqual(text(second), text(value), `${name} with a hint`);
      }
      await client.execute(insert, [1, null], { prepare: true });
      assert.strictEqual((await client.execute(select, [1], { prepare: true })).first().c, null, name);
    }
  },

  async collections_and_tuples({ client, table }) {
    await client.execute(
      `CREATE TABLE ${table('collected')} (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, ` +
        'n frozen<list<frozen<map<int, text>>>>, t tuple<int, text, frozen<list<int>>>)',
    );
    const m = { k: types.Long.fromNumber(2 ** 40), '': types.Long.fromInt(-1) };
    const n = [{ 1: 'a' }, { 2: 'b', 3: '' }];
    const t = new types.Tuple(7, 'seven', [7, 7]);
    await client.execute(
      `INSERT INTO ${table('collected')} (k, l, s, m, n, t) VALUES (?, ?, ?, ?, ?, ?)`,
      [1, [3, 1, 2, 1], ['b', 'a'], m, n, t],
      { prepare: true },
    );
    const row = (await client.execute(`SELECT * FROM ${table('collected')} WHERE k = 1`)).first();
    assert.deepStrictEqual(row.l, [3, 1, 2, 1]);
    assert.deepStrictEqual(row.s, ['a', 'b']);
    assert.deepStrictEqual(
      Object.entries(row.m).map(([key, value]) => [key, value.toString()]),
      [['', '-1'], ['k', String(2 ** 40)]],
    );
    assert.deepStrictEqual(row.n, n);
    assert.deepStrictEqual(row.t.values(), [7, 'seven', [7, 7]]);
  },

  async user_types({ client, table }) {
    await client.execute(`CREATE TYPE ${table('street')} (name text, number int)`);
    await client.execute(`CREATE TYPE ${table('address')} (street frozen<street>, tags set<text>, zip text)`);
    await client.execute(
      `CREATE TABLE ${table('people')} (k int PRIMARY KEY, home frozen<address>, others list<frozen<address>>)`,
    );
    const home = { street: { name: 'Main St', number: 12 }, tags: ['a', 'b'], zip: null };
    await client.execute(
      `INSERT INTO ${table('people')} (k, home, others) VALUES (?, ?, ?)`,
      [1, home, [home, home]],
      { prepare: true },
    );
    const row = (await client.execute(`SELECT * FROM ${table('people')} WHERE k = 1`)).first();
    const plain = (value) => JSON.parse(JSON.stringify(value));
    assert.deepStrictEqual(plain(row.home), home);
    assert.deepStrictEqual(plain(row.others), [home, home]);
  },

  async vectors({ client, table }) {
    await client.execute(`CREATE TABLE ${table('vectors')} (k int PRIMARY KEY, v vector<float, 3>)`);
    const vector = new types.Vector(new Float32Array([0.5, -1.25, 3]), 'float');
    await client.execute(`INSERT INTO ${table('vectors')} (k, v) VALUES (?, ?)`, [1, vector], { prepare: true });
    const row = (await client.execute(`SELECT v FROM ${table('vectors')} WHERE k = 1`)).first();
    assert.deepStrictEqual([...row.v.elements], [0.5, -1.25, 3]);
  },

  async counters({ client, table }) {
    await client.execute(`CREATE TABLE ${table('counted')} (k int PRIMARY KEY, n counter)`);
    for (const step of [5, -2, 10]) {
      await client.execute(`UPDATE ${table('counted')} SET n = n + ? WHERE k = 1`, [step], { prepare: true });
    }
    const row = (await client.execute(`SELECT n FROM ${table('counted')} WHERE k = 1`)).first();
    assert.strictEqual(row.n.toString(), '13');
  },

  async static_columns({ client, table }) {
    await client.execute(
      `CREATE TABLE ${table('static')} (p int, c int, s text static, v int, PRIMARY KEY (p, c))`,
    );
    await client.execute(`INSERT INTO ${table('static')} (p, s) VALUES (1, 'shared')`);
    const row = (await client.execute(`SELECT * FROM ${table('static')} WHERE p = 1`)).first();
    assert.deepStrictEqual([row.p, row.c, row.s, row.v], [1, null, 'shared', null]);
  },
};
