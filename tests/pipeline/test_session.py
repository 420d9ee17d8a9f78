"""Missing requirements of Spark are reported in one line, with the command that installs them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chronik.pipeline import session, spark_home
from chronik.pipeline.conditions import PipelineFault


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no Java runtime present", None),
    ],
)
def test_the_version_is_read_from_what_java_says(text: str, version: int | None) -> None:
    """Before Java 9 the number that counts was the second."""
    assert session.java_version(text) == version


def java(folder: Path, script: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is version 11"),
        ("exit 1", "does not tell its version"),
    ],
)
def test_an_old_or_broken_java_is_named_with_a_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: str
) -> None:
    """Spark itself would say it in forty lines, the last of which is about a gateway."""
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, script)))
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(session.shutil, "which", lambda name: name if name == "dnf" else None)
    with pytest.raises(PipelineFault) as told:
        session.require_spark()
    assert told.value.condition == "JDK_MISSING"
    assert found in told.value.sentence
    assert told.value.sentence.endswith("sudo dnf install -y java-17-openjdk-headless")
    assert "\n" not in told.value.sentence


def test_no_java_at_all_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commonest case on a laptop."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session.shutil, "which", lambda name: None)
    assert session.java_found() == "there is none on the PATH and JAVA_HOME is not set"


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install chronik` alone has every command and not every package."""
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PipelineFault) as told:
        session.require_spark()
    assert told.value.sentence == "SPARK_MISSING: pyspark is not installed: pip install 'chronik[spark]'"


def test_workers_get_a_pyspark_that_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of pyspark's folder but its zip of sources, which would be first on the path of every worker."""
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark_home.settle_in()
    home, installed = Path(os.environ["SPARK_HOME"]), Path(pyspark.__file__).parent
    assert {entry.name for entry in installed.iterdir()} - {entry.name for entry in home.iterdir()} == {"python"}
    assert (home / "jars").resolve() == installed / "jars"


@pytest.mark.parametrize(("name", "value"), [("SPARK_HOME", "/opt/spark"), ("PYSPARK_PYTHON", "/usr/bin/python3")])
def test_a_home_or_a_python_of_the_users_own_stays(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Another Python may have no pyspark but that of the zip."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv(name, value)
    spark_home.settle_in()
    assert os.environ.get("SPARK_HOME") == (value if name == "SPARK_HOME" else None)
