#!/usr/bin/env python3
"""Each feature of the engine can be taken out: the engine compiles without its folder and its lines in the list.

    scripts/check-features.py [NAME...]     default: all
    scripts/check-features.py --two SEED    two of them, chosen by that number
    scripts/check-features.py --list        their names

In a copy of the tree (below target/features) `crates/engine/src/features/NAME` and `NAME.rs` are deleted, and of
`features.rs`, `features/state.rs` and `features/moments.rs` every line that has NAME as a word, with its comment. Then
`cargo check` has to pass for the engine, whose warnings do not count: what only the feature has used is not used any
more.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = tuple(
    f"crates/engine/src/features{name}.rs" for name in ("", "/moments", "/state")
)
# The rest of the list, no features.
NONE = ("moments", "state")


def names():
    text = (ROOT / LISTS[0]).read_text()
    return [name for name in re.findall(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", text, re.M) if name not in NONE]


def copy(tree):
    out = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "Cargo.toml", "Cargo.lock",
         "rust-toolchain.toml", "benches", "crates", "tests", "fuzz"],
        cwd=ROOT, capture_output=True, check=True)
    wanted = {name for name in out.stdout.decode().split("\0") if name and (ROOT / name).is_file()}
    for path in tree.rglob("*"):
        if path.is_file() and str(path.relative_to(tree)) not in wanted:
            path.unlink()
    for name in wanted:
        to = tree / name
        if not to.exists() or to.read_bytes() != (ROOT / name).read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            # With a new time, so that cargo sees it.
            shutil.copyfile(ROOT / name, to)


def without(tree, name):
    word = re.compile(rf"\b{name}\b")
    for path in (tree / of for of in LISTS):
        kept = []
        for line in path.read_text().splitlines(keepends=True):
            if not word.search(line):
                kept.append(line)
                continue
            # With what is said of it.
            while kept and kept[-1].lstrip().startswith("///"):
                kept.pop()
        path.write_text("".join(kept))
    folder = tree / LISTS[1].rpartition("/")[0]
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / f"{name}.rs").unlink(missing_ok=True)
    run = subprocess.run(
        ["cargo", "check", "--locked", "--quiet", "--package", "helenus-engine", "--lib"],
        cwd=tree, capture_output=True, text=True, env=ENVIRONMENT)
    return run.returncode == 0, run.stderr


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if key != "RUSTC_WORKSPACE_WRAPPER"},
    "CARGO_TARGET_DIR": str(TARGET / "features" / "target"),
    "CARGO_TERM_COLOR": "never",
}


def main(arguments):
    known = names()
    if arguments == ["--list"]:
        print("\n".join(known))
        return 0
    if arguments[:1] == ["--two"]:
        seed = int(arguments[1])
        chosen = [known[seed % len(known)], known[(seed // len(known)) % len(known)]]
    else:
        chosen = arguments or known
    unknown = set(chosen) - set(known)
    if unknown:
        print(f"no such feature: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    tree = TARGET / "features" / "tree"
    tree.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in dict.fromkeys(chosen):
        copy(tree)
        passes, said = without(tree, name)
        print(f"{'ok' if passes else 'FAILED'}: the engine without {name}", flush=True)
        if not passes:
            failed += 1
            errors = re.findall(r"^error.*(?:\n.+)*", said, re.M)
            print("\n".join("    " + line for error in errors[:20] for line in error.splitlines()[:3]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
