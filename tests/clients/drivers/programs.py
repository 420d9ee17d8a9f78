"""Programs that copy, compute or verify for a while, each in a process of its own, so that a test can kill it.

Kafka's tools that only print an answer share a JVM: drivers/kafka_tools.py.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.clients.drivers.kafka_tools import tools_jar
from tests.oracle.jars import kafka_jars
from tests.oracle.message_oracle import JVM_OPTIONS


class Program:
    """A running program. What it prints is kept in a file, so a program that prints much never waits for its reader."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._printed = tempfile.NamedTemporaryFile(prefix="chronik-program-")  # noqa: SIM115 - as long as the program
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._printed, stderr=subprocess.STDOUT
        )

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def printed(self) -> str:
        return Path(self._printed.name).read_text(errors="replace")

    def check_running(self) -> None:
        code = self.exit_code()
        assert code is None, f"{self._command[0]} ended with {code}:\n{self.printed()[-4000:]}"

    def finish(self, seconds_max: float) -> str:
        """What it printed; it must end by itself, and successfully."""
        try:
            code = self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            said = self.printed()[-4000:]
            raise AssertionError(f"{self._command[-1]} still runs after {seconds_max} s:\n{said}") from None
        assert code == 0, f"{self._command[0]} ended with {code}:\n{self.printed()[-4000:]}"
        return self.printed()

    def close(self) -> None:
        """Ends it as kill -9 does."""
        self._process.kill()
        self._process.wait()
        self._printed.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def java(class_path: str, main: str, *arguments: str, options: Sequence[str] = ()) -> Program:
    return Program(["java", *JVM_OPTIONS, *options, "-cp", class_path, main, *arguments])


def kafka_tool(release: str, name: str, *arguments: str) -> Program:
    """A program of org.apache.kafka.tools."""
    return java(f"{tools_jar(release)}:{kafka_jars(release)}/*", f"org.apache.kafka.tools.{name}", *arguments)


def close_all(programs: Sequence[Program]) -> None:
    for program in programs:
        program.close()
