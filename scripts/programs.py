#!/usr/bin/env python3
"""From cargo's messages (`cargo test --no-run --message-format json`) a line `NAME FOLDER PROGRAM` for each integration
test: FOLDER is that of its package, in which cargo would run it."""

import json
import pathlib
import sys

for line in sys.stdin:
    message = json.loads(line)
    if message["reason"] == "compiler-artifact" and message["target"]["kind"] == ["test"] and message["executable"]:
        print(message["target"]["name"], pathlib.Path(message["manifest_path"]).parent, message["executable"])
