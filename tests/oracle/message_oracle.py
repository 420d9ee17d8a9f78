"""Asks Kafka's generated message classes what a message looks like in bytes. The Java side is java/MessageOracle.java.

One `MessageOracle` is one JVM with the jars of one Kafka release. Questions are asked in batches, large ones where
there is a choice: a batch costs a round trip, a question some microseconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

RELEASES = ("3.9.1", "4.3.1")
REPOSITORY = Path(__file__).parents[2]
SOURCE = Path(__file__).parent / "java" / "MessageOracle.java"
# Thousands of short calls over hundreds of classes: quick compilation beats good compilation.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")


def class_path(release: str) -> list[Path]:
    """The jars of a Kafka release."""
    cache = Path(os.environ.get("CHRONIK_CACHE") or REPOSITORY / ".cache")
    return sorted((cache / f"kafka-{release}").glob("*.jar"))


class Question(NamedTuple):
    operation: str  # encode, decode, echo or default
    message: str
    version: int
    payload: str = ""


class Refused(NamedTuple):
    """Java could not do it; `why` is its exception."""

    why: str


class MessageOracle:
    def __init__(self, release: str) -> None:
        java = shutil.which("java")
        jars = class_path(release)
        if java is None or not jars:
            raise FileNotFoundError(f"no JDK on the PATH, or no jars of Kafka {release}: `make jars` fetches them")
        command = [java, *JVM_OPTIONS, "-cp", os.pathsep.join(map(str, jars)), str(SOURCE)]
        self.release = release
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, questions: Iterable[Question]) -> list[str | Refused]:
        lines = [f"{q.operation}\t{q.message}\t{q.version}\t{q.payload}\n" for q in questions]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("".join(lines).encode() + b"\n")
        self._process.stdin.flush()
        return [_answer(self._process.stdout.readline()) for _ in lines]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()  # the helper ends when its input does


def _answer(line: bytes) -> str | Refused:
    verdict, _, payload = line.decode().rstrip("\n").partition("\t")
    if verdict == "ok":
        return payload
    if verdict == "error":
        return Refused(payload)
    raise ConnectionError("the Java helper ended before it answered; its stderr says why")
