#!/usr/bin/env python3
"""The seconds of ./test's steps: now, in the last run, and those over their budget.

    seconds.py NOW LAST BUDGETS

NOW has lines of seconds, seconds of a processor, and a step's name; it takes the place of LAST. BUDGETS has lines of seconds
and a step's name; a step without a budget has that of `*`. Budgets are generous: they name steps that have grown, on a machine
that may be busy, and fail nothing. How busy it was does not change the seconds of a processor much.
"""

import pathlib
import sys


def lines(path):
    file = pathlib.Path(path)
    text = file.read_text().splitlines() if file.exists() else []
    return [line for line in text if line and not line.startswith("#")]


def read(path):
    words = (line.split(" ", 2) for line in lines(path))
    return {name: (int(seconds), int(cpu)) for seconds, cpu, name in words}


def main():
    now, last = (read(path) for path in sys.argv[1:3])
    words = (line.split(" ", 1) for line in lines(sys.argv[3]))
    budgets = {name: int(seconds) for seconds, name in words}
    print("seconds (last run)  of a processor (last run)  step")
    for name, (seconds, cpu) in sorted(now.items(), key=lambda of: -of[1][1]):
        before = [f"({number})" for number in last.get(name, ("-", "-"))]
        print(f"{seconds:7} {before[0]:>10}  {cpu:14} {before[1]:>10}  {name}")
    seconds, cpu = (sum(column) for column in zip(*now.values()))
    print(f"{seconds:7} {'':>10}  {cpu:14} {'':>10}  in all; suites beside other steps count, too")
    for name, (seconds, _) in now.items():
        budget = budgets.get(name, budgets.get("*", 0))
        if seconds > budget:
            print(f"over its budget of {budget} s: {name} ({seconds} s)")
    path = pathlib.Path(sys.argv[2])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{seconds} {cpu} {name}\n" for name, (seconds, cpu) in now.items()))


main()
