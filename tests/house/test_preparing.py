"""Setup: what makes an environment outdated, what is fetched once, and that incomplete results are never used."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

import fetch_jars
import prepare_venv


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with lock files and an environment that is complete for `dev`."""
    for name in ("pyproject.toml", "build.txt", "dev.txt", "all.txt"):
        (tmp_path / name).write_text(f"content of {name}")
    monkeypatch.setattr(prepare_venv, "ROOT", tmp_path)
    monkeypatch.setattr(prepare_venv, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(prepare_venv, "BUILD_LOCK", tmp_path / "build.txt")
    monkeypatch.setattr(prepare_venv, "LOCKS", {name: tmp_path / f"{name}.txt" for name in ("dev", "all")})
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    prepare_venv.stamp_of("dev").write_text(prepare_venv.profile_key("dev"))
    return tmp_path


def test_what_the_locks_say_is_left_alone(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The second run of every command starts at once: nothing is run, nothing is said."""
    prepare_venv.prepare("dev")
    assert capfd.readouterr() == ("", "")


def test_byte_code_is_there_even_where_python_is_told_not_to_write_any(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling its modules again would be half of every node's start."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (clone / "src").mkdir()
    (clone / "src/edited.py").write_text("x = 1")
    prepare_venv.prepare("dev")
    assert list(clone.glob("src/__pycache__/edited.*.pyc"))


@pytest.mark.parametrize("changed", ["pyproject.toml", "build.txt", "dev.txt"])
def test_a_change_of_what_is_wanted_makes_it_stale(clone: Path, changed: str) -> None:
    """A pull that brings a new lock or a new console script must reach the environment without being asked."""
    assert prepare_venv.is_ready("dev")
    (clone / changed).write_text("something else")
    assert not prepare_venv.is_ready("dev")


def test_an_environment_without_the_byte_code_that_is_wanted_now_is_stale(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a slow environment would look like a fast one."""
    monkeypatch.setattr(prepare_venv, "START_PACKAGES", (*prepare_venv.START_PACKAGES, "another"))
    assert not prepare_venv.is_ready("dev")


def test_the_lock_of_another_profile_does_not_matter(clone: Path) -> None:
    """A new Spark is no reason to keep a developer of the broker waiting."""
    (clone / "all.txt").write_text("something else")
    assert prepare_venv.is_ready("dev")


def test_everything_includes_what_development_needs_and_not_the_reverse(clone: Path) -> None:
    """After `make setup`, `make quick` starts at once; after `make quick`, `make setup` still has Spark to add."""
    assert not prepare_venv.is_ready("all")
    prepare_venv.stamp_of("dev").unlink()
    prepare_venv.stamp_of("all").write_text(prepare_venv.profile_key("all"))
    assert prepare_venv.is_ready("all")
    assert prepare_venv.is_ready("dev")


def test_an_environment_whose_python_is_gone_or_changed_is_stale(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgraded system Python leaves a link to nowhere; another version cannot load what was installed."""
    with monkeypatch.context() as upgraded:
        upgraded.setattr(sys, "version", "3.99")
        assert not prepare_venv.is_ready("dev")
    assert prepare_venv.is_ready("dev")
    os.unlink(clone / ".venv/bin/python")
    (clone / ".venv/bin/python").symlink_to(clone / "no-such-python")
    assert not prepare_venv.is_ready("dev")


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven that writes one jar and counts its runs."""
    program = tmp_path / "bin/mvn"
    program.parent.mkdir()
    program.write_text(f"""#!{sys.executable}
import pathlib, sys
[folder] = [a.partition("=")[2] for a in sys.argv if a.startswith("-DoutputDirectory=")]
pathlib.Path(folder).mkdir()
pathlib.Path(folder, "kafka.jar").write_bytes(b"bytes of a jar")
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def hash_list(folder: Path, content: bytes) -> Path:
    path = folder / "kafka.sha256"
    path.write_text(f"{hashlib.sha256(content).hexdigest()}  kafka.jar\n")
    return path


def test_jars_that_are_what_the_list_says_are_put_in_place(maven: Path, tmp_path: Path) -> None:
    """The folder contains only the jars, and no temporary files remain beside it."""
    fetch_jars.fetch("9.9.9", tmp_path / "cache/kafka-9.9.9", hash_list(tmp_path, b"bytes of a jar"))
    assert [path.name for path in (tmp_path / "cache").rglob("*")] == ["kafka-9.9.9", "kafka.jar"]


def test_a_jar_that_differs_from_the_list_is_refused(maven: Path, tmp_path: Path) -> None:
    """We compare ourselves with Kafka byte by byte: it must be the Kafka that we mean."""
    with pytest.raises(fetch_jars.CannotFetch, match=r"kafka\.jar is [0-9a-f]{64}, but .*kafka\.sha256 says"):
        fetch_jars.fetch("9.9.9", tmp_path / "cache/kafka-9.9.9", hash_list(tmp_path, b"bytes of another"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_jar_that_is_missing_or_too_many_is_refused() -> None:
    """A class path with a stranger on it is not the one that was tested."""
    with pytest.raises(fetch_jars.CannotFetch, match=r"a\.jar is absent"):
        fetch_jars.compare({}, {"a.jar": "1"}, Path("list"))
    with pytest.raises(fetch_jars.CannotFetch, match="says nothing of it"):
        fetch_jars.compare({"a.jar": "1"}, {}, Path("list"))


def test_a_failing_maven_leaves_nothing_behind(maven: Path, tmp_path: Path) -> None:
    """An existing folder may be used, so it must appear complete or not at all."""
    maven.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(fetch_jars.CannotFetch, match=r"9\.9\.9"):
        fetch_jars.fetch("9.9.9", tmp_path / "cache/kafka-9.9.9", hash_list(tmp_path, b""))
    assert list((tmp_path / "cache").iterdir()) == []
