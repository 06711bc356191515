#!/usr/bin/env python3
"""One cqlsh that is fed a statement when the one before is answered, until standard input ends."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

KEYSPACE = "load_cqlsh"
SETUP = [
    f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1};",
    f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.t (k int PRIMARY KEY, v int);",
]
ERROR = re.compile(r"^<stdin>:(\d+):(.*)")


class Shell:
    def __init__(self, host, port, home):
        command = [pathlib.Path(sys.executable).parent / "cqlsh", "--request-timeout=30", host, str(port)]
        environment = {**os.environ, "HOME": home, "CQLSH_NO_BUNDLED": "1", "PYTHONUNBUFFERED": "1"}
        self.program = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=home,
            env=environment,
        )
        self.lines = 0
        self.errors = []

    def say(self, statement):
        self.lines += 1
        self.program.stdin.write(statement + "\n")
        self.program.stdin.flush()

    def read(self, key):
        """Reads a value, which also waits for the statements before; None if that has failed."""
        self.say(f"SELECT v FROM {KEYSPACE}.t WHERE k = {key};")
        value = None
        for line in self.program.stdout:
            line = line.strip()
            error = ERROR.match(line)
            if error:
                self.errors.append(line[:300])
                if int(error[1]) >= self.lines:
                    return None
            elif line.isdigit():
                value = int(line)
            elif line == "(1 rows)":
                return value
        raise RuntimeError(f"cqlsh has ended with {self.program.wait()}")

    def end(self):
        self.program.stdin.close()
        self.program.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9042)
    args = parser.parse_args()
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    requests, wrong, longest_s = 0, 0, 0.0
    with tempfile.TemporaryDirectory(prefix="helenus-cqlsh-") as home:
        shell = Shell(args.host, args.port, home)
        for statement in SETUP:
            shell.say(statement)
        shell.say(f"INSERT INTO {KEYSPACE}.t (k, v) VALUES (0, 0);")
        shell.read(0)
        shell.errors.clear()
        print("running", flush=True)
        value = 0
        while not stop.is_set():
            value += 1
            began = time.monotonic()
            shell.say(f"INSERT INTO {KEYSPACE}.t (k, v) VALUES (1, {value});")
            before = len(shell.errors)
            found = shell.read(1)
            # Of two requests, one after the other.
            longest_s = max(longest_s, time.monotonic() - began)
            requests += 2
            if found != value and len(shell.errors) == before:
                wrong += 1
        shell.end()
    found = {
        "requests": requests,
        "failed": len(shell.errors) + wrong,
        "longest_ms": round(longest_s * 1000),
        "errors": shell.errors[:3],
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
