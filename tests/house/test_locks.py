"""The lock files: complete, hashed, one version of everything, and free of addresses."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.repository import ROOT

LOCKS = {path.stem: path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt"))}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = {
    "dev": PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"],
    "all": PROJECT["dependencies"] + [each for extra in PROJECT["optional-dependencies"].values() for each in extra],
}


def pins(lock: str) -> list[Requirement]:
    """One requirement for each entry; the lines of an entry are joined by backslashes."""
    entries = lock.replace("\\\n", " ").splitlines()
    return [Requirement(entry.partition("--hash")[0].strip()) for entry in entries if not entry.startswith("#")]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_names_versions_and_hashes_and_nothing_else(name: str) -> None:
    """An address or an option in a lock would override how the machine is set up to install packages."""
    allowed = re.compile(r"[a-z0-9-]+==[^ ]+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    strange = [line for line in LOCKS[name].splitlines() if not allowed.fullmatch(line)]
    assert strange == [], f"requirements/{name}.txt was not written by `make lock`"
    assert "://" not in LOCKS[name]


@pytest.mark.parametrize("name", DECLARED)
def test_a_lock_holds_what_pyproject_declares(name: str) -> None:
    """If a lock file was not updated for a new dependency, this test explains it before CI gets an ImportError."""
    locked = {canonicalize_name(pin.name): pin for pin in pins(LOCKS[name])}
    for declared in map(Requirement, DECLARED[name]):
        assert canonicalize_name(declared.name) in locked, f"{declared} is not in the lock: run `make lock`"


def test_locks_agree_on_every_version() -> None:
    """`make quick` then `make setup` install into the same environment: they may not pull it back and forth."""
    everything = {str(pin) for pin in pins(LOCKS["all"])}
    assert {str(pin) for pin in pins(LOCKS["dev"])} <= everything
    shared = {pin.name for pin in pins(LOCKS["all"])}
    assert {str(pin) for pin in pins(LOCKS["build"]) if pin.name in shared} <= everything
