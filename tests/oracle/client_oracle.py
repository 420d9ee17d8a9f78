"""Asks Kafka's own client classes for partitions of keys and for assignments. The Java side is
java/ClientOracle.java."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from chronik.client.assignors import Subscription
from chronik.client.topology import TopicPartition
from tests.oracle.jars import kafka_jars

RELEASE = "4.3.1"
SOURCE = Path(__file__).parent / "java" / "ClientOracle.java"
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")


def ask(questions: Sequence[str]) -> list[str]:
    """One answer per question, from one JVM."""
    java = shutil.which("java")
    if java is None:
        raise FileNotFoundError("no java on the PATH: install a JDK, 17 or later")
    command = [java, *JVM_OPTIONS, "-cp", f"{kafka_jars(RELEASE)}/*", str(SOURCE)]
    text = "".join(f"{question}\n" for question in questions)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions), done.stderr
    return answers


def assignment_question(name: str, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> str:
    topics = ",".join(f"{topic}={count}" for topic, count in counts.items())
    said = ";".join(f"{m}:{each.instance_id or '-'}:{'+'.join(each.topics)}" for m, each in members.items())
    return f"{name} {topics} {said}"


def read_assignment(answer: str) -> dict[str, list[TopicPartition]]:
    assigned: dict[str, list[TopicPartition]] = {}
    for entry in answer.split(";"):
        member_id, _, partitions = entry.partition(":")
        assigned[member_id] = sorted(
            TopicPartition(each.rpartition("/")[0], int(each.rpartition("/")[2]))
            for each in partitions.split("+")
            if each
        )
    return assigned
