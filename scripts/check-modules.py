#!/usr/bin/env python3
"""No circle of modules inside a crate.

    scripts/check-modules.py [crate...]     default: all in crates/, less the exceptions below

A file depends on another if it names an item of it, in `use` or in a path such as `super::parse::name(…)`,
or if it calls on `self` a method that another file gives to the same type. Names are followed through
re-exports to the file that defines them: a parent that only declares or re-exports its children does not
depend on them. Who asks a list of features does not depend on them either. Tests, comments and strings do not
count, and neither do methods called on anything else but `self`, whose types are not known here.

Methods of some types (METHODS_IN) may be in one folder only.

Files on circles are shown with the shortest one through each, the shortest five of a crate, and the exit status
is 1. Files of more than
430 lines are only mentioned. Long functions are clippy's business (`too_many_lines`).
"""

import re
import sys
from pathlib import Path

# Circles within these are counted only: a crate, or a folder in its sources, and why.
EXCEPTIONS = {
    "sim/chaos": "the same with its World",
}
# Lists of what a crate can do without: whoever asks a list knows nothing of what is on it, so that is no dependency.
# That nobody else names what is on it, and that it can be taken out, `check-features.py` sees to.
LISTS = {"engine": ["features.rs", "features/moments.rs", "features/state.rs"]}
# Types whose methods live in one folder, which alone sees their fields.
METHODS_IN = {"engine": {"Engine": "pipeline"}}
LINES_MAX = 430
# Of the circles of a crate: one import may close dozens.
SHOWN_MAX = 5

TOKEN = re.compile(
    r"""
      (?P<space>\s+ | //[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>b?c?r(?P<hashes>\#*)".*?"(?P=hashes))
    | (?P<string>[bc]?"(?:\\.|[^"\\])*")
    | (?P<char>b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])')
    | (?P<lifetime>'[A-Za-z_]\w*)
    | (?P<name>(?:r\#)?[A-Za-z_]\w*)
    | (?P<number>\d[\w.]*?(?=\.\.|\.[A-Za-z_]|[^\w.]|$))
    | (?P<colons>::)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
OPEN = {"{": "}", "(": ")", "[": "]"}
ITEM_WORDS = {"fn", "struct", "enum", "trait", "type", "const", "static", "unsafe", "async"}


def tokens_of(text):
    """Pairs of token and line, without comments, strings and lifetimes."""
    found = []
    at = 0
    line = 1
    while at < len(text):
        match = TOKEN.match(text, at)
        end = match.end()
        kind = match.lastgroup if match.lastgroup != "hashes" else "raw"
        if kind == "block":
            depth = 1
            while depth and end < len(text):
                if text.startswith("/*", end):
                    depth, end = depth + 1, end + 2
                elif text.startswith("*/", end):
                    depth, end = depth - 1, end + 2
                else:
                    end += 1
        elif kind in ("name", "colons", "mark"):
            found.append((match.group().removeprefix("r#"), line))
        elif kind in ("raw", "string", "char", "number"):
            found.append(("0", line))
        line += text.count("\n", at, end)
        at = end
    return found


def end_of_group(tokens, start):
    """The index behind the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index][0]
        if token in OPEN:
            depth += 1
        elif token in OPEN.values():
            depth -= 1
            if depth == 0:
                return index + 1
    return len(tokens)


def end_of_item(tokens, start):
    """The index behind the item, field, variant or statement at `start`."""
    ends = (";",) if tokens[start][0] in ITEM_WORDS | {"pub", "impl", "use", "mod", "let"} else (";", ",")
    index = start
    while index < len(tokens):
        token = tokens[index][0]
        if token in ends:
            return index + 1
        if token in OPEN:
            index = end_of_group(tokens, index)
            if token == "{":
                return index
        elif token in OPEN.values():
            return index
        else:
            index += 1
    return index


class Module:
    def __init__(self, name, parent, file):
        self.name = name
        self.parent = parent
        self.file = file
        self.children = {}
        self.items = set()
        # Name → path; a path is a tuple of segments, which the module itself resolves.
        self.imports = {}
        self.globs = []
        # (path, line, the name if it is a re-export)
        self.paths = []
        # Names used in code, outside of `use`, and the line of their first use.
        self.words = {}

        self.blocks = []

    def root(self):
        return self if self.parent is None else self.parent.root()

    def add_uses(self, tokens, public):
        """Reads the tree of one `use`."""

        def tree(index, prefix):
            path = list(prefix)
            line = tokens[index][1]
            while index < len(tokens):
                token, line = tokens[index]
                if token == "::":
                    index += 1
                elif token == "{":
                    index += 1
                    while tokens[index][0] != "}":
                        index = tree(index, path)
                        if tokens[index][0] == ",":
                            index += 1
                    return index + 1
                elif token == "*":
                    self.globs.append(tuple(path))
                    return index + 1
                else:
                    path.append(token)
                    index += 1
                    if index >= len(tokens) or tokens[index][0] != "::":
                        break
            if path and path[-1] == "self":
                path.pop()
            name = path[-1]
            if index < len(tokens) and tokens[index][0] == "as":
                name = tokens[index + 1][0]
                index += 2
            self.imports[name] = tuple(path)
            self.paths.append((tuple(path), line, name if public else None))
            return index

        tree(0, [])


class Block:
    """An `impl`."""

    def __init__(self):
        self.path = []
        self.inherent = False
        self.methods = set()
        # Methods called on `self` or `Self`, and the line of their first call.
        self.calls = {}


class Crate:
    def __init__(self, folder):
        self.roots = []
        self.lines = {}
        source = folder / "src"
        roots = [source / "lib.rs", source / "main.rs", *sorted(source.glob("bin/*.rs"))]
        for file in roots:
            if file.exists():
                root = Module("crate", None, file)
                self.read(root, file.parent)
                self.roots.append(root)

    def read(self, module, folder):
        text = module.file.read_text()
        self.lines[module.file] = text.count("\n")
        self.scan(module, tokens_of(text), folder)

    def scan(self, module, tokens, folder):
        """Reads the items and paths of a module. `folder` holds the files of its children."""
        index = 0
        depth = 0
        public = False
        test = False
        # The `impl` block that is being read, and the depth behind it.
        block = None
        outside = 0
        while index < len(tokens):
            token = tokens[index][0]
            before = tokens[index - 1][0] if index else ""
            after = tokens[index + 1][0] if index + 1 < len(tokens) else ""
            if token == "#" and after in ("[", "!"):
                start = index + (1 if after == "[" else 2)
                end = end_of_group(tokens, start)
                words = [word for word, _ in tokens[start + 1 : end - 1]]
                if words in (["cfg", "(", "test", ")"], ["test"]):
                    test = True
                index = end
                continue
            if test:
                index = end_of_item(tokens, index)
                test = False
                public = False
                continue
            if token == "pub":
                public = True
                index += 1
                if index < len(tokens) and tokens[index][0] == "(":
                    index = end_of_group(tokens, index)
                continue
            if token == "use":
                end = index
                while tokens[end][0] != ";":
                    end += 1
                module.add_uses(tokens[index + 1 : end], public)
                index = end + 1
            elif token == "mod" and index + 2 < len(tokens) and tokens[index + 2][0] in (";", "{"):
                index = self.child(module, tokens, index, folder)
            elif token in ("unsafe", "async", "const") and after in ITEM_WORDS:
                index += 1
            elif token in ITEM_WORDS and re.match(r"[A-Za-z_]", after):
                if depth == 0:
                    module.items.add(after)
                elif block and token == "fn" and depth == outside + 1:
                    block.methods.add(after)
                index += 2
            elif token == "impl" and depth == 0 and before in ("", "}", ";", "]", "unsafe"):
                block, index = self.impl(module, tokens, index)
                outside = depth
            elif block and [word for word, _ in tokens[index : index + 4 : 3]] == ["self", "("] and after == ".":
                block.calls.setdefault(tokens[index + 2][0], tokens[index][1])
                index += 3
            elif block and token == "Self" and after == "::":
                block.calls.setdefault(tokens[index + 2][0], tokens[index][1])
                index += 3
            elif token == "{":
                depth += 1
                index += 1
            elif token == "}":
                depth -= 1
                if depth == outside:
                    block = None
                index += 1
            elif token == "macro_rules" and after == "!":
                module.items.add(tokens[index + 2][0])
                index += 3
            elif re.match(r"[A-Za-z_]", token):
                index = self.path(module, tokens, index)
            else:
                index += 1
            public = False

    def impl(self, module, tokens, index):
        """Reads the head of an `impl`, up to its `{`. A trait's methods belong to no block."""
        end = index
        while tokens[end][0] not in ("{", "where"):
            end += 1
        words = [word for word, _ in tokens[index + 1 : end]]
        if words[0] == "<":
            level = 0
            for at, word in enumerate(words):
                level += (word == "<") - (word == ">" and words[at - 1] != "-")
                if level == 0:
                    words = words[at + 1 :]
                    break
        block = Block()
        name = words[words.index("for") + 1 :] if "for" in words else words
        while name and re.match(r"[A-Za-z_]|::", name[0]):
            word = name.pop(0)
            if word != "::":
                block.path.append(word)
        block.inherent = "for" not in words
        module.blocks.append(block)
        # The paths in the head count too.
        return block, index + 1

    def child(self, module, tokens, index, folder):
        name = tokens[index + 1][0]
        if tokens[index + 2][0] == "{":
            end = end_of_group(tokens, index + 2)
            child = Module(name, module, module.file)
            module.children[name] = child
            self.scan(child, tokens[index + 3 : end - 1], folder / name)
            return end
        for file in (folder / f"{name}.rs", folder / name / "mod.rs"):
            if file.exists():
                child = Module(name, module, file)
                module.children[name] = child
                self.read(child, folder / name)
        return index + 3

    def path(self, module, tokens, index):
        """Reads a name or a path in code."""
        line = tokens[index][1]
        path = [tokens[index][0]]
        before = tokens[index - 1][0] if index else ""
        index += 1
        while (
            index + 1 < len(tokens)
            and tokens[index][0] == "::"
            and re.match(r"[A-Za-z_]", tokens[index + 1][0])
        ):
            path.append(tokens[index + 1][0])
            index += 2
        if before not in (".", "::"):
            module.words.setdefault(path[0], line)
            if len(path) > 1:
                module.paths.append((tuple(path), line, None))
        return index

    def resolve(self, module, path, seen=frozenset()):
        """The module that a path names, or (module, name) of an item; None if it is of another crate."""
        rest = list(path)
        at = module
        if rest[0] == "crate":
            at = module.root()
            rest.pop(0)
        elif rest[0] == "self":
            rest.pop(0)
        elif rest[0] != "super":
            at = self.lookup(module, rest.pop(0), not rest, seen)
        while isinstance(at, Module) and rest:
            name = rest.pop(0)
            if name == "super":
                at = at.parent
                continue
            # A macro may define what is not seen here.
            known = name not in at.imports
            at = self.lookup(at, name, not rest, seen) or ((at, name) if known else None)
        return at

    def lookup(self, module, name, last, seen):
        """Like `resolve`, of one name in a module's scope; None also if it is not there."""
        if (module, name) in seen:
            # `use rand;` names another crate.
            return None
        seen = seen | {(module, name)}
        if last and name in module.items:
            return module, name
        if name in module.children:
            return module.children[name]
        if name in module.items:
            return module, name
        if name in module.imports:
            return self.resolve(module, module.imports[name], seen)
        for glob in module.globs:
            target = self.resolve(module, glob, seen)
            if isinstance(target, Module):
                found = self.lookup(target, name, last, seen)
                if found:
                    return found
        return None

    def edges(self):
        """File → file → (name, line) of the first use."""
        edges = {}
        for root in self.roots:
            for module in modules(root):
                words = [((word,), line, None) for word, line in module.words.items() if module.globs]
                for path, line, exported in module.paths + words:
                    if exported is not None and exported not in module.words:
                        continue
                    target = self.resolve(module, path)
                    # A module alone is no item; what is used of it is a path of its own.
                    if isinstance(target, tuple) and target[0].file != module.file:
                        edges.setdefault(module.file, {}).setdefault(target[0].file, (target[1], line))
        self.add_calls(edges)
        return edges

    def add_calls(self, edges):
        """The methods of one type may be in several files: a call on `self` then is an edge as well."""
        types = {}
        for root in self.roots:
            for module in modules(root):
                for block in module.blocks:
                    target = block.path and self.resolve(module, block.path)
                    if isinstance(target, tuple):
                        types.setdefault(target, []).append((module.file, block))
        for blocks in types.values():
            files = {}
            for file, block in blocks:
                if block.inherent:
                    for method in block.methods:
                        files[method] = file
            for file, block in blocks:
                for method, line in block.calls.items():
                    to = files.get(method, file)
                    if to != file:
                        edges.setdefault(file, {}).setdefault(to, (f"{method}()", line))


def modules(root):
    yield root
    for child in root.children.values():
        yield from modules(child)


def shortest_circle(edges, start):
    """The files of the shortest circle through `start`, or None."""
    came_from = {}
    front = [start]
    while front:
        following = []
        for file in front:
            for to in sorted(edges.get(file, {})):
                if to == start:
                    circle = [file]
                    while circle[-1] != start:
                        circle.append(came_from[circle[-1]])
                    return circle[::-1]
                if to not in came_from:
                    came_from[to] = file
                    following.append(to)
        front = following
    return None


def circles_of(edges):
    """The shortest circle through each file, the shortest first."""
    found = {}
    for start in edges:
        circle = shortest_circle(edges, start)
        if circle:
            first = circle.index(min(circle))
            circle = circle[first:] + circle[:first]
            found[tuple(circle)] = None
    return sorted(found, key=lambda circle: (len(circle), circle))


def check(crates, name, excepted):
    """Prints the circles of a crate, but for the excepted; returns whether there are others."""
    source = crates / name / "src"
    crate = Crate(crates / name)
    if not crate.roots:
        sys.exit(f"{name}: no such crate in crates/")

    def shown(file):
        return str(file.relative_to(source))

    edges = crate.edges()
    lists = {source / file for file in LISTS.get(name, ())}
    for file, to in edges.items():
        if file not in lists:
            edges[file] = {other: used for other, used in to.items() if other not in lists}
    circles = circles_of(edges)
    for prefix, why in excepted.items():
        inside = (f"{prefix}/", f"{prefix}.rs")
        left = [circle for circle in circles if not all(f"{name}/{shown(file)}".startswith(inside) for file in circle)]
        if len(left) < len(circles):
            print(f"{prefix}: {len(circles) - len(left)} circles are excepted: {why}")
        circles = left
    for circle in circles[:SHOWN_MAX]:
        print(f"{name}: " + " → ".join(shown(file) for file in [*circle, circle[0]]))
        for file, to in zip(circle, [*circle[1:], circle[0]]):
            used, line = edges[file][to]
            print(f"    {shown(file)}:{line} uses {used} of {shown(to)}")
    if len(circles) > SHOWN_MAX:
        print(f"{name}: and {len(circles) - SHOWN_MAX} longer ones, which may end with these")
    for file, lines in sorted(crate.lines.items()):
        if lines > LINES_MAX:
            print(f"{name}: {shown(file)} has {lines} lines (no error)")
    return has_strangers(name, source) or bool(circles)


def has_strangers(name, source):
    """Prints files that give methods to a type whose methods live in one folder; returns whether there are any."""
    found = False
    for type_name, folder in METHODS_IN.get(name, {}).items():
        block = re.compile(rf"^impl(?:<[^>]*>)? {type_name}\b", re.M)
        for file in sorted(source.rglob("*.rs")):
            shown = file.relative_to(source)
            is_test = "tests" in shown.parts or shown.stem == "tests"
            if folder not in shown.parts and not is_test and block.search(file.read_text()):
                found = True
                print(f"{name}: {shown} gives methods to {type_name}, whose methods live in {folder}/")
    return found


def main():
    crates = Path(__file__).resolve().parent.parent / "crates"
    names = sys.argv[1:]
    excepted = {} if names else EXCEPTIONS
    names = names or sorted(folder.name for folder in crates.iterdir())
    failed = False
    for name in names:
        own = {prefix: why for prefix, why in excepted.items() if prefix.split("/")[0] == name}
        failed |= check(crates, name, own)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
