"""Asks Kafka's generated message classes what a message looks like in bytes. The Java side is java/MessageOracle.java.

One `MessageOracle` is one JVM with the jars of one Kafka release. Questions are asked in batches, large ones where
there is a choice: a batch costs a round trip, a question some microseconds.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.oracle.jars import kafka_jars

if TYPE_CHECKING:
    from collections.abc import Iterable

SOURCE = Path(__file__).parent / "java" / "MessageOracle.java"
# Short calls into hundreds of classes: quick compilation beats good compilation.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")


class Question(NamedTuple):
    operation: str  # encode, decode, echo or default
    message: str
    version: int
    payload: str  # JSON to encode, hex to decode or echo, the path of a struct


class Refusal(NamedTuple):
    """Java could not do it; `why` is its exception."""

    why: str


class MessageOracle:
    def __init__(self, release: str) -> None:
        java = shutil.which("java")
        if java is None:
            raise FileNotFoundError("no java on the PATH: install a JDK, 17 or later")
        command = [java, *JVM_OPTIONS, "-cp", f"{kafka_jars(release)}/*", str(SOURCE)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, questions: Iterable[Question]) -> list[str | Refusal]:
        """The answers, in the order of the questions."""
        lines = [f"{q.operation}\t{q.message}\t{q.version}\t{q.payload}\n" for q in questions]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("".join(lines).encode() + b"\n")
        self._process.stdin.flush()
        return [_answer(self._process.stdout.readline()) for _ in lines]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()  # the Java side ends when its input does


def _answer(line: bytes) -> str | Refusal:
    verdict, _, payload = line.decode().rstrip("\n").partition("\t")
    if verdict == "ok":
        return payload
    if verdict == "error":
        return Refusal(payload)
    raise ConnectionError("the Java side ended before it answered; its stderr says why")
