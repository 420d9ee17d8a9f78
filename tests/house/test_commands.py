"""The commands: make teaches itself, and a missing tool costs one line that says what to type."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.repository import ROOT

WANTED = (
    "setup", "demo", "test", "quick", "lint", "fmt", "bench", "compat", "fuzz", "sim", "sim-night", "clean", "help",
)  # fmt: skip
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "DESIGN.md", "CHANGELOG.md")


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


def machine_with(folder: Path, **programs: str) -> str:
    """A PATH on which there is sh and sed, and the programs given by their scripts."""
    for name in ("sh", "sed", "dirname"):
        (folder / name).symlink_to(shutil.which(name) or name)
    for name, script in programs.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return str(folder)


def targets() -> set[str]:
    benchmarks = {f"bench-{path.stem}" for path in (ROOT / "benchmarks").glob("*.py")}
    return benchmarks | set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_make_alone_teaches_every_command() -> None:
    """A newcomer types `make`; commands that it does not list are not found."""
    shown = run("make", "--no-print-directory", MAKEFLAGS="").stdout
    assert [name for name in WANTED if f"make {name} " not in shown] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_only_commands_that_exist(document: str) -> None:
    """A README that names a command which is gone is worse than none."""
    text = (ROOT / document).read_text()
    in_code = re.findall(r"`make ([a-z-]+)|^(?:    )?make ([a-z-]+)", text, re.MULTILINE)
    assert {first or second for first, second in in_code} <= targets()


@pytest.mark.parametrize(
    ("tool", "programs", "what", "command"),
    [
        ("jdk", {"apt_get": ""}, "no javac runs", "sudo apt-get install -y openjdk-17-jdk-headless"),
        ("jdk", {"dnf": "", "javac": "echo javac 11.0.2"}, "version 11", "sudo dnf install -y java-17-openjdk-devel"),
        ("jdk", {"javac": "echo 'no Java runtime present' >&2; exit 1"}, "no javac runs", "brew install openjdk@17"),
        ("maven", {"apt_get": ""}, "Maven is missing", "sudo apt-get install -y maven"),
        ("compiler", {"apk": ""}, "C compiler is missing", "sudo apk add build-base"),
        ("rdkafka", {"apt_get": ""}, "librdkafka's C headers are missing", "sudo apt-get install -y librdkafka-dev"),
        ("go", {"dnf": ""}, "Go 1.21 or newer is missing", "sudo dnf install -y golang"),
        ("go", {"go": "echo go version go1.19.8 linux/amd64"}, "this one is 1.19", "the archive of https://go.dev/dl"),
        ("npm", {"apt_get": ""}, "Node.js with npm is missing", "sudo apt-get install -y npm"),
        ("uv", {}, "uv", "pip install uv"),
    ],
)
def test_a_missing_tool_is_one_line_with_its_cure(
    tmp_path: Path, tool: str, programs: dict[str, str], what: str, command: str
) -> None:
    """A missing JDK must not be reported by a stack trace."""
    asked = run("sh", "tools/require", tool, PATH=machine_with(tmp_path, **programs), JAVA_HOME="", CC="")
    assert asked.returncode == 1
    [line] = asked.stderr.splitlines()
    assert what in line
    assert line.endswith(command)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_jdk_that_will_do_is_accepted_in_silence(tmp_path: Path, version: str) -> None:
    """Newer is fine, early access too."""
    asked = run("sh", "tools/require", "jdk", PATH=machine_with(tmp_path, javac=f"echo javac {version}"), JAVA_HOME="")
    assert (asked.returncode, asked.stderr) == (0, "")


def test_the_jdk_of_java_home_is_the_one_that_counts(tmp_path: Path) -> None:
    """Maven and the tests use it before anything on the PATH."""
    old = tmp_path / "old/bin"
    old.mkdir(parents=True)
    machine_with(old, javac="echo javac 1.8.0_292 >&2")
    path = machine_with(tmp_path, javac="echo javac 21.0.1")
    asked = run("sh", "tools/require", "jdk", PATH=path, JAVA_HOME=str(tmp_path / "old"))
    assert asked.returncode == 1
    assert "old/bin/javac is version 1" in asked.stderr


def test_an_old_python_is_passed_over_for_a_newer_one(tmp_path: Path) -> None:
    """On many systems python3 is old, and python3.12 is installed as well."""
    path = machine_with(tmp_path, python3="exit 1", **{"python3.12": 'test "$1" = -c || echo ran "$@"'})
    asked = run("sh", "tools/python", "hello.py", PATH=path, PYTHON="")
    assert (asked.returncode, asked.stdout) == (0, "ran hello.py\n")


def test_no_python_at_all_is_one_line_with_its_cure(tmp_path: Path) -> None:
    """The very first thing that can be missing."""
    asked = run("sh", "tools/python", "hello.py", PATH=machine_with(tmp_path, apt_get="", python3="exit 1"), PYTHON="")
    assert asked.returncode == 1
    [line] = asked.stderr.splitlines()
    assert "Python 3.11 or newer is missing" in line
    assert line.endswith("sudo apt-get install -y python3 python3-venv")


def test_a_python_that_was_asked_for_is_not_replaced_in_silence(tmp_path: Path) -> None:
    """A user who sets PYTHON=... wants that one, or an error message."""
    path = machine_with(tmp_path, python3="exit 0")
    asked = run("sh", "tools/python", "hello.py", PATH=path, PYTHON="python2")
    assert asked.returncode == 1
    assert "PYTHON=python2" in asked.stderr


def test_ci_is_make_test() -> None:
    """Developers and CI must run the same command."""
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert lines[-1] == "make test"
    assert os.access(ROOT / ".ci/run", os.X_OK)
