"""What a driver learns about the cluster before and beside the user's queries."""

import os

from harness import equal, eventually, expect


def register(check):
    @check
    def hosts(c):
        found = c.cluster.metadata.all_hosts()
        expect(found, "no hosts in the metadata")
        if c.target.expect_nodes:
            equal(len(found), c.target.expect_nodes, "hosts")
        expect(all(host.is_up for host in found), f"not all hosts are up: {found}")
        for host in found:
            expect(host.release_version, f"{host} has no release version")
            expect(host.host_id, f"{host} has no host id")
            equal(host.datacenter, "datacenter1", "data centre")
            expect(host.rack, f"{host} has no rack")

    @check
    def pools_to_all_hosts(c):
        # The driver opened a pool to every address that system.local and the peers named.
        eventually(
            lambda: len(c.session.get_pool_state()) == len(c.cluster.metadata.all_hosts()),
            "a pool for every host",
        )

    @check
    def partitioner(c):
        expect(
            c.cluster.metadata.partitioner.endswith("Murmur3Partitioner"),
            c.cluster.metadata.partitioner,
        )

    @check
    def token_map(c):
        ring = c.cluster.metadata.token_map.ring
        expect(ring, "the token map is empty")
        owners = {host.host_id for host in c.cluster.metadata.token_map.token_to_host_owner.values()}
        equal(owners, {host.host_id for host in c.cluster.metadata.all_hosts()}, "owners")

    @check
    def replicas(c):
        seen = set()
        for key in range(200):
            found = c.cluster.metadata.get_replicas(c.keyspace, key.to_bytes(4, "big"))
            equal(len(found), 1, f"replicas of key {key}")
            seen.add(found[0].host_id)
        equal(seen, {h.host_id for h in c.cluster.metadata.all_hosts()}, "replicas of all keys")

    @check
    def schema_agreement(c):
        future = c.session.execute_async(
            f"CREATE TABLE {c.table('agreed')} (k int PRIMARY KEY, v text)"
        )
        future.result()
        expect(future.is_schema_agreed, "no schema agreement after CREATE TABLE")
        expect("agreed" in c.cluster.metadata.keyspaces[c.keyspace].tables, "table not in metadata")

    @check
    def schema_event(c):
        other = c.open_direct()
        try:
            session = other.connect()
            session.execute(f"CREATE TABLE {c.table('by_another')} (k int PRIMARY KEY, v text)")
            tables = lambda: c.cluster.metadata.keyspaces[c.keyspace].tables
            eventually(lambda: "by_another" in tables(), "event for CREATE TABLE")
            session.execute(f"ALTER TABLE {c.table('by_another')} ADD w int")
            eventually(lambda: "w" in tables()["by_another"].columns, "event for ALTER TABLE")
            session.execute(f"DROP TABLE {c.table('by_another')}")
            eventually(lambda: "by_another" not in tables(), "event for DROP TABLE")
        finally:
            other.shutdown()

    @check
    def layouts_are_hidden(c):
        if not os.environ.get("HELENUS_DRIVERS_LAYOUTS"):
            return
        columns = "(p int, a int, b int, v text, PRIMARY KEY (p, {}))"
        # Once that is answered, the proxy knows the table.
        c.session.execute(f"CREATE TABLE {c.table('sorted')} {columns.format('a, b')}")
        other = c.open_direct()
        try:
            session = other.connect()
            for name, order in (("sorted__layout_x", "b, a"), ("marker", "a, b")):
                session.execute(f"CREATE TABLE {c.table(name)} {columns.format(order)}")
            tables = lambda: c.cluster.metadata.keyspaces[c.keyspace].tables
            eventually(lambda: "marker" in tables(), "event for CREATE TABLE")
            for refresh in (
                lambda: None,
                lambda: c.cluster.refresh_table_metadata(c.keyspace, "sorted"),
                lambda: c.cluster.refresh_keyspace_metadata(c.keyspace),
                lambda: c.cluster.refresh_schema_metadata(),
            ):
                refresh()
                expect("sorted" in tables(), "the table is not in the metadata")
                expect("sorted__layout_x" not in tables(), "the layout is in the metadata")
            # By its name it can be read.
            equal(list(c.session.execute(f"SELECT * FROM {c.table('sorted__layout_x')}")), [], "rows")
            for name in ("sorted__layout_x", "sorted", "marker"):
                session.execute(f"DROP TABLE {c.table(name)}")
            eventually(lambda: "marker" not in tables(), "event for DROP TABLE")
        finally:
            other.shutdown()

    @check
    def schema_metadata(c):
        c.session.execute(f"CREATE TYPE {c.table('pair')} (a int, b text)")
        c.session.execute(
            f"CREATE TABLE {c.table('described')} (p1 int, p2 text, c1 int, c2 timeuuid, s text static, "
            "v frozen<pair>, w list<int>, PRIMARY KEY ((p1, p2), c1, c2)) "
            "WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC) AND comment = 'a ''quoted'' remark'"
        )
        c.session.execute(f"CREATE INDEX described_w ON {c.table('described')} (w)")
        c.cluster.refresh_schema_metadata()
        keyspace = c.cluster.metadata.keyspaces[c.keyspace]
        table = keyspace.tables["described"]
        equal([column.name for column in table.partition_key], ["p1", "p2"], "partition key")
        equal([column.name for column in table.clustering_key], ["c1", "c2"], "clustering key")
        expect(table.columns["s"].is_static, "s is not static")
        expect(table.columns["c1"].is_reversed, "c1 is not reversed")
        expect("described_w" in keyspace.indexes, "the index is missing")
        equal(keyspace.user_types["pair"].field_names, ["a", "b"], "fields of the type")
        text = table.export_as_string()
        expect("CLUSTERING ORDER BY (c1 DESC, c2 ASC)" in text, text)
        expect("system" in c.cluster.metadata.keyspaces, "no keyspace named system")
        equal(keyspace.replication_strategy.replication_factor, 1, "replication factor")

    @check
    def system_tables(c):
        local = c.session.execute("SELECT * FROM system.local").one()
        equal(local.key, "local")
        expect(local.cluster_name and local.tokens and local.schema_version, f"thin row: {local}")
        equal(local.cluster_name, c.cluster.metadata.cluster_name, "cluster name")
        peers = list(c.session.execute("SELECT peer, host_id, tokens, schema_version FROM system.peers"))
        equal(len(peers), len(c.cluster.metadata.all_hosts()) - 1, "rows of system.peers")
        named = c.session.execute(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s", [c.keyspace]
        ).one()
        equal(named.keyspace_name, c.keyspace)
