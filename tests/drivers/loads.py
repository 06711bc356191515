"""Drivers' programs that write and read in a closed loop until they are stopped, and a node for them."""

import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import time

from environments import DRIVERS, HERE

END_S = 30
PROGRAM = pathlib.Path(os.environ.get("HELENUS_BIN") or HERE.parent.parent / "target" / "debug" / "helenus")


class Failure(Exception):
    pass


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def eventually(what, seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(0.02)


class Load:
    """A driver's program."""

    def __init__(self, name, port):
        self.name = name
        self.lines = []
        self.errors = tempfile.TemporaryFile("w+")
        command = [*DRIVERS[name]("load"), "--name", name, "--host", "127.0.0.1", "--port", str(port)]
        self.program = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.program.stdout:
            self.lines.append(line.strip())

    def is_running(self):
        if self.program.poll() is not None:
            raise Failure(f"{self.name} has ended with {self.program.returncode}: {self.said()}")
        return "running" in self.lines

    def said(self):
        self.errors.seek(0)
        return f"{self.lines[-3:]} {self.errors.read()[-1500:]}"

    def stop(self):
        """Returns what it has counted."""
        try:
            self.program.stdin.close()
            self.program.wait(END_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.kill()
            raise Failure(f"{self.name} does not end: {error}") from None
        self.reader.join(END_S)
        try:
            return json.loads(self.lines[-1])
        except (IndexError, ValueError):
            raise Failure(f"{self.name} has counted nothing: {self.said()}") from None

    def kill(self):
        self.program.kill()
        self.program.wait()


class Cluster:
    """A node of its own."""

    def __init__(self, folder):
        self.options = ["--name", f"loads-{os.getpid()}", "--dir", str(folder / "cluster")]

    def __enter__(self):
        try:
            subprocess.run([PROGRAM, "cluster", "up", "--nodes", "1", "--heap-mib", "512", "--short-lived", *self.options], check=True)
            status = subprocess.run(
                [PROGRAM, "cluster", "status", "--json", *self.options], check=True, capture_output=True
            )
            return json.loads(status.stdout)["nodes"][0]["address"]
        except BaseException:
            # Then nobody calls __exit__.
            self.__exit__()
            raise

    def __exit__(self, *_):
        subprocess.run([PROGRAM, "cluster", "down", *self.options], capture_output=True)
