"""The package as pip sees it: scripts that run, one version, everything in the wheel."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import chronik
from chronik.cli.main import app
from tests.house.repository import ROOT, SOURCE, source_modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONSOLE_BYTES_MAX = 300_000  # what everybody downloads for it, compressed, with its libraries
PROGRAMS = {"chronik": "chronik.cli.entry:main", "chronik-bench": "chronik.bench.main:main"}


def test_every_script_that_can_run_is_declared_and_no_other() -> None:
    """A script whose module is missing installs fine and fails in the user's hands."""
    runnable = {
        script: target
        for script, target in PROGRAMS.items()
        if (SOURCE / target.partition(":")[0].replace(".", "/")).with_suffix(".py").exists()
    }
    assert PROJECT["scripts"] == runnable
    for target in runnable.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_chronik_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The first question about any bug report."""
    app(["--version"], result_action="return_value")
    assert capsys.readouterr().out.strip() == chronik.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", chronik.__version__)


def test_an_unknown_command_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error must not look like success."""
    with pytest.raises(SystemExit) as ended:
        app(["prodcue"])
    assert ended.value.code != 0
    output = capsys.readouterr()
    assert "prodcue" in output.out + output.err


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_the_type_marker(tmp_path: Path) -> None:
    """A module that is missing in the wheel works in the clone and fails everywhere else."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    [wheel] = tmp_path.glob("chronik-*.whl")
    entries = zipfile.ZipFile(wheel).infolist()
    held = {entry.filename for entry in entries}
    assert {str(path.relative_to(SOURCE)) for path in source_modules()} <= held
    assert "chronik/py.typed" in held
    assert not {name for name in held if name.startswith(("tests/", "tools/"))}
    assert sum(entry.compress_size for entry in entries if "/console/" in entry.filename) < CONSOLE_BYTES_MAX
