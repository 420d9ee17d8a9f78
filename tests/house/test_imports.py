"""A broker installed without extras imports exactly what it declares."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.repository import ROOT, SOURCE, layers_present

NEVER = {"pyspark", "pyarrow", "pandas", "deltalake", "duckdb"}
OF_THE_CONSOLE = {"starlette", "uvicorn"}  # installed with the broker, and loaded by the console's process alone

# Imports every module of these packages in a fresh interpreter, and prints all imported modules.
IMPORT_ALL = """
import importlib, json, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), f"{name}."):
        importlib.import_module(module.name)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def imported_with(*names: str) -> set[str]:
    command = [sys.executable, "-W", "error", "-c", IMPORT_ALL, *names]
    return set(json.loads(subprocess.check_output(command, text=True, env={"PYTHONPATH": str(SOURCE)})))


def declared_modules() -> set[str]:
    """Top-level modules of the dependencies that `pip install chronik` brings, and of what those bring."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    seen: set[str] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        name = canonicalize_name(requirement.name)
        if name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        wanted += metadata.requires(name) or []
    modules = metadata.packages_distributions()
    return {module for module, owners in modules.items() if seen & {canonicalize_name(owner) for owner in owners}}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(f"chronik.{layer}" for layer in layers_present()), "chronik.cli.main"])
def test_a_broker_imports_only_what_it_declares(name: str) -> None:
    """`pip install chronik` alone must give a working broker: no Spark, no Arrow, no console, no test tools."""
    bare = imported_with()
    foreign = imported_with(name) - bare - set(sys.stdlib_module_names) - declared_modules() - {"chronik"}
    # Compiled packages bring private modules of their own along.
    unexplained = {module for module in foreign if not module.startswith("_")} - {"cython_runtime"}
    assert unexplained == set(), "declare it in pyproject.toml [project] dependencies and run `make lock`, or drop it"
    assert not foreign & NEVER
    assert name == "chronik.console" or not foreign & OF_THE_CONSOLE


def test_a_node_without_tls_and_tokens_does_not_load_cryptography() -> None:
    """It takes 100 ms and 9 MB, and most nodes of a development machine have neither."""
    command = [sys.executable, "-c", "import sys, chronik.broker.process, chronik.cli.main; print(*sys.modules)"]
    loaded = subprocess.check_output(command, text=True, env={"PYTHONPATH": str(SOURCE)}).split()
    assert "chronik.broker.certificates" in loaded
    assert "chronik.broker.signing_keys" in loaded
    assert not {"cryptography", "jwt"} & set(loaded)


def test_a_module_from_an_extra_would_be_noticed() -> None:
    """The check compares names of modules with names of packages; it must not let one through by confusing the two."""
    assert "pluggy" in imported_with("pluggy") - declared_modules()
    assert declared_modules() >= {"crc32c", "cramjam", "uvloop", "rich", "cyclopts"}
    assert not declared_modules() & NEVER
