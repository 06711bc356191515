#!/usr/bin/env python3
"""Each feature of the engine can be taken out: the engine compiles without its folder and its lines in the list.

    scripts/check-features.py [NAME...]     default: all
    scripts/check-features.py --two SEED    two of them, chosen by that number
    scripts/check-features.py --list        their names

In a copy of the engine (below target/features) `src/features/NAME` and `NAME.rs` are deleted, and of `features.rs`,
`features/state.rs` and `features/moments.rs` every line that has NAME as a word, with its comment. Then the compiler
has to pass it, whose warnings do not count: what only the feature has used is not used any more. It gets the libraries
that cargo has built for the engine as it is, which are compiled first if they are not yet.
"""

import json
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
ENGINE = "crates/engine"
# The rest of the list, no features.
NONE = ("moments", "state")


def names():
    text = (ROOT / LISTS[0]).read_text()
    return [name for name in re.findall(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", text, re.M) if name not in NONE]


def copy(tree):
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT / ENGINE, tree / ENGINE)


def without(tree, name, compiler):
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
    run = subprocess.run([*compiler, str(tree / ENGINE / "src/lib.rs")], cwd=ROOT, capture_output=True, text=True)
    return run.returncode == 0, run.stderr


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments, "--locked"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def compiler(out):
    """The compiler's command line for the engine, but for the file, as cargo would have it."""
    # Of the whole workspace with a test, as ./test builds: another selection has other features of third-party crates.
    built = cargo("build", "--quiet", "--workspace", "--bins", "--test", "login", "--message-format", "json")
    libraries = {}
    for message in map(json.loads, built.splitlines()):
        if message["reason"] == "compiler-artifact" and {"lib", "proc-macro"} & set(message["target"]["kind"]):
            files = [file for file in message["filenames"] if file.endswith((".rlib", ".so"))]
            libraries.update({message["package_id"]: file for file in files})
    metadata = json.loads(cargo("metadata", "--format-version", "1"))
    [package] = [package for package in metadata["packages"] if package["name"] == "helenus-engine"]
    [node] = [node for node in metadata["resolve"]["nodes"] if node["id"] == package["id"]]
    line = ["env", f"CARGO_PKG_VERSION={package['version']}", f"CARGO_MANIFEST_DIR={ROOT / ENGINE}", "rustc",
            "--crate-name", "helenus_engine", "--crate-type", "lib", "--edition", package["edition"],
            "--emit", "metadata", "--out-dir", str(out), "--cap-lints", "allow", "--color", "never",
            "-L", f"dependency={Path(libraries[package['id']]).parent}"]
    for feature in node["features"]:
        line += ["--cfg", f'feature="{feature}"']
    for dependency in node["deps"]:
        if any(kind["kind"] is None for kind in dependency["dep_kinds"]) and dependency["pkg"] in libraries:
            line += ["--extern", f"{dependency['name']}={libraries[dependency['pkg']]}"]
    return line


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


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
    line = compiler(tree)
    failed = 0
    for name in dict.fromkeys(chosen):
        copy(tree)
        passes, said = without(tree, name, line)
        print(f"{'ok' if passes else 'FAILED'}: the engine without {name}", flush=True)
        if not passes:
            failed += 1
            errors = re.findall(r"^error.*(?:\n.+)*", said, re.M)
            print("\n".join("    " + line for error in errors[:20] for line in error.splitlines()[:3]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
