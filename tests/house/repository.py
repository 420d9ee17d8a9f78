"""The repository as the tests of the house see it: where it is, and which files are its own."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src"
# Bottom up, as DESIGN.md lists them. Packages above them are programs.
LAYERS = (
    "wire",
    "runtime",
    "peer",
    "catalogue",
    "storage",
    "raft",
    "metadata",
    "replication",
    "coordinator",
    "security",
    "broker",
    "client",
)
# What tools and commands leave behind; .gitignore names the same. Not asked of git: a clone may be an unpacked archive.
LEFTOVERS = {"__pycache__", "build", "dist", ".git", ".venv", ".cache", ".hypothesis"}
LEFTOVERS |= {".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache"}


def own_files() -> list[Path]:
    found = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name not in LEFTOVERS]
        found += [Path(folder, name) for name in files]
    return sorted(found)


def source_modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def layers_present() -> list[str]:
    return [layer for layer in LAYERS if (SOURCE / "chronik" / layer / "__init__.py").exists()]
