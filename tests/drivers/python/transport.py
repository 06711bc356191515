"""Paging, sizes, concurrency, compression and protocol versions."""

import time

from cassandra import InvalidRequest
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement, SimpleStatement

from harness import equal, expect, raises

ROWS = 1100
PAGE = 97


def register(check):
    @check
    def paging(c):
        table = c.table("paged")
        c.session.execute(f"CREATE TABLE {table} (p int, c int, v text, PRIMARY KEY (p, c))")
        insert = c.session.prepare(f"INSERT INTO {table} (p, c, v) VALUES (?, ?, ?)")
        rows = [(n % 7, n, f"row {n}") for n in range(ROWS)]
        for ok, result in execute_concurrent_with_args(c.session, insert, rows):
            expect(ok, f"{result}")
        for text in (f"SELECT c FROM {table}", f"SELECT c FROM {table} WHERE p IN (0,1,2,3,4,5,6)"):
            found = [row.c for row in c.session.execute(SimpleStatement(text, fetch_size=PAGE))]
            equal(len(found), ROWS, "rows")
            equal(set(found), set(range(ROWS)), "keys")
        one = [row.c for row in c.session.execute(SimpleStatement(f"SELECT c FROM {table} WHERE p = 3", fetch_size=PAGE))]
        equal(one, [n for n in range(ROWS) if n % 7 == 3], "order in a partition")
        limited = SimpleStatement(f"SELECT c FROM {table} LIMIT 150", fetch_size=PAGE)
        equal(len(list(c.session.execute(limited))), 150)

    @check
    def paging_resumes_elsewhere(c):
        query = SimpleStatement(f"SELECT c FROM {c.table('paged')}", fetch_size=PAGE)
        found, state, pages = [], None, 0
        while pages == 0 or state:
            cluster = c.open() if pages < 3 else c.cluster
            session = cluster.connect()
            result = session.execute(query, paging_state=state)
            expect(len(result.current_rows) <= PAGE, f"page of {len(result.current_rows)} rows")
            found += [row.c for row in result.current_rows]
            state, pages = result.paging_state, pages + 1
            cluster.shutdown() if cluster is not c.cluster else session.shutdown()
        equal(len(found), ROWS, "rows")
        equal(set(found), set(range(ROWS)), "keys")
        expect(pages >= ROWS // PAGE, f"{pages} pages")

    @check
    def five_hundred_at_once(c):
        select = c.session.prepare(f"SELECT v FROM {c.table('paged')} WHERE p = ? AND c = ?")
        futures = [c.session.execute_async(select, (n % 7, n)) for n in range(500)]
        for n, future in enumerate(futures):
            equal(future.result().one().v, f"row {n}")

    @check
    def large_values(c):
        table = c.table("large")
        c.session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v blob)")
        insert = c.session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
        select = c.session.prepare(f"SELECT v FROM {table} WHERE k = ?")
        for key, size in enumerate((131000, 131071, 131072, 300_000, 1 << 20)):
            # Hardly compressible, so that compressed frames are large as well.
            value = b"".join((n * 2654435761 % 2**32).to_bytes(4, "big") for n in range(size // 4 + 1))[:size]
            c.session.execute(insert, (key, value))
            expect(c.session.execute(select, (key,)).one().v == value, f"{size} bytes came back otherwise")
        whole = list(c.session.execute(f"SELECT v FROM {table}"))
        equal(sum(len(row.v) for row in whole), 131000 + 131071 + 131072 + 300_000 + (1 << 20))

    def subset(c, **options):
        """A few operations of each kind over a cluster object made with these options."""
        cluster = c.open(**options)
        try:
            session = cluster.connect(c.keyspace)
            if "protocol_version" in options:
                equal(session._protocol_version, options["protocol_version"], "protocol version")
            table = f"short_{options.get('protocol_version', 0)}_{options.get('compression') or 'none'}".lower()
            session.execute(f"CREATE TABLE IF NOT EXISTS {table} (k int PRIMARY KEY, v text)")
            insert = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
            execute_concurrent_with_args(session, insert, [(n, "v" * n) for n in range(40)])
            batch = BatchStatement()
            batch.add(insert, (40, "b")).add(f"INSERT INTO {table} (k, v) VALUES (41, 'c')")
            session.execute(batch)
            rows = list(session.execute(SimpleStatement(f"SELECT * FROM {table}", fetch_size=10)))
            equal(len(rows), 42)
            session.execute(insert, (50, "z" * 200_000))
            equal(len(session.execute(f"SELECT v FROM {table} WHERE k = %s", (50,)).one().v), 200_000)
            raises(InvalidRequest, lambda: session.execute("SELECT * FROM nowhere"))
            used = list(session.get_pools())[0].get_connections()[0]
            compression = options.get("compression")
            if compression:
                expect(used.compressor is not None, f"{compression} was not agreed upon")
            elif compression is False:
                expect(used.compressor is None, "compressed although not wanted")
        finally:
            cluster.shutdown()

    for version in (3, 4, 5):
        for compression in ("lz4", "snappy", False):
            if version == 5 and compression == "snappy":
                continue  # version 5 knows LZ4 only

            def run(c, version=version, compression=compression):
                subset(c, protocol_version=version, compression=compression)

            run.__name__ = f"protocol_v{version}_{compression or 'uncompressed'}"
            check(run)

    @check
    def heartbeats(c):
        cluster = c.open(idle_heartbeat_interval=1)
        try:
            session = cluster.connect()
            time.sleep(3)
            equal(session.execute("SELECT key FROM system.local").one().key, "local")
            expect(all(host.is_up for host in cluster.metadata.all_hosts()), "a host went down")
        finally:
            cluster.shutdown()
