#!/usr/bin/env python3
"""Checks that what the documentation refers to is there, without a network.

    scripts/check-links.py

- Links in all Markdown files lead to files, and to headings by the anchors that GitHub makes of them.
- Pages of docs/ that are named elsewhere (in settings, messages, alert rules) exist, with their anchors.
- docs/SUMMARY.md, the book's table of contents, has every page of docs once.
- How many checks drivers are tested with is the same wherever it stands.
- If mdbook is installed, the book builds, and links in its pages lead somewhere, too.

Prints one line for each that does not; exit status 1 if there is any.
"""

import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import links

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUMMARY = ROOT / "docs/SUMMARY.md"
# Files in which pages are named.
NAMING = {".md", ".rs", ".py", ".sh", ".toml", ".yml", ".yaml", ".tpl", ".txt", ".ts", ".html", ".java", ".json", ".service"}
NAMED_PAGE = re.compile(r"(?<![\w./-])(?:/usr/share/doc/helenus/|docs/)([\w-]+\.md)(?:#([\w-]+))?")
# A page that mdbook makes of all others, whose anchors it renames, and one for servers.
NOT_PAGES = {"print.html", "404.html", "toc.html"}


def tracked():
    """All files of the project that git does not ignore."""
    said = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    )
    paths = [ROOT / name for name in said.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


class Pages:
    """Anchors of Markdown files, read once."""

    def __init__(self):
        self.known = {}

    def anchors(self, path):
        if path not in self.known:
            self.known[path] = links.anchors(path.read_text())
        return self.known[path]

    def wrong(self, path, anchor):
        """What is wrong with a link to a file and an anchor; None if nothing is."""
        if not path.exists():
            return "no such file"
        if anchor and path.suffix == ".md" and anchor not in self.anchors(path):
            return f"no heading with the anchor #{anchor} there"
        return None


def of_markdown(files, pages):
    for path in files:
        if path.suffix != ".md":
            continue
        for line, target in links.targets(path.read_text()):
            if links.EXTERNAL.match(target):
                continue
            file, _, anchor = urllib.parse.unquote(target).partition("#")
            to = (path.parent / file).resolve() if file else path
            if not to.is_relative_to(ROOT):
                yield path, line, target, "outside of the project"
            elif wrong := pages.wrong(to, anchor):
                yield path, line, target, wrong


def of_names(files, pages):
    for path in files:
        if path.suffix not in NAMING and path.parent != ROOT:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for found in NAMED_PAGE.finditer(text):
            # What packages have in that folder.
            places = [ROOT / "docs" / found[1], ROOT / found[1]]
            to = next((place for place in places if place.exists()), places[0])
            if wrong := pages.wrong(to, found[2]):
                yield path, text.count("\n", 0, found.start()) + 1, found.group(), wrong


def of_summary():
    listed = [target for _, target in links.targets(SUMMARY.read_text())]
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield SUMMARY, 1, name, "listed more than once"
    for page in sorted(SUMMARY.parent.glob("*.md")):
        if page != SUMMARY and page.name not in listed:
            yield SUMMARY, 1, page.name, "a page that is not listed"


def of_checks():
    """README's number is the sum of both tables of drivers; `each` is said of python's two."""
    readme = ROOT / "README.md"
    total = int(re.search(r"`tests/drivers/run`: (\d+) checks", readme.read_text())[1])
    row = re.compile(r"^\|.*\| [345, ]+ \| (\d+)( each)?", re.M)
    for page in [ROOT / "docs/compatibility.md", ROOT / "tests/drivers/README.md"]:
        found = row.findall(page.read_text())
        told = sum(int(checks) * (2 if each else 1) for checks, each in found)
        if told != total:
            yield page, 1, f"{told} checks of drivers", f"{total} in README.md"


class Rendered(html.parser.HTMLParser):
    """Anchors and links of a page of HTML."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        self.targets += filter(None, (attributes.get("href"), attributes.get("src")))


def of_book(mdbook, folder):
    done = subprocess.run([mdbook, "build", "--dest-dir", folder, str(ROOT)], capture_output=True, text=True, cwd=ROOT)
    said = done.stdout + done.stderr
    if done.returncode or re.search(r"\b(WARN|ERROR)\b", said):
        yield ROOT / "book.toml", 1, "mdbook build", said.strip()
        return
    files = [path for path in folder.rglob("*.html") if path.name not in NOT_PAGES]
    pages = {path: Rendered(path.read_text()) for path in files}
    for path, page in pages.items():
        for target in page.targets:
            if links.EXTERNAL.match(target):
                continue
            file, _, anchor = urllib.parse.unquote(target).partition("#")
            to = (path.parent / file).resolve() if file else path
            shown = path.relative_to(folder)
            if not to.exists():
                yield ROOT / "book.toml", 1, f"{shown} in the book: {target}", "no such file"
            elif anchor and to in pages and anchor not in pages[to].anchors:
                yield ROOT / "book.toml", 1, f"{shown} in the book: {target}", "no such anchor"


def main():
    if sys.argv[1:]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    files, pages = tracked(), Pages()
    wrong = [*of_markdown(files, pages), *of_names(files, pages), *of_summary(), *of_checks()]
    if mdbook := shutil.which("mdbook"):
        with tempfile.TemporaryDirectory() as folder:
            wrong += of_book(mdbook, pathlib.Path(folder).resolve())
    else:
        print("skipped: the book (mdbook is not installed)")
    for path, line, target, why in wrong:
        print(f"{path.relative_to(ROOT)}:{line}: {target}: {why}")
    return 1 if wrong else 0


sys.exit(main())
