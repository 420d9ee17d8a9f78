"""What the clients in other languages are built into: folders in the cache, each made once and named by its sources.

A folder is whole or not there, so whoever finds it may use it; two test processes that want the same one take turns.
Nothing is built twice, so only the first run of a cache needs a compiler's time and a registry.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from prepare_venv import explain
from tests.oracle.jars import cache_folder

DRIVERS = Path(__file__).parent / "drivers"


def built(name: str, sources: Iterable[Path], more: str, build: Callable[[Path], None]) -> Path:
    """The folder that `build` fills; it is asked again when a source changes, or `more`, say the compiler's version."""
    digest = hashlib.sha256(more.encode())
    for source in sorted(sources):
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    folder = cache_folder() / "clients" / f"{name}-{digest.hexdigest()[:16]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder.parent) as temporary:
                unfinished = Path(temporary) / "unfinished"
                unfinished.mkdir()
                build(unfinished)
                unfinished.rename(folder)
    return folder


def run(command: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
    """A step of a build; what it printed is told when it fails."""
    ran = subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if ran.returncode:
        shown = " ".join(str(word) for word in command)
        raise AssertionError(f"{shown} failed in {cwd}:\n{ran.stdout.decode(errors='replace')}")


def skip_module_without(tool: str) -> None:
    """Skips all tests of the module that calls it, with the command that installs the tool, if the machine has none."""
    if why := explain(tool):
        pytest.skip(why, allow_module_level=True)
