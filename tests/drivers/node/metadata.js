'use strict';
// What a driver learns about the cluster before and beside the user's queries.

const assert = require('node:assert');
const { eventually } = require('./harness');

module.exports = {
  hosts({ client, expectNodes }) {
    const hosts = client.hosts.values();
    assert.ok(hosts.length > 0, 'no hosts');
    if (expectNodes > 0) {
      assert.strictEqual(hosts.length, expectNodes);
    }
    for (const host of hosts) {
      assert.ok(host.isUp(), `${host.address} is down`);
      assert.ok(host.cassandraVersion && host.hostId && host.rack, `${host.address}: thin row`);
      assert.strictEqual(host.datacenter, 'datacenter1');
      assert.ok(host.tokens.length > 0, `${host.address} has no tokens`);
    }
  },

  token_map_and_replicas({ client, keyspace }) {
    const { metadata } = client;
    const ranges = [...metadata.getTokenRanges()];
    assert.ok(ranges.length > 0, 'no token ranges');
    const owners = new Set();
    for (let key = 0; key < 200; key++) {
      const bytes = Buffer.alloc(4);
      bytes.writeInt32BE(key);
      const replicas = metadata.getReplicas(keyspace, bytes);
      assert.strictEqual(replicas.length, 1, `replicas of key ${key}`);
      owners.add(replicas[0].address);
    }
    assert.strictEqual(owners.size, client.hosts.length, 'hosts that own one of 200 keys');
  },

  async schema_agreement({ client, keyspace, table }) {
    const result = await client.execute(`CREATE TABLE ${table('agreed')} (k int PRIMARY KEY, v text)`);
    assert.strictEqual(result.info.isSchemaInAgreement, true);
    const found = await client.metadata.getTable(keyspace, 'agreed');
    assert.strictEqual(found.columns.length, 2);
  },

  async schema_event({ client, keyspace, table, openDirect }) {
    const other = openDirect();
    try {
      await other.connect();
      const name = `${keyspace}_by_another`;
      const make = `CREATE KEYSPACE ${name} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`;
      await other.execute(`DROP KEYSPACE IF EXISTS ${name}`);
      await eventually('no keyspace', () => client.metadata.keyspaces[name] === undefined);
      await other.execute(make);
      await eventually('event for CREATE KEYSPACE', () => client.metadata.keyspaces[name] !== undefined);
      await other.execute(`CREATE TABLE ${table('altered_by_another')} (k int PRIMARY KEY)`);
      const columns = async () =>
        (await client.metadata.getTable(keyspace, 'altered_by_another'))?.columns.length;
      await eventually('event for CREATE TABLE', async () => (await columns()) === 1);
      await other.execute(`ALTER TABLE ${table('altered_by_another')} ADD w int`);
      // The table's metadata is cached until the event clears it.
      await eventually('event for ALTER TABLE', async () => (await columns()) === 2);
      await other.execute(`DROP KEYSPACE ${name}`);
      await eventually('event for DROP KEYSPACE', () => client.metadata.keyspaces[name] === undefined);
    } finally {
      await other.shutdown();
    }
  },

  async schema_metadata({ client, keyspace, table }) {
    await client.execute(`CREATE TYPE ${table('pair')} (a int, b text)`);
    await client.execute(
      `CREATE TABLE ${table('described')} (p1 int, p2 text, c1 int, c2 timeuuid, s text static, ` +
        `v frozen<pair>, w list<int>, PRIMARY KEY ((p1, p2), c1, c2)) WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC)`,
    );
    await client.execute(`CREATE INDEX described_w ON ${table('described')} (w)`);
    const found = await client.metadata.getTable(keyspace, 'described');
    const names = (columns) => columns.map((column) => column.name);
    assert.deepStrictEqual(names(found.partitionKeys), ['p1', 'p2']);
    assert.deepStrictEqual(names(found.clusteringKeys), ['c1', 'c2']);
    assert.deepStrictEqual(found.clusteringOrder, ['DESC', 'ASC']);
    assert.strictEqual(found.columnsByName.s.isStatic, true);
    assert.strictEqual(found.indexes[0].name, 'described_w');
    const type = await client.metadata.getUdt(keyspace, 'pair');
    assert.deepStrictEqual(names(type.fields), ['a', 'b']);
  },

  async system_tables({ client }) {
    const local = (await client.execute('SELECT * FROM system.local')).first();
    assert.strictEqual(local.key, 'local');
    assert.ok(local.partitioner.endsWith('Murmur3Partitioner'), local.partitioner);
    assert.ok(local.tokens.length > 0);
    for (const peers of ['system.peers', 'system.peers_v2']) {
      const { rowLength } = await client.execute(`SELECT * FROM ${peers}`);
      assert.strictEqual(rowLength, client.hosts.length - 1, peers);
    }
  },
};
