#!/usr/bin/env python3
"""A preprocessor of mdbook (see book.toml): links that lead out of docs/.

On a page of the sources, ../packaging/examples/tier.toml leads somewhere; in a book there is no such file. So a link
to another chapter leads to where that is in the book, and one to any other file of the project becomes its name. Chapters
that are outside of docs/ get a place in the book.
"""

import json
import os
import pathlib
import sys
import urllib.parse

import links

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def chapters(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter and chapter.get("source_path"):
            yield chapter
        if chapter:
            yield from chapters(chapter["sub_items"])


def place(source_path):
    """Where a chapter is in the book."""
    if source_path.startswith("../"):
        return "project/" + source_path.removeprefix("../")
    return source_path


def rewritten(chapter, places):
    source = (DOCS / chapter["source_path"]).resolve()
    own = places[source]

    def other(image, text, target):
        if links.EXTERNAL.match(target) or target.startswith("#"):
            return None
        file, hash_sign, anchor = urllib.parse.unquote(target).partition("#")
        to = (source.parent / file).resolve()
        within = places.get(to) or (str(to.relative_to(DOCS)) if to.is_relative_to(DOCS) else None)
        if within:
            way = os.path.relpath(within, os.path.dirname(own) or ".")
            return f"{'!' * image}[{text}]({way}{hash_sign}{anchor})"
        path = f"`{to.relative_to(ROOT)}`"
        return path if text.strip("`") in path else f"{text} ({path})"

    return links.replaced(chapter["content"], other)


def main():
    # `supports RENDERER`: whatever it is.
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    all_chapters = list(chapters(book.get("items") or book.get("sections")))
    places = {(DOCS / c["source_path"]).resolve(): place(c["source_path"]) for c in all_chapters}
    for chapter in all_chapters:
        chapter["content"] = rewritten(chapter, places)
        chapter["path"] = place(chapter["source_path"])
    json.dump(book, sys.stdout)


main()
