"""Every type goes to the cluster and comes back the same."""

import datetime
import decimal
import ipaddress
import uuid

from cassandra.util import Date, Duration, Time

from harness import equal, expect

SIMPLE = {
    "tinyint": [-128, 127, 0],
    "smallint": [-32768, 32767],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "varint": [-(2**200), 0, 255, 2**200],
    "decimal": [decimal.Decimal("-1234567890.0987654321"), decimal.Decimal("1E+30")],
    "float": [1.5, -0.0, float("inf")],
    "double": [0.1, -1e308],
    "boolean": [True, False],
    "text": ["", "naïve 漢字 🜚", "x" * 70000],
    "ascii": ["", "plain"],
    "blob": [b"", bytes(range(256))],
    "uuid": [uuid.UUID("f81d4fae-7dec-41d0-a765-00a0c91e6bf6")],
    "timeuuid": [uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")],
    "timestamp": [
        datetime.datetime(2024, 2, 29, 12, 34, 56, 789000),
        datetime.datetime(1901, 1, 1),
    ],
    "date": [Date(datetime.date(2024, 2, 29)), Date(-700000)],
    "time": [Time(0), Time(86399999999999)],
    "duration": [Duration(14, 3, 123456789), Duration(-1, -2, -3)],
    "inet": ["127.0.0.1", "2001:db8::1"],
}

COLLECTIONS = {
    "list<int>": [3, 1, 2, 1],
    "set<text>": {"b", "a"},
    "map<text, bigint>": {"k": 2**40, "": -1},
    "frozen<list<frozen<map<int, text>>>>": [{1: "a"}, {2: "b", 3: ""}],
    "map<text, frozen<set<uuid>>>": {"x": {uuid.UUID(int=1), uuid.UUID(int=2)}},
    "tuple<int, text, frozen<list<int>>>": (7, "seven", [7, 7]),
    "frozen<tuple<int, text>>": (None, "second"),
}


def plain(value):
    """Turns the driver's own container classes into Python's, to compare them."""
    if isinstance(value, (str, bytes, tuple)) or value is None:
        return value
    if hasattr(value, "items"):
        return {key: plain(item) for key, item in value.items()}
    if value.__class__.__name__ == "SortedSet":
        return set(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def register(check):
    @check
    def simple_types(c):
        columns = ", ".join(f"c_{name} {name}" for name in SIMPLE)
        c.session.execute(f"CREATE TABLE {c.table('simple')} (k int PRIMARY KEY, {columns})")
        for name, wanted in SIMPLE.items():
            table = c.table("simple")
            insert = c.session.prepare(f"INSERT INTO {table} (k, c_{name}) VALUES (?, ?)")
            select = c.session.prepare(f"SELECT c_{name} FROM {table} WHERE k = ?")
            for value in wanted + [None]:
                c.session.execute(insert, (1, value))
                found = c.session.execute(select, (1,)).one()[0]
                equal(found, value, name)
                equal(str(found), str(value), f"{name} as text")

    @check
    def simple_types_as_literals(c):
        # The same values, written into the statement's text by the driver.
        for name, wanted in SIMPLE.items():
            if name == "duration":
                continue  # the driver has no literal for it
            for value in wanted:
                if name == "inet":
                    value = ipaddress.ip_address(value)
                if value == float("inf"):
                    continue  # written as inf, which CQL calls Infinity
                if name == "decimal":
                    value = decimal.Decimal("-12.5")  # the driver writes it as a float
                table = c.table("simple")
                c.session.execute(f"INSERT INTO {table} (k, c_{name}) VALUES (%s, %s)", (2, value))
                found = c.session.execute(f"SELECT c_{name} FROM {table} WHERE k = %s", (2,)).one()[0]
                equal(str(found), str(value), name)

    @check
    def collections_and_tuples(c):
        columns = ", ".join(f"c{n} {name}" for n, name in enumerate(COLLECTIONS))
        table = c.table("collected")
        c.session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, {columns})")
        marks = ", ".join("?" * (len(COLLECTIONS) + 1))
        insert = c.session.prepare(f"INSERT INTO {table} JSON ?")
        c.session.execute(insert, ('{"k": 9, "c0": [1]}',))
        equal(c.session.execute(f"SELECT c0 FROM {table} WHERE k = 9").one()[0], [1])
        names = ", ".join(f"c{n}" for n in range(len(COLLECTIONS)))
        insert = c.session.prepare(f"INSERT INTO {table} (k, {names}) VALUES ({marks})")
        c.session.execute(insert, (1, *COLLECTIONS.values()))
        row = c.session.execute(f"SELECT {names} FROM {table} WHERE k = 1").one()
        for found, (name, wanted) in zip(row, COLLECTIONS.items()):
            equal(plain(found), wanted, name)
        c.session.execute(f"UPDATE {table} SET c0 = c0 + [9], c2['new'] = 5 WHERE k = 1")
        row = c.session.execute(f"SELECT c0, c2 FROM {table} WHERE k = 1").one()
        equal(row[0][-1], 9)
        equal(row[1]["new"], 5)

    @check
    def user_types(c):
        c.session.execute(f"CREATE TYPE {c.table('street')} (name text, number int)")
        c.session.execute(
            f"CREATE TYPE {c.table('address')} (street frozen<street>, tags set<text>, zip text)"
        )
        table = c.table("people")
        c.session.execute(
            f"CREATE TABLE {table} (k int PRIMARY KEY, home frozen<address>, others list<frozen<address>>)"
        )
        insert = c.session.prepare(f"INSERT INTO {table} (k, home, others) VALUES (?, ?, ?)")
        home = (("Main St", 12), {"a", "b"}, None)
        c.session.execute(insert, (1, home, [home, home]))
        row = c.session.execute(f"SELECT home, others FROM {table} WHERE k = 1").one()
        equal((row.home.street.name, row.home.street.number), ("Main St", 12))
        equal((set(row.home.tags), row.home.zip), ({"a", "b"}, None))
        equal(len(row.others), 2)

    @check
    def vectors(c):
        table = c.table("vectors")
        c.session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v vector<float, 3>)")
        insert = c.session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
        c.session.execute(insert, (1, [0.5, -1.25, 3.0]))
        equal(list(c.session.execute(f"SELECT v FROM {table} WHERE k = 1").one().v), [0.5, -1.25, 3.0])

    @check
    def counters(c):
        table = c.table("counted")
        c.session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, n counter)")
        update = c.session.prepare(f"UPDATE {table} SET n = n + ? WHERE k = ?")
        for step in (5, -2, 10):
            c.session.execute(update, (step, 1))
        equal(c.session.execute(f"SELECT n FROM {table} WHERE k = 1").one().n, 13)

    @check
    def static_columns(c):
        table = c.table("static")
        c.session.execute(
            f"CREATE TABLE {table} (p int, c int, s text static, v int, PRIMARY KEY (p, c))"
        )
        c.session.execute(f"INSERT INTO {table} (p, s) VALUES (1, 'shared')")
        row = c.session.execute(f"SELECT * FROM {table} WHERE p = 1").one()
        equal((row.p, row.c, row.s, row.v), (1, None, "shared", None))
        for n in range(3):
            c.session.execute(f"INSERT INTO {table} (p, c, v) VALUES (1, {n}, {n})")
        rows = list(c.session.execute(f"SELECT c, s FROM {table} WHERE p = 1 ORDER BY c DESC"))
        equal([(row.c, row.s) for row in rows], [(2, "shared"), (1, "shared"), (0, "shared")])

    @check
    def time_to_live_and_timestamps(c):
        table = c.table("simple")
        c.session.execute(
            f"INSERT INTO {table} (k, c_int) VALUES (%s, %s) USING TTL %s AND TIMESTAMP %s",
            (77, 1, 1000, 123456789),
        )
        row = c.session.execute(
            f"SELECT ttl(c_int) AS t, writetime(c_int) AS w FROM {table} WHERE k = 77"
        ).one()
        expect(0 < row.t <= 1000, f"TTL {row.t}")
        equal(row.w, 123456789)
