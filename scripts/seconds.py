#!/usr/bin/env python3
"""The seconds of ./test's steps: now, in the last run, and those over their budget.

    seconds.py NOW LAST BUDGETS

NOW and BUDGETS have lines of seconds and a step's name; NOW takes the place of LAST. A step without a budget has that of
`*`. Budgets are generous: they name steps that have grown, on a machine that may be busy, and fail nothing.
"""

import pathlib
import sys


def read(path):
    lines = pathlib.Path(path).read_text().splitlines() if pathlib.Path(path).exists() else []
    words = (line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: int(seconds) for seconds, name in words}


def main():
    now, last, budgets = (read(path) for path in sys.argv[1:4])
    print("seconds (last run) step")
    for name, seconds in sorted(now.items(), key=lambda of: -of[1]):
        before = f"({last[name]})" if name in last else "(-)"
        print(f"{seconds:7} {before:>10} {name}")
    print(f"{sum(now.values()):7} {'':>10} in all; suites beside other steps count, too")
    for name, seconds in now.items():
        budget = budgets.get(name, budgets.get("*", 0))
        if seconds > budget:
            print(f"over its budget of {budget} s: {name} ({seconds} s)")
    lines = (f"{seconds} {name}\n" for name, seconds in now.items())
    path = pathlib.Path(sys.argv[2])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


main()
