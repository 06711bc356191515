#!/usr/bin/env python3
"""JSON documents that packages ship, one per line, for `helenus payload advise` and `helenus bench payload`.

    scripts/documents.py FOLDER

Installs the packages botocore and pycountry into FOLDER/packages with pip (they are only read, not run), and
writes to FOLDER
    operations.jsonl    operations of public web services: names, shapes of input and output, prose
    iso_3166_2.jsonl    subdivisions of countries
    iso_639_3.jsonl     languages, with a space after each comma and colon
"""

import gzip
import json
import subprocess
import sys
from pathlib import Path

PACKAGES = ["botocore", "pycountry"]


def install(folder):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    subprocess.run([*command, "--target", str(folder), *PACKAGES], check=True)


def operations(packages):
    """Those of the latest version of each service's interface."""
    for service in sorted((packages / "botocore" / "data").iterdir()):
        versions = sorted(service.glob("*/service-2.json*")) if service.is_dir() else []
        if versions:
            data = versions[-1].read_bytes()
            text = gzip.decompress(data) if versions[-1].suffix == ".gz" else data
            yield from json.loads(text)["operations"].values()


def entries(packages, standard):
    file = packages / "pycountry" / "databases" / f"iso{standard}.json"
    return json.loads(file.read_text(encoding="utf-8"))[standard]


def write(path, documents, separators):
    count = 0
    with path.open("w", encoding="utf-8") as out:
        for document in documents:
            out.write(json.dumps(document, ensure_ascii=False, separators=separators) + "\n")
            count += 1
    print(f"{path}: {count} documents, {path.stat().st_size // max(count, 1) - 1} bytes each")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    install(packages)
    compact, spaced = (",", ":"), (", ", ": ")
    write(folder / "operations.jsonl", operations(packages), compact)
    write(folder / "iso_3166_2.jsonl", entries(packages, "3166-2"), compact)
    write(folder / "iso_639_3.jsonl", entries(packages, "639-3"), spaced)


if __name__ == "__main__":
    main()
