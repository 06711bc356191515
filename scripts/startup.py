#!/usr/bin/env python3
"""How long `helenus serve` takes from its start until it answers a client, what memory it then has, and how long it
takes to stop: scripts/startup.py PROGRAM CONTACT_POINTS [TIMES]

Each time a new process serves on a free port of 127.0.0.1, is asked OPTIONS until it answers SUPPORTED, and gets
SIGTERM. The nodes must be up.
"""

import os
import pathlib
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

GIVEN_UP_S = 30
# Protocol v4, stream 0, OPTIONS (5) without a body.
OPTIONS = struct.pack(">BBHBI", 4, 0, 0, 5, 0)
HEADER_BYTES = 9
SUPPORTED = 6


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_served(port):
    """Whether a client that connects now is answered."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as client:
            client.sendall(OPTIONS)
            answer = client.recv(HEADER_BYTES)
            return len(answer) == HEADER_BYTES and answer[4] == SUPPORTED
    except OSError:
        return False


def memory_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE).group(1))


def measure(program, contact_points):
    """Milliseconds to the first answer, MiB, and milliseconds to the end."""
    port = free_port()
    command = [program, "serve", "--contact-points", contact_points]
    command += ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{free_port()}"]
    # Settings of this shell are not measured.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HELENUS_")}
    log = tempfile.TemporaryFile()
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        while not is_served(port):
            if process.poll() is not None:
                log.seek(0)
                sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{log.read().decode()}")
            if time.monotonic() - began > GIVEN_UP_S:
                sys.exit(f"{' '.join(command)} did not serve within {GIVEN_UP_S} s")
            time.sleep(0.001)
        ready_ms = (time.monotonic() - began) * 1000
        mebibytes = memory_kib(process.pid) / 1024
        stopped = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(GIVEN_UP_S)
        return ready_ms, mebibytes, (time.monotonic() - stopped) * 1000
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    times = int(sys.argv[3]) if len(sys.argv) == 4 else 20
    if times < 1:
        sys.exit(__doc__)
    runs = [measure(sys.argv[1], sys.argv[2]) for _ in range(times)]
    for name, values in zip(("first answer, ms", "memory then, MiB", "SIGTERM to end, ms"), zip(*runs)):
        print(f"{name}: median {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})")


if __name__ == "__main__":
    main()
