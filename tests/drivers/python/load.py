#!/usr/bin/env python3
"""A small closed loop with the Python driver (and with forks that keep its API), until standard input ends."""

import sys

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy

from harness import parse_target
from loop import Loop

TASKS = 8
# Each with a connection of its own, and one for events.
SESSIONS = 2


def main():
    target = parse_target("python")
    keyspace = f"load_{target.driver.replace('-', '_')}"
    profiles = {EXEC_PROFILE_DEFAULT: ExecutionProfile(retry_policy=FallthroughRetryPolicy())}
    clusters = [
        Cluster([target.host], port=target.port, execution_profiles=profiles) for _ in range(SESSIONS)
    ]
    sessions = [cluster.connect() for cluster in clusters]
    sessions[0].execute(
        f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}",
        timeout=30,
    )
    sessions[0].execute(f"CREATE TABLE IF NOT EXISTS {keyspace}.t (k int PRIMARY KEY, v int)", timeout=30)
    loop = Loop()

    def task(session):
        write = session.prepare(f"INSERT INTO {keyspace}.t (k, v) VALUES (?, ?)")
        read = session.prepare(f"SELECT v FROM {keyspace}.t WHERE k = ?")
        return (
            lambda key, value: session.execute(write, (key, value)),
            lambda key: session.execute(read, (key,)).one().v,
        )

    loop.run([task(sessions[number % SESSIONS]) for number in range(TASKS)])
    for cluster in clusters:
        cluster.shutdown()
    sys.exit(0)


if __name__ == "__main__":
    main()
