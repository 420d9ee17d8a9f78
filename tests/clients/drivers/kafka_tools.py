"""Kafka's command line tools, as people type them. The Java side is java/Tools.java: one JVM for many runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.clients.built import DRIVERS, built, run
from tests.clients.drivers.maven import maven_jar
from tests.oracle.jars import kafka_jars
from tests.oracle.message_oracle import JVM_OPTIONS

SOURCE = DRIVERS / "java" / "Tools.java"
# The one jar that a broker does not need and its tools are in.
JAR_SHA256 = {
    "4.3.1": "62f3c5dd7aa3442d4c5bc6a95f86e2502178ea09de8e27f74d9563bf955e253c",
    "3.9.1": "aae08609f1259e59db9746570c53d939820e9efa7a4c0fd7bf7d1b3508f34f11",
}


class KafkaTools:
    def __init__(self, release: str) -> None:
        self.release = release
        class_path = f"{tools_jar(release)}:{kafka_jars(release)}/*"

        def compile_runner(folder: Path) -> None:
            run(["javac", "-Xlint:all,-classfile", "-Werror", "-d", folder, "-cp", class_path, SOURCE], cwd=folder)

        classes = built(f"kafka-tools-runner-{release}", [SOURCE], release, compile_runner)
        self._process = subprocess.Popen(
            ["java", *JVM_OPTIONS, "-cp", f"{classes}:{class_path}", "Tools"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """What the tool printed; it must have succeeded."""
        status, output = self._run(tool, arguments, stdin)
        assert status == 0, output
        return output

    def refused(self, tool: str, *arguments: str) -> str:
        """What the tool printed; it must have failed."""
        status, output = self._run(tool, arguments, "")
        assert status != 0, output
        return output

    def close(self) -> None:
        self._process.communicate()  # the Java side ends when its input does

    def _run(self, tool: str, arguments: Sequence[str], stdin: str) -> tuple[int, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"tool": tool, "arguments": arguments, "input": stdin}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the JVM ended while it ran {tool}: its stderr says why"
        reply = json.loads(line)
        return reply["exit"], reply["output"]


def tools_jar(release: str) -> Path:
    return maven_jar(f"org.apache.kafka:kafka-tools:{release}", JAR_SHA256[release])
