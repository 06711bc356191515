"""Environments of the drivers, in the cache folder: set up when one is missing there or its pinned versions
have changed. `DRIVERS[name](program)` is the command for a driver's program: `conformance` or `load`."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CACHE = (
    pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    / "helenus"
    / "drivers"
)
SECONDS_OF_SETUP_MAX = 900


class SetupError(Exception):
    pass


def call(*command, cwd=None, **environment):
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_OF_SETUP_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise SetupError(f"{' '.join(map(str, command))}: {done.stdout[-800:]}")


def cached(name, sources, make):
    """A folder named after the sources' contents; `make(folder)` fills it, all or nothing."""
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    ready = CACHE / f"{name}-{digest.hexdigest()[:12]}"
    mark = ready / ".complete"
    CACHE.mkdir(parents=True, exist_ok=True)
    # One at a time makes it; the others wait.
    with open(CACHE / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if mark.exists():
            return ready
        # Virtual environments know their own path, so it is filled in place and marked last.
        shutil.rmtree(ready, ignore_errors=True)
        ready.mkdir(parents=True)
        make(ready)
        mark.touch()
    return ready


def python_environment(name, requirements):
    def make(folder):
        call(sys.executable, "-m", "venv", folder)
        # The drivers' C extensions only make them faster, and need a compiler and minutes.
        call(
            folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements,
            CASS_DRIVER_NO_EXTENSIONS="1", CASS_DRIVER_NO_CYTHON="1",
        )  # fmt: skip

    return cached(name, [requirements], make) / "bin" / "python"


def python(program):
    interpreter = python_environment("python", HERE / "python" / "requirements.txt")
    return [interpreter, HERE / "python" / f"{program}.py"]


def python_scylla(program):
    interpreter = python_environment("python-scylla", HERE / "python" / "requirements-scylla.txt")
    return [interpreter, HERE / "python" / f"{program}.py"]


def cqlsh(program):
    interpreter = python_environment("cqlsh", HERE / "cqlsh" / "requirements.txt")
    return [interpreter, HERE / "cqlsh" / f"{program}.py"]


def go(program):
    def make(folder):
        call("go", "build", "-o", folder / "conformance", ".", cwd=HERE / "go")
        call("go", "build", "-o", folder / "load", "./load", cwd=HERE / "go")

    sources = [*(HERE / "go").rglob("*.go"), HERE / "go" / "go.mod", HERE / "go" / "go.sum"]
    return [cached("go", sources, make) / program]


def node(program):
    def make(folder):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "node" / name, folder)
        call("npm", "ci", "--no-audit", "--no-fund", cwd=folder)

    modules = cached("node", (HERE / "node").glob("package*.json"), make) / "node_modules"
    return ["env", f"NODE_PATH={modules}", "node", HERE / "node" / f"{program}.js"]


def maven(name, program):
    project = HERE / name

    def make(folder):
        call(
            "mvn", "-q", "-B", "-f", project / "pom.xml", "compile", "dependency:copy-dependencies",
            f"-DbuildFolder={folder}/build", f"-DoutputDirectory={folder}/lib", "-DincludeScope=runtime",
        )  # fmt: skip

    ready = cached(name, [project / "pom.xml", *project.rglob("*.java")], make)
    main = {"conformance": "conformance.Main", "load": "conformance.Load"}[program]
    # A session that is closed waits for two seconds, twice, whether something is still sent over connections
    # that it has already closed.
    quiet = [f"-Ddatastax-java-driver.advanced.netty.{of}-group.shutdown.quiet-period=0" for of in ("io", "admin")]
    # Java's optimizing compiler costs more than it gains in a minute.
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", *quiet, "-cp", f"{ready}/build/classes:{ready}/lib/*", main]


def java(program):
    return maven("java", program)


def java3(program):
    return maven("java3", program)


def rust(program):
    # A package of the workspace: most of what it needs is there for others, too. `./test` has built it.
    built = os.environ.get("HELENUS_RUST_DRIVER")
    if not built:
        call("cargo", "build", "--quiet", "--locked", "--package", "helenus-driver-conformance", cwd=HERE)
        built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target")) / "debug"
    name = {"conformance": "helenus-driver-conformance", "load": "helenus-driver-load"}[program]
    return [pathlib.Path(built) / name]


DRIVERS = {
    "python": python,
    "python-scylla": python_scylla,
    "java": java,
    "java3": java3,
    "go": go,
    "node": node,
    "rust": rust,
    "cqlsh": cqlsh,
}
