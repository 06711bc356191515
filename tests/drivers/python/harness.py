"""Runs named checks one after the other and prints one line for each."""

import argparse
import os
import time
import traceback


class Target:
    """Where the driver connects, and what it should find there."""

    def __init__(self, args):
        self.driver = args.name
        self.host = args.host
        self.port = args.port
        self.expect_nodes = args.expect_nodes
        self.tls_ca = args.tls_ca
        direct_host, _, direct_port = (args.direct or f"{args.host}:{args.port}").rpartition(":")
        # Changes made "by somebody else" go here: behind the proxy when its cluster is named.
        self.direct_host, self.direct_port = direct_host, int(direct_port)
        self.keyspace = "conf_" + args.name.replace("-", "_")


class Checks:
    def __init__(self):
        self.named = []

    def __call__(self, function):
        self.named.append((function.__name__, function))
        return function

    def run(self, target, *context):
        failed = 0
        for name, function in self.named:
            try:
                function(*context)
                print(f"ok {target.driver}/{name}", flush=True)
            except Exception as error:  # a check may fail in any way; the others still run
                failed += 1
                why = f"{type(error).__name__}: {error}".replace("\n", " ")[:600]
                print(f"FAIL {target.driver}/{name}: {why}", flush=True)
                if os.environ.get("HELENUS_DRIVERS_TRACEBACK"):
                    traceback.print_exc()
        return failed


def parse_target(default_name):
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default=default_name)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9042)
    parser.add_argument("--expect-nodes", type=int)
    parser.add_argument("--direct")
    parser.add_argument("--tls-ca")
    return Target(parser.parse_args())


def equal(found, wanted, what="value"):
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r:.200}, wanted {wanted!r:.200}")


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def raises(error_class, function):
    """Calls `function` and returns the error of the wanted class that it raised."""
    try:
        result = function()
    except error_class as error:
        return error
    raise AssertionError(f"no {error_class.__name__}, but {result!r:.120}")


def eventually(condition, what, within_s=15.0):
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:.0f} s: {what}")
        time.sleep(0.1)
