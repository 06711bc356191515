"""Threads that write and read, one request after the other, until standard input ends."""

import json
import sys
import threading
import time

ERRORS_MAX = 3


class Loop:
    def __init__(self):
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.requests = self.failed = 0
        self.longest_s = 0.0
        self.errors = []

    def run(self, tasks):
        """Each task is a pair of functions: to write a value of a key, and to read it."""
        threads = [threading.Thread(target=self.repeat, args=(key, *task)) for key, task in enumerate(tasks)]
        for thread in threads:
            thread.start()
        print("running", flush=True)
        sys.stdin.read()
        self.stop.set()
        for thread in threads:
            thread.join()
        found = {
            "requests": self.requests,
            "failed": self.failed,
            "longest_ms": round(self.longest_s * 1000),
            "errors": self.errors,
        }
        print(json.dumps(found), flush=True)

    def repeat(self, key, write, read):
        value = 0
        while not self.stop.is_set():
            value += 1
            if self.one(lambda: write(key, value)) is not None:
                continue
            found = []
            if self.one(lambda: found.append(read(key))) is None and found != [value]:
                self.note_error(f"key {key} is {found}, not {value}")

    def one(self, request):
        """Carries out a request, and returns its error."""
        began = time.monotonic()
        error = None
        try:
            request()
        except Exception as caught:  # whatever it is, the client has not got its answer
            error = caught
            self.note_error(f"{type(caught).__name__}: {caught}")
        took = time.monotonic() - began
        with self.lock:
            self.requests += 1
            self.longest_s = max(self.longest_s, took)
        return error

    def note_error(self, text):
        with self.lock:
            self.failed += 1
            if len(self.errors) < ERRORS_MAX:
                self.errors.append(text[:300])
