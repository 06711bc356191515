"""Kinds of statements, and the answers and errors a driver makes of them."""

from cassandra import (
    AlreadyExists,
    ConsistencyLevel,
    InvalidRequest,
    Unavailable,
)
from cassandra.policies import FallthroughRetryPolicy
from cassandra.protocol import SyntaxException
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement

from harness import equal, expect, raises


def register(check):
    @check
    def simple_statements(c):
        table = c.table("plain")
        c.session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v text, w int)")
        c.session.execute(f"INSERT INTO {table} (k, v) VALUES (%s, %s)", (1, "it's"))
        c.session.execute(f"INSERT INTO {table} (k, v) VALUES (%(k)s, %(v)s)", {"k": 2, "v": "named"})
        rows = list(c.session.execute(f"SELECT k, v FROM {table} WHERE k IN (1, 2)"))
        equal(sorted(tuple(row) for row in rows), [(1, "it's"), (2, "named")])
        c.session.execute(f"  /* a comment */ insert INTO {table} (k, v) VALUES (3, 'c') -- end\n;")
        equal(c.session.execute(f"SELECT v FROM {table} WHERE k = 3;").one().v, "c")
        equal(list(c.session.execute(f"SELECT v FROM {table} WHERE k = -1")), [])
        equal(c.session.execute(f'SELECT v AS "Mixed Case" FROM {table} WHERE k = 3').column_names, ["Mixed Case"])

    @check
    def prepared_statements(c):
        table = c.table("plain")
        insert = c.session.prepare(f"INSERT INTO {table} (k, v, w) VALUES (?, ?, ?)")
        c.session.execute(insert, (10, "ten", 10))
        c.session.execute(insert, {"k": 10, "v": "again", "w": UNSET_VALUE})
        row = c.session.execute(f"SELECT v, w FROM {table} WHERE k = 10").one()
        equal(tuple(row), ("again", 10), "unset keeps the value")
        c.session.execute(insert, (10, None, UNSET_VALUE))
        row = c.session.execute(f"SELECT v, w FROM {table} WHERE k = 10").one()
        equal(tuple(row), (None, 10), "null deletes the value")
        named = c.session.prepare(f"SELECT w FROM {table} WHERE k = :key")
        equal(c.session.execute(named, {"key": 10}).one().w, 10)
        equal(insert.routing_key_indexes, [0], "routing key index")
        expect(insert.bind((10, None, None)).routing_key == b"\x00\x00\x00\x0a", "routing key")

    @check
    def prepared_survives_alter(c):
        table = c.table("altered")
        c.session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, b int)")
        c.session.execute(f"INSERT INTO {table} (k, b) VALUES (1, 2)")
        select = c.session.prepare(f"SELECT * FROM {table} WHERE k = ?")
        equal(c.session.execute(select, (1,)).one()._asdict(), {"k": 1, "b": 2})
        c.session.execute(f"ALTER TABLE {table} ADD a text")
        c.session.execute(f"UPDATE {table} SET a = 'new' WHERE k = 1")
        for _ in range(3):
            equal(c.session.execute(select, (1,)).one()._asdict(), {"k": 1, "a": "new", "b": 2})

    @check
    def prepared_survives_drop_and_create(c):
        table = c.table("recreated")
        for value in ("first", "second"):
            c.session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v text)")
            if value == "first":
                insert = c.session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
            c.session.execute(insert, (1, value))
            equal(c.session.execute(f"SELECT v FROM {table} WHERE k = 1").one().v, value)
            c.session.execute(f"DROP TABLE {table}")

    @check
    def batches(c):
        table = c.table("plain")
        insert = c.session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
        for base, kind in ((100, BatchType.LOGGED), (200, BatchType.UNLOGGED)):
            batch = BatchStatement(kind)
            for n in range(5):
                batch.add(insert, (base + n, "prepared"))
                batch.add(SimpleStatement(f"INSERT INTO {table} (k, v) VALUES (%s, %s)"), (base + 10 + n, "simple"))
            batch.add(f"DELETE FROM {table} WHERE k = {base + 20}")
            c.session.execute(batch)
            keys = ",".join(str(base + n) for n in range(20))
            equal(len(list(c.session.execute(f"SELECT k FROM {table} WHERE k IN ({keys})"))), 10)
        c.session.execute(f"CREATE TABLE {c.table('tally')} (k int PRIMARY KEY, n counter)")
        add = c.session.prepare(f"UPDATE {c.table('tally')} SET n = n + ? WHERE k = ?")
        batch = BatchStatement(BatchType.COUNTER)
        for n in range(4):
            batch.add(add, (n, 1))
        c.session.execute(batch)
        equal(c.session.execute(f"SELECT n FROM {c.table('tally')} WHERE k = 1").one().n, 6)
        c.session.execute(
            f"BEGIN BATCH INSERT INTO {table} (k, v) VALUES (%s, %s); "
            f"INSERT INTO {table} (k, v) VALUES (%s, %s); APPLY BATCH",
            (300, "text", 301, "batch"),
        )
        equal(c.session.execute(f"SELECT v FROM {table} WHERE k = 301").one().v, "batch")

    @check
    def lightweight_transactions(c):
        table = c.table("plain")
        insert = c.session.prepare(f"INSERT INTO {table} (k, v, w) VALUES (?, ?, ?) IF NOT EXISTS")
        insert.serial_consistency_level = ConsistencyLevel.LOCAL_SERIAL
        result = c.session.execute(insert, (400, "one", 1))
        expect(result.was_applied, "the first insert was not applied")
        result = c.session.execute(insert, (400, "two", 2))
        expect(not result.was_applied, "the second insert was applied")
        row = c.session.execute(insert, (400, "two", 2)).one()
        equal((row.applied, row.k, row.v, row.w), (False, 400, "one", 1))
        update = SimpleStatement(
            f"UPDATE {table} SET w = 5 WHERE k = 400 IF w = %s",
            serial_consistency_level=ConsistencyLevel.SERIAL,
        )
        expect(not c.session.execute(update, (9,)).was_applied, "applied on a wrong condition")
        expect(c.session.execute(update, (1,)).was_applied, "not applied on the right condition")
        batch = BatchStatement(serial_consistency_level=ConsistencyLevel.SERIAL)
        batch.add(f"UPDATE {table} SET v = 'cas' WHERE k = 400 IF w = 5")
        expect(c.session.execute(batch).was_applied, "the conditional batch was not applied")
        read = SimpleStatement(
            f"SELECT v FROM {table} WHERE k = 400", consistency_level=ConsistencyLevel.SERIAL
        )
        equal(c.session.execute(read).one().v, "cas")

    @check
    def tracing(c):
        future = c.session.execute_async(f"SELECT * FROM {c.table('plain')} WHERE k = 1", trace=True)
        future.result()
        trace = future.get_query_trace(max_wait=10)
        expect(trace.trace_id, "no trace id")
        expect(trace.events, "the trace has no events")
        equal(trace.request_type, "Execute CQL3 query", "request type")
        prepared = c.session.prepare(f"SELECT * FROM {c.table('plain')} WHERE k = ?")
        future = c.session.execute_async(prepared, (1,), trace=True)
        future.result()
        expect(future.get_query_trace(max_wait=10).events, "the trace of a prepared statement is empty")

    @check
    def warnings(c):
        future = c.session.execute_async(f"SELECT count(*) FROM {c.table('plain')}")
        future.result()
        expect("Aggregation query used without partition key" in str(future.warnings), f"{future.warnings}")
        batch = BatchStatement(BatchType.UNLOGGED)
        for n in range(6):
            batch.add(f"INSERT INTO {c.table('plain')} (k, v) VALUES (%s, %s)", (500 + n, "w" * 1000))
        future = c.session.execute_async(batch)
        future.result()
        expect("exceeding specified threshold" in str(future.warnings), f"{future.warnings}")

    @check
    def custom_payload(c):
        result = c.session.execute(
            f"SELECT v FROM {c.table('plain')} WHERE k = 1", custom_payload={"who": b"a driver", "empty": b""}
        )
        equal(result.one().v, "it's")

    @check
    def keyspace_per_query(c):
        if c.session._protocol_version < 5:
            return
        query = SimpleStatement("SELECT v FROM plain WHERE k = 1", keyspace=c.keyspace)
        equal(c.session.execute(query).one().v, "it's")
        prepared = c.session.prepare("SELECT v FROM plain WHERE k = ?", keyspace=c.keyspace)
        equal(c.session.execute(prepared, (1,)).one().v, "it's")

    @check
    def use_keyspace(c):
        other = c.keyspace + "_two"
        c.session.execute(f"DROP KEYSPACE IF EXISTS {other}")
        c.session.execute(
            f"CREATE KEYSPACE {other} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
        c.session.execute(f"CREATE TABLE {other}.plain (k int PRIMARY KEY, v text)")
        c.session.execute(f"INSERT INTO {other}.plain (k, v) VALUES (1, 'of the other')")
        first, second = c.cluster.connect(), c.cluster.connect(other)
        try:
            raises(InvalidRequest, lambda: first.execute("SELECT v FROM plain WHERE k = 1"))
            first.execute(f"USE {c.keyspace}")
            equal(first.keyspace, c.keyspace)
            ask = "SELECT v FROM plain WHERE k = 1"
            prepared = [session.prepare("SELECT v FROM plain WHERE k = ?") for session in (first, second)]
            for _ in range(10):
                equal(first.execute(ask).one().v, "it's")
                equal(second.execute(ask).one().v, "of the other")
                equal(first.execute(prepared[0], (1,)).one().v, "it's")
                equal(second.execute(prepared[1], (1,)).one().v, "of the other")
            second.execute(f'USE "{c.keyspace}"')
            equal(second.execute(ask).one().v, "it's")
        finally:
            first.shutdown()
            second.shutdown()
            c.session.execute(f"DROP KEYSPACE {other}")

    @check
    def errors(c):
        session, table = c.session, c.table("plain")
        error = raises(SyntaxException, lambda: session.execute("SELEC * FROM nowhere"))
        expect("no viable alternative" in str(error), f"{error}")
        raises(SyntaxException, lambda: session.prepare("SELECT FROM"))
        error = raises(InvalidRequest, lambda: session.execute(f"SELECT nothing FROM {table}"))
        expect("Undefined column name nothing" in str(error), f"{error}")
        raises(InvalidRequest, lambda: session.execute(f"SELECT * FROM {c.table('missing')}"))
        raises(InvalidRequest, lambda: session.prepare(f"SELECT * FROM {c.table('missing')}"))
        error = raises(AlreadyExists, lambda: session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY)"))
        equal((error.keyspace, error.table), (c.keyspace, "plain"))
        create = f"CREATE KEYSPACE {c.keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        error = raises(AlreadyExists, lambda: session.execute(create))
        equal((error.keyspace, error.table or None), (c.keyspace, None))
        for level, needed in ((ConsistencyLevel.TWO, 2), (ConsistencyLevel.THREE, 3)):
            for text in (f"SELECT * FROM {table} WHERE k = 1", f"INSERT INTO {table} (k) VALUES (1)"):
                # Its default is to try the next host, of which there is none, and to tell of that.
                query = SimpleStatement(text, consistency_level=level, retry_policy=FallthroughRetryPolicy())
                error = raises(Unavailable, lambda: session.execute(query))
                equal((error.consistency, error.required_replicas, error.alive_replicas), (level, needed, 1))
        batch = BatchStatement(BatchType.UNLOGGED)
        for n in range(6):
            batch.add(f"INSERT INTO {table} (k, v) VALUES (%s, %s)", (600 + n, "w" * 10000))
        error = raises(InvalidRequest, lambda: session.execute(batch))
        expect("Batch too large" in str(error), f"{error}")
        equal(session.execute(f"SELECT v FROM {table} WHERE k = 1").one().v, "it's", "the session still works")

    @check
    def idempotence(c):
        for idempotent in (True, False):
            query = SimpleStatement(
                f"UPDATE {c.table('plain')} SET w = 1 WHERE k = 700", is_idempotent=idempotent
            )
            c.session.execute(query)
        equal(c.session.execute(f"SELECT w FROM {c.table('plain')} WHERE k = 700").one().w, 1)
