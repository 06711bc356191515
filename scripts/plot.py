#!/usr/bin/env python3
"""Draws docs/times.svg, the plot of the README, from figures in the tables of docs/benchmarks.md.

    scripts/plot.py [--check]

--check: writes nothing; exit status 1 if the plot is not what this script makes.
"""

import html
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs/benchmarks.md"
PLOT = ROOT / "docs/times.svg"

# A row of a table; the column whose cell says "direct → Helenus", or the columns of both; and how the plot calls it.
ROWS = [
    ("5:5, 1,000", ["point, p99"], "point read p99 beside scans, 1,000 clients"),
    ("5:5, 250", ["point, p99"], "point read p99 beside scans, 250 clients"),
    ("9:1, 250", ["point, p99"], "point read p99, one scan in ten, 250 clients"),
    ("5:5, 8", ["point, mean"], "point read mean beside scans, 8 clients"),
    ("5:5, 250", ["scan, mean"], "scan mean beside point reads, 250 clients"),
    ("plain client, 9:1, 50", ["scan, mean"], "scan mean, one scan in ten, plain client"),
    ("a node stands still for 5 s, ONE", ["token-aware", "Helenus"], "read p99, one node of three stands still"),
    ("a node stands still for 5 s, ONE", ["Java", "Helenus"], "the same over the Java driver"),
    ("a node compacts, ONE", ["token-aware", "Helenus"], "read p99, one node of three compacts"),
    ("a node compacts, ONE", ["Java", "Helenus"], "the same over the Java driver"),
    ("a node stalls again and again, QUORUM", ["Java", "Helenus"], "read p99 at QUORUM, one stalls, Java driver"),
    ("of a destination", ["mean"], "read mean by another column, with a layout"),
]

WIDTH, LEFT, RIGHT, TOP, STEP = 860, 318, 92, 62, 30
FROM_MS, TO_MS = 3.0, 100_000.0
TICKS = [(10, "10 ms"), (100, "100 ms"), (1_000, "1 s"), (10_000, "10 s")]

STYLE = """
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; }
  .small { font-size: 12px; fill: #57606a; }
  .card { fill: #ffffff; stroke: #d0d7de; }
  .grid { stroke: #d8dee4; }
  .way { stroke: #8c959f; stroke-width: 2; }
  .direct { fill: #ffffff; stroke: #b35900; stroke-width: 2.5; }
  .helenus { fill: #0b5cad; stroke: #0b5cad; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
    .card { fill: #0d1117; stroke: #3d444d; }
    .grid { stroke: #2a3038; }
    .way { stroke: #656c76; }
    .direct { fill: #0d1117; stroke: #f0a35a; }
    .helenus { fill: #6cb6ff; stroke: #6cb6ff; }
  }
"""


def figures():
    """Cells of all tables, as text, by row and column; a loss is bold there, which does not matter here."""
    found, columns = {}, None
    for line in FIGURES.read_text().splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        columns = columns or cells
        for column, cell in zip(columns[1:], cells[1:]):
            found.setdefault((cells[0], column), cell)
    return found


def milliseconds(known, row, columns):
    """Direct and Helenus. Where a cell has no unit, its table is in milliseconds."""
    cells = [known.get((row, column)) for column in columns]
    if None in cells:
        sys.exit(f"{FIGURES.relative_to(ROOT)} has no row {row!r} with {columns}")
    direct, helenus, unit = re.fullmatch(r"([\d.,]+) → ([\d.,]+)(?: (ms|s))?", " → ".join(cells)).groups()
    factor = 1000 if unit == "s" else 1
    return [float(number.replace(",", "")) * factor for number in (direct, helenus)]


def at(ms):
    share = math.log(ms / FROM_MS) / math.log(TO_MS / FROM_MS)
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)


def times(direct, helenus):
    ratio = direct / helenus
    if ratio >= 1:
        return f"{ratio:.0f} × shorter" if ratio >= 10 else f"{ratio:.1f} × shorter"
    return f"{1 / ratio:.1f} × longer"


def drawn():
    known = figures()
    bottom = TOP + STEP * len(ROWS)
    height = bottom + 34
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        "<title>Times of queries directly at the nodes and through Helenus</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        f'<circle class="direct" cx="{LEFT + 7}" cy="26" r="6"/><text x="{LEFT + 20}" y="30">directly at the nodes</text>',
        f'<circle class="helenus" cx="{LEFT + 207}" cy="26" r="6"/><text x="{LEFT + 220}" y="30">through Helenus</text>',
        f'<text class="small" x="{WIDTH - 14}" y="30" text-anchor="end">left is better, log scale</text>',
    ]
    for ms, label in TICKS:
        x = at(ms)
        out.append(f'<line class="grid" x1="{x}" y1="{TOP - 12}" x2="{x}" y2="{bottom}"/>')
        out.append(f'<text class="small" x="{x}" y="{bottom + 18}" text-anchor="middle">{label}</text>')
    for number, (row, columns, label) in enumerate(ROWS):
        direct, helenus = milliseconds(known, row, columns)
        y = TOP + STEP * number + 8
        end = max(at(direct), at(helenus))
        out += [
            f'<text x="{LEFT - 14}" y="{y + 4}" text-anchor="end">{html.escape(label)}</text>',
            f'<line class="way" x1="{at(direct)}" y1="{y}" x2="{at(helenus)}" y2="{y}"/>',
            f'<circle class="direct" cx="{at(direct)}" cy="{y}" r="6"/>',
            f'<circle class="helenus" cx="{at(helenus)}" cy="{y}" r="6"/>',
            f'<text class="small" x="{end + 12}" y="{y + 4}">{times(direct, helenus)}</text>',
        ]
    return "\n".join([*out, "</svg>", ""])


def main():
    if sys.argv[1:] == ["--check"]:
        if not PLOT.exists() or PLOT.read_text() != drawn():
            sys.exit(f"{PLOT.relative_to(ROOT)} is not what the tables say: run scripts/plot.py")
    elif sys.argv[1:]:
        sys.exit(__doc__.strip())
    else:
        PLOT.write_text(drawn())


main()
