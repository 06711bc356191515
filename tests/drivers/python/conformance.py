#!/usr/bin/env python3
"""The common script with the Python driver (and with forks that keep its API)."""

import ssl
import sys
import time

from cassandra.cluster import Cluster

import metadata
import statements
import transport
import values
from harness import Checks, parse_target


class Context:
    """One session in the driver's default configuration, and means to open others."""

    def __init__(self, target):
        self.target = target
        self.keyspace = target.keyspace
        self.tls = {}
        if target.tls_ca:
            context = ssl.create_default_context(cafile=target.tls_ca)
            # The proxy is found by address; which names its certificate has is not the point here.
            context.check_hostname = False
            self.tls["ssl_context"] = context
        self.cluster = self.open()
        self.session = self.cluster.connect()

    def open(self, **options):
        return Cluster([self.target.host], port=self.target.port, **self.tls, **options)

    def open_direct(self):
        return Cluster([self.target.direct_host], port=self.target.direct_port)

    def table(self, name):
        return f"{self.keyspace}.{name}"


def main():
    target = parse_target("python")
    checks = Checks()
    context = []

    @checks
    def connect():
        context.append(Context(target))
        session = context[0].session
        session.execute(f"DROP KEYSPACE IF EXISTS {target.keyspace}", timeout=30)
        session.execute(
            f"CREATE KEYSPACE {target.keyspace} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}",
            timeout=30,
        )

    if checks.run(target):
        sys.exit(1)

    checks = Checks()
    for module in (metadata, values, statements, transport):
        module.register(checks)
    failed = checks.run(target, context[0])
    context[0].session.execute(f"DROP KEYSPACE {target.keyspace}", timeout=30)
    context[0].cluster.shutdown()
    time.sleep(0)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
