"""Debians of their own for the checks of packaging: kept in ~/.cache/helenus for the next time, and used as copies."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "helenus"

# What is done in a Debian that was booted.
SERVICE = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/inside
StandardOutput=append:/said
StandardError=append:/said
[Install]
WantedBy=graphical.target
"""


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, text=True, **options)


def missing(*tools):
    """One sentence about what this machine lacks, or nothing."""
    tools = [name for name in tools if not shutil.which(name)]
    if os.geteuid() != 0:
        tools.insert(0, "root's rights")
    return f"skipped: needs {', '.join(tools)}" if tools else None


def program():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return pathlib.Path(os.environ.get("HELENUS_BIN") or target / "debug/helenus").resolve()


def version():
    """The workspace's."""
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]


class Nodes:
    """Cassandra nodes of `helenus cluster`. Those that have started end if the rest fails."""

    def __init__(self, name, folder, *options):
        self.folder = folder
        self.options = ["--name", f"{name}-{os.getpid()}", "--dir", folder]
        try:
            self.run("up", "--heap-mib", 512, "--short-lived", *options)
            self.addresses = [node["address"] for node in self.status()]
        except BaseException:
            self.down()
            raise

    def run(self, command, *arguments):
        return run(program(), "cluster", command, *arguments, *self.options, capture_output=True).stdout

    def status(self):
        return json.loads(self.run("status", "--json"))["nodes"]

    def down(self):
        # One that does not end must not keep the others.
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run("down")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()


def debian(suite, name, packages):
    """A folder with a Debian that has these packages."""
    folder = CACHE / f"debian-{suite}{name}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        include = f"--include={','.join(packages)}"
        # What it mounts and starts ends with it.
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        with scratch(CACHE) as making:
            made = making / "root"
            run(*alone, "debootstrap", "--variant=minbase", include, suite, made, stdout=subprocess.DEVNULL)
            made.rename(folder)
    return folder


@contextlib.contextmanager
def scratch(parent=None):
    """A folder that goes, also if a process that was killed is still ending in it, or this one is told to end meanwhile."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        told = []
        before = signal.signal(signal.SIGTERM, lambda *_: told.append(True))
        for _ in range(50):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(0.1)
        else:
            print(f"left behind: {folder}")
        signal.signal(signal.SIGTERM, before)
        if told:
            sys.exit(1)


def project(folder):
    """Copies the project's files, as far as git knows them."""
    files = run("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", capture_output=True)
    for file in filter(None, files.stdout.split("\0")):
        if (ROOT / file).exists():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            # With its time, by which cargo knows what is built.
            shutil.copy2(ROOT / file, folder / file)


def end(nspawn):
    """Ends systemd-nspawn and what it has begun, which outlives it: its first process is ended, and with it all others."""
    children = pathlib.Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children")
    for child in children.read_text().split() if children.exists() else []:
        os.kill(int(child), signal.SIGKILL)
    nspawn.kill()
    nspawn.wait()


def free_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def made_deb(out, release, binary):
    """The package of a program."""
    # For speed.
    environment = {**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "gzip"}
    run(ROOT / "packaging/build", "deb", "--binary", binary, "--out", out, "--release", release, env=environment)
    [package] = out.glob("*.deb")
    return package


def boot(root, scratch, suite):
    """Boots the Debian in `root`, where systemd runs /inside. Its network is this process's, and so is 127.0.0.1."""
    (root / "inside").chmod(0o755)
    (root / "etc/systemd/system/inside.service").write_text(SERVICE)
    wants = root / "etc/systemd/system/graphical.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "inside.service").symlink_to("../inside.service")
    command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot"]
    command += ["--machine", f"helenus-{os.getpid()}", "--directory", str(root)]
    # Newer ones refuse to start with control groups of version 1.
    environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"} if suite != "bookworm" else None
    streams = {"stdin": subprocess.DEVNULL, "stdout": open(scratch / "console", "w"), "env": environment}
    return subprocess.Popen(command, stderr=subprocess.STDOUT, **streams)
