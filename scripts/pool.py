#!/usr/bin/env python3
"""The clusters that suites hand on to each other (tests/src/pool.rs), each in a folder of the pool's.

    pool.py keep POOL PID    ends them when the process PID ends, for whatever reason
    pool.py end POOL         ends them now, and says how many seconds of a processor their nodes have used
    pool.py freeze POOL      stops the nodes of those that nobody uses: idle, each costs two hundredths of a processor.
                             Of many, those that were used last: a node takes about 850 MiB. The others are ended.
"""

import fcntl
import os
import pathlib
import select
import shutil
import signal
import sys
import time

# Of clusters that nobody uses.
NODES_MAX = 8


def nodes(fits):
    """Processes of nodes whose cluster's folder fits (crates/cluster/src/node.rs, cluster_mark)."""
    mark = b"-Dhelenus.cluster="
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        folders = (argument.removeprefix(mark).decode() for argument in arguments if argument.startswith(mark))
        if any(map(fits, folders)):
            yield int(process.name)


def nodes_in(pool):
    return list(nodes(lambda folder: folder.startswith(os.path.abspath(pool) + "/")))


def send(pids, what):
    for pid in pids:
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass


def cpu_seconds(pid):
    try:
        after_name = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    user, system = int(after_name[11]), int(after_name[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def spend(pool, pids):
    """Notes what these have used, as they are about to end."""
    with open(os.path.join(pool, "spent"), "a") as file:
        file.writelines(f"{cpu_seconds(pid)}\n" for pid in pids)


def end(pool):
    if not os.path.isdir(pool):
        return 0
    counted = set()
    # One may just be starting.
    for _ in range(20):
        pids = nodes_in(pool)
        if not pids:
            break
        spend(pool, set(pids) - counted)
        counted.update(pids)
        send(pids, signal.SIGKILL)
        time.sleep(0.3)
    spent = pathlib.Path(pool, "spent")
    used = sum(map(float, spent.read_text().split())) if spent.exists() else 0
    shutil.rmtree(pool, ignore_errors=True)
    return used


def keep(pool, pid):
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        descriptor = None
    if descriptor is not None:
        select.select([descriptor], [], [])
    end(pool)


def freeze(pool):
    # The file is made anew by each taker.
    locks = sorted(pathlib.Path(pool).glob("*/lock"), key=lambda lock: -lock.stat().st_mtime)
    kept = 0
    for path in locks:
        with open(path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            pids = list(nodes(lambda folder: folder == os.path.abspath(path.parent)))
            if kept + len(pids) <= NODES_MAX:
                kept += len(pids)
                send(pids, signal.SIGSTOP)
            else:
                # Whoever takes it starts others.
                spend(pool, pids)
                send(pids, signal.SIGKILL)


def main():
    match sys.argv[1:]:
        case ["keep", pool, pid]:
            keep(pool, int(pid))
        case ["end", pool]:
            print(round(end(pool)))
        case ["freeze", pool]:
            freeze(pool)
        case _:
            sys.exit(__doc__)


main()
