"""Runs one of the small Java programs beside this file against Kafka's own classes.

The jars are looked for in $CHRONIK_CACHE/kafka-VERSION, or .cache/kafka-VERSION in the repository. Without them, or
without a JDK, the calling test is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "java"
REPOSITORY = Path(__file__).parents[2]


def run_java(program: str, standard_input: str, version: str = "4.3.1") -> str:
    """Returns the program's output. If it fails, raises CalledProcessError, with its messages on stderr."""
    jars = Path(os.environ.get("CHRONIK_CACHE", REPOSITORY / ".cache")) / f"kafka-{version}"
    if not any(jars.glob("kafka-clients-*.jar")):
        pytest.skip(f"no Kafka jars in {jars}")
    if shutil.which("java") is None:
        pytest.skip("no JDK on the PATH")
    done = subprocess.run(
        ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(PROGRAMS / program)],
        input=standard_input,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout
