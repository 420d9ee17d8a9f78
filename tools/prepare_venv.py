"""Makes `.venv` from the lock files, and returns at once when it already is what they say.

    tools/python tools/prepare_venv.py dev    # broker, tests and checks
    tools/python tools/prepare_venv.py all    # the same and Spark, Delta, DuckDB

Runs on a bare Python and touches nothing outside the clone but pip's own cache. Every package is compared with the hash
in the lock, build tools included; where packages come from is the machine's own pip configuration.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BUILD_LOCK = ROOT / "requirements/build.txt"
LOCKS = {"dev": ROOT / "requirements/dev.txt", "all": ROOT / "requirements/all.txt"}
CONTENTS = {"dev": "broker, tests, checks", "all": "broker, tests, checks, Spark; 1.5 GB"}
SUPERSETS = {"dev": ("dev", "all"), "all": ("all",)}
# What a node imports besides the standard library. Compiled here, because the rest of 100 packages need not be.
START_PACKAGES = ("attr", "attrs", "cramjam", "crc32c", "cyclopts", "docstring_parser", "immutables", "rich", "uvloop")
# What every Python process of Spark imports, and a streaming query has ten: five seconds here, ten at each start.
SPARK_PACKAGES = ("deltalake", "numpy", "pandas", "py4j", "pyarrow", "pyspark")
PIP_FLAGS = ["--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--no-build-isolation"]


class CannotPrepare(Exception):
    """The environment could not be made; the message says what to do."""


def base_key() -> str:
    """What makes an environment useless when it changes: the interpreter, and the path written into its scripts."""
    return f"{sys.version} in {VENV}"


def profile_key(profile: str) -> str:
    """What makes a profile stale when it changes: lock, build tools, what pyproject.toml declares, byte code."""
    digest = hashlib.sha256(f"{base_key()} {compiled_packages(profile)}".encode())
    for path in (BUILD_LOCK, LOCKS[profile], ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamp_of(profile: str) -> Path:
    return VENV / f"chronik-{profile}.stamp"


def says(path: Path, expected: str) -> bool:
    return path.is_file() and path.read_text() == expected


def is_ready(profile: str) -> bool:
    if not os.access(VENV / "bin/python", os.X_OK):
        return False
    return any(says(stamp_of(name), profile_key(name)) for name in SUPERSETS[profile])


def prepare(profile: str) -> None:
    if is_ready(profile):
        compile_modules(ROOT / "src")  # edited since: 0.07 s when nothing was
        return
    started = time.monotonic()
    count = LOCKS[profile].read_text().count("==")
    print(f"chronik: installing {count} locked packages into .venv ({CONTENTS[profile]}), once", flush=True)
    for name in LOCKS:
        stamp_of(name).unlink(missing_ok=True)
    if not says(stamp_of("base"), base_key()) or not os.access(VENV / "bin/python", os.X_OK):
        create_venv()
    pip("--require-hashes", "-r", str(BUILD_LOCK))
    pip("--require-hashes", "--use-pep517", "-r", str(LOCKS[profile]))
    pip("--editable", str(ROOT))
    compile_modules(ROOT / "src", *[site_packages() / name for name in compiled_packages(profile)])
    stamp_of(profile).write_text(profile_key(profile))
    print(f"chronik: .venv is ready after {time.monotonic() - started:.0f} s", flush=True)


def create_venv() -> None:
    # The interpreter behind an activated .venv, so that an environment is never made from itself.
    python = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([python, "-m", "venv", "--clear", str(VENV)]).returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        raise CannotPrepare(explain("venv") or f"{python} -m venv failed, see above")
    stamp_of("base").write_text(base_key())


def pip(*arguments: str) -> None:
    if subprocess.run([str(VENV / "bin/python"), "-m", "pip", "install", *PIP_FLAGS, *arguments]).returncode:
        raise CannotPrepare(" ".join(("pip failed, see above.", explain("compiler"))))


def compile_modules(*folders: Path) -> None:
    """Writes byte code, also where PYTHONDONTWRITEBYTECODE is set: without it half of a node's start is compiling."""
    compiling = [
        str(VENV / "bin/python"),
        "-m",
        "compileall",
        "-q",
        "-x",
        "site-packages/.*/tests/",
        *map(str, folders),
    ]
    subprocess.run(compiling, stdout=subprocess.DEVNULL)  # a module that does not compile says so when it is imported


def compiled_packages(profile: str) -> tuple[str, ...]:
    return START_PACKAGES + (SPARK_PACKAGES if profile == "all" else ())


def site_packages() -> Path:
    return next(VENV.glob("lib/python*/site-packages"))


def explain(tool: str) -> str:
    """The line of tools/require if the tool is missing, else nothing."""
    asked = subprocess.run(["sh", str(ROOT / "tools/require"), tool], stderr=subprocess.PIPE, text=True)
    return asked.stderr.strip().removeprefix("chronik: ")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LOCKS:
        sys.exit("usage: prepare_venv.py dev|all")
    try:
        prepare(sys.argv[1])
    except CannotPrepare as why:
        sys.exit(f"chronik: {why}")
