#!/usr/bin/env python3
"""What people and scripts do with cqlsh; every check is one or a few runs of the shell."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

KEYSPACE = "conf_cqlsh"


class Shell:
    def __init__(self, args, home):
        # The shell stands beside the interpreter of the environment this script runs in.
        self.command = [str(pathlib.Path(sys.executable).parent / "cqlsh")]
        self.address = [args.host, str(args.port)]
        # Changes made "by somebody else" go here: behind the proxy when a node is named.
        self.node = (args.direct or f"{args.host}:{args.port}").rsplit(":", 1)
        self.home = home
        self.environment = {**os.environ, "HOME": str(home), "CQLSH_NO_BUNDLED": "1", "COLUMNS": "200"}
        if args.tls_ca:
            self.command.append("--ssl")
            self.environment["SSL_CERTFILE"] = args.tls_ca

    def __call__(self, text, *options, fails=False):
        """Feeds the text to the shell's standard input; returns what it wrote."""
        return self.run(text, self.address, *options, fails=fails)

    def direct(self, text):
        return self.run(text, self.node)

    def run(self, text, address, *options, fails=False):
        done = subprocess.run(
            [*self.command, *options, *address],
            input=text,
            capture_output=True,
            text=True,
            timeout=90,
            cwd=self.home,
            env=self.environment,
        )
        written = done.stdout + done.stderr
        if fails != bool(done.returncode):
            raise AssertionError(f"exit code {done.returncode}: {written[-500:]}")
        return written


def contains(text, *patterns):
    for pattern in patterns:
        if not re.search(pattern, text, re.MULTILINE):
            raise AssertionError(f"no {pattern!r} in {text[-700:]!r}")


def lacks(text, pattern):
    if re.search(pattern, text, re.MULTILINE):
        raise AssertionError(f"{pattern!r} in {text[-700:]!r}")


def banner(cqlsh):
    contains(
        cqlsh("SHOW VERSION\nSHOW HOST\n"),
        r"\[cqlsh 6\.2\.2 \| Cassandra [45]\.\d.* \| CQL spec 3\.4\.\d \| Native protocol v[45]\]",
        r"^Connected to .+ at ",
    )


def create(cqlsh):
    cqlsh(
        f"DROP KEYSPACE IF EXISTS {KEYSPACE};\n"
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};\n"
        f"USE {KEYSPACE};\n"
        "CREATE TYPE pair (a int, b text);\n"
        "CREATE TABLE t (k int PRIMARY KEY, v text, p frozen<pair>, l list<int>);\n"
        "CREATE INDEX t_v ON t (v);\n"
        "INSERT INTO t (k, v, p, l) VALUES (1, 'one', {a: 1, b: 'b'}, [1, 2]);\n"
        "INSERT INTO t (k, v) VALUES (2, 'zwei');\n"
    )


def select(cqlsh):
    written = cqlsh("SELECT k, v, p, l FROM t WHERE k IN (1, 2);\n", "-k", KEYSPACE)
    contains(written, r"^\s+1 \|\s+one \| \{a: 1, b: 'b'\} \| \[1, 2\]$", r"^\s+2 \|\s+zwei \|\s+null \|\s+null$")
    contains(written, r"^\(2 rows\)$")


def execute_option(cqlsh):
    contains(cqlsh("", "-e", f"SELECT count(*) FROM {KEYSPACE}.t"), r"^\s+2$", "Aggregation query used without partition key")


def expand_and_json(cqlsh):
    contains(cqlsh(f"EXPAND ON\nSELECT k, v FROM {KEYSPACE}.t WHERE k = 1;\n"), r"^@ Row 1$", r"^ v \| one$")
    contains(cqlsh(f"SELECT JSON k, v FROM {KEYSPACE}.t WHERE k = 1;\n"), r'\{"k": 1, "v": "one"\}')


def describe(cqlsh):
    contains(cqlsh("DESCRIBE KEYSPACES\n"), KEYSPACE, "system_schema")
    contains(cqlsh("DESCRIBE TABLES\n", "-k", KEYSPACE), r"^t\s*$")
    contains(
        cqlsh(f"DESCRIBE KEYSPACE {KEYSPACE}\n"),
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = ",
        f"CREATE TYPE {KEYSPACE}.pair",
        f"CREATE TABLE {KEYSPACE}.t ",
        f"CREATE (CUSTOM )?INDEX t_v ON {KEYSPACE}.t",
    )
    contains(cqlsh("DESCRIBE t;\n", "-k", KEYSPACE), r"^    k int PRIMARY KEY,$", "AND compaction = ")
    contains(cqlsh("DESCRIBE TYPE pair\n", "-k", KEYSPACE), r"CREATE TYPE conf_cqlsh\.pair \(\s+a int,\s+b text\s+\)")
    contains(cqlsh("DESCRIBE INDEX t_v\n", "-k", KEYSPACE), "INDEX t_v ON")
    contains(cqlsh("DESCRIBE CLUSTER\n"), r"^Cluster: .+", r"^Partitioner: Murmur3Partitioner", r"^Snitch: ")
    contains(cqlsh("DESCRIBE CLUSTER\n", "-k", KEYSPACE), r"^Range ownership:")
    contains(cqlsh("DESCRIBE FULL SCHEMA\n"), "CREATE KEYSPACE system_schema", f"CREATE TABLE {KEYSPACE}.t ")
    contains(cqlsh("DESCRIBE TABLE missing\n", "-k", KEYSPACE, fails=True), "'missing' not found in keyspace")


def layouts_are_hidden(cqlsh):
    if not os.environ.get("HELENUS_DRIVERS_LAYOUTS"):
        return
    columns = "(p int, a int, b int, v text, PRIMARY KEY (p, {}))"
    table = f"{KEYSPACE}.sorted"
    # Once that is answered, the proxy knows the table.
    cqlsh(f"CREATE TABLE {table} {columns.format('a, b')};\n")
    cqlsh.direct(f"CREATE TABLE {table}__layout_x {columns.format('b, a')};\n")
    for command in ("DESCRIBE TABLES", f"DESCRIBE KEYSPACE {KEYSPACE}", "DESCRIBE SCHEMA", f"DESCRIBE TABLE {table}"):
        written = cqlsh(f"{command};\n", "-k", KEYSPACE)
        contains(written, r"\bsorted\b")
        lacks(written, "__layout_")
    contains(cqlsh(f"DESCRIBE TABLE {table}__layout_x;\n"), rf"CREATE TABLE {table}__layout_x")
    written = cqlsh(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = "
        f"'{KEYSPACE}' AND table_name >= 'sorted' LIMIT 1;\n"
    )
    contains(written, r"^\s+sorted$", r"^\(1 rows\)$")
    cqlsh.direct(f"DROP TABLE {table}__layout_x;\nDROP TABLE {table};\n")


def consistency(cqlsh):
    written = cqlsh(
        "CONSISTENCY\nCONSISTENCY QUORUM\nSERIAL CONSISTENCY LOCAL_SERIAL\n"
        f"SELECT v FROM {KEYSPACE}.t WHERE k = 1;\n"
    )
    contains(
        written,
        "Current consistency level is ONE",
        "Consistency level set to QUORUM",
        "Serial consistency level set to LOCAL_SERIAL",
        r"^ one$",
    )
    # The driver in cqlsh tries the next host first, of which there is none, and what it then shows races with its own
    # record of what the first host said: nothing, now and then.
    for _ in range(10):
        written = cqlsh(f"CONSISTENCY THREE\nSELECT v FROM {KEYSPACE}.t WHERE k = 1;\n", fails=True)
        if "against any hosts', {})" not in written:
            break
    contains(written, "Cannot achieve consistency level THREE", r"required_replicas\W+3\b", r"alive_replicas\W+1\b")


def tracing(cqlsh):
    written = cqlsh(f"TRACING ON\nSELECT v FROM {KEYSPACE}.t WHERE k = 1;\nTRACING OFF\n")
    contains(written, "TRACING set to ON", "Tracing session: [0-9a-f-]{36}", "Execute CQL3 query", "Request complete")
    contains(written, r"^ one$", "TRACING set to OFF")
    lacks(written, "was not found|Unable to fetch query trace")


def paging(cqlsh):
    inserts = "".join(f"INSERT INTO many (p, c) VALUES ({n % 3}, {n});\n" for n in range(250))
    cqlsh("CREATE TABLE many (p int, c int, PRIMARY KEY (p, c));\n" + inserts, "-k", KEYSPACE)
    written = cqlsh("PAGING 20\nSELECT * FROM many;\n", "-k", KEYSPACE)
    contains(written, r"^\(250 rows\)$", "Page size: 20")
    contains(cqlsh("PAGING OFF\nSELECT * FROM many;\n", "-k", KEYSPACE), r"^\(250 rows\)$")


def source(cqlsh):
    (cqlsh.home / "script.cql").write_text(
        f"USE {KEYSPACE};\n-- a comment\nINSERT INTO t (k, v) VALUES (3, 'a;b');\n/* and\nanother */ SELECT v\nFROM t\nWHERE k = 3;\n"
    )
    contains(cqlsh("SOURCE 'script.cql'\n"), r"^ a;b$")
    contains(cqlsh("", "-f", "script.cql"), r"^ a;b$")


def batches(cqlsh):
    written = cqlsh(
        "BEGIN BATCH\nINSERT INTO t (k, v) VALUES (10, 'x');\nINSERT INTO t (k, v) VALUES (11, 'y');\nAPPLY BATCH;\n"
        "SELECT v FROM t WHERE k = 11;\nINSERT INTO t (k, v) VALUES (11, 'z') IF NOT EXISTS;\n",
        "-k",
        KEYSPACE,
    )
    contains(written, r"^ y$", r"^ \[applied\] \| k  \| ", r"^\s+False \| 11 \|")


def errors(cqlsh):
    contains(cqlsh("SELEC 1;\n", fails=True), r"SyntaxException: line 1:0 no viable alternative at input 'SELEC'")
    contains(cqlsh("SELECT * FROM nowhere.t;\n", fails=True), r"InvalidRequest: Error from server: code=2200")
    contains(cqlsh(f"CREATE TABLE {KEYSPACE}.t (k int PRIMARY KEY);\n", fails=True), r"AlreadyExists: Table 'conf_cqlsh\.t' already exists")


def copy(cqlsh):
    contains(cqlsh("COPY many (p, c) TO 'many.csv' WITH HEADER = true;\n", "-k", KEYSPACE), "250 rows exported to 1 files")
    lines = (cqlsh.home / "many.csv").read_text().splitlines()
    if len(lines) != 251 or len(set(lines)) != 251:
        raise AssertionError(f"{len(lines)} lines, {len(set(lines))} different ones")
    cqlsh("CREATE TABLE copied (p int, c int, PRIMARY KEY (p, c));\n", "-k", KEYSPACE)
    contains(cqlsh("COPY copied (p, c) FROM 'many.csv' WITH HEADER = true;\n", "-k", KEYSPACE), "250 rows imported from 1 files")
    contains(cqlsh("SELECT count(*) FROM copied;\n", "-k", KEYSPACE), r"^\s+250$")


def protocol_versions(cqlsh):
    for version in ("3", "4", "5"):
        written = cqlsh(f"SHOW VERSION\nSELECT v FROM {KEYSPACE}.t WHERE k = 1;\n", f"--protocol-version={version}")
        contains(written, f"Native protocol v{version}", r"^ one$")


CHECKS = [
    banner, create, select, execute_option, expand_and_json, describe, layouts_are_hidden, consistency, tracing,
    paging, source, batches, errors, copy, protocol_versions,
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="cqlsh")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9042)
    parser.add_argument("--expect-nodes", type=int)
    parser.add_argument("--direct")
    parser.add_argument("--tls-ca")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="helenus-cqlsh-") as home:
        cqlsh = Shell(args, pathlib.Path(home))
        for check in CHECKS:
            try:
                check(cqlsh)
                print(f"ok {args.name}/{check.__name__}", flush=True)
            except Exception as error:  # a check may fail in any way; the others still run
                failed += 1
                why = f"{type(error).__name__}: {error}".replace("\n", " ")[:900]
                print(f"FAIL {args.name}/{check.__name__}: {why}", flush=True)
        cqlsh(f"DROP KEYSPACE IF EXISTS {KEYSPACE};\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
