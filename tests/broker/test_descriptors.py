"""A node with few file descriptors: every partition is served, and an alarm reports the limit."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing.local_cluster import local_cluster
from chronik.testing.ports import free_ports

LIMIT, PARTITIONS, IDLE = 256, 400, 150
SECONDS_MAX = 60


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


@contextlib.contextmanager
def a_node(data: Path, errors: Path) -> Iterator[tuple[str, int]]:
    """(bootstrap, admin port) of a node that may have so few descriptors."""
    [admin_port] = free_ports(1)
    [settings] = local_cluster(data, [0], [])
    settings |= {"chronik.admin.listener": f"127.0.0.1:{admin_port}"}
    overrides = [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]
    command = [sys.executable, "-m", "chronik.cli", "server", *overrides, "--until-stdin-ends"]
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            preexec_fn=few_descriptors,
        )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1], admin_port
    finally:
        process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0


def alarms(admin_port: int) -> dict[tuple[str, str], dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/status", timeout=SECONDS_MAX) as page:
        return {(alarm["cause"], alarm["subject"]): alarm for alarm in json.load(page)["alarms"]}


def produced_to_all(bootstrap: str) -> int:
    failed: list[str] = []

    def told(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(f"{message.partition()}: {error}")

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "retries": 0})
    for partition in range(PARTITIONS):
        producer.produce("many", b"v", partition=partition, on_delivery=told)
    assert producer.flush(SECONDS_MAX) == 0
    return len(failed)


@pytest.mark.slow
def test_more_partitions_and_connections_than_descriptors(tmp_path: Path) -> None:
    """No write fails for lack of a descriptor, excess connections are refused, and both are reported once. After a
    restart every record is there."""
    errors = tmp_path / "stderr"
    with a_node(tmp_path / "data", errors) as (bootstrap, admin_port):
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("many", PARTITIONS, 1)])["many"].result(SECONDS_MAX)
        for _ in range(3):
            assert produced_to_all(bootstrap) == 0
        host, _, port = bootstrap.rpartition(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(IDLE)]
        until = time.monotonic() + SECONDS_MAX
        while len(alarms(admin_port)) < 2:
            assert time.monotonic() < until, errors.read_text()
            time.sleep(0.1)
        assert set(alarms(admin_port)) == {("descriptors", "files"), ("descriptors", "connections")}
        for each in idle:
            each.close()
        assert produced_to_all(bootstrap) == 0
    lines = [line for line in errors.read_text().splitlines() if "descriptors:" in line and "again" not in line]
    assert len(lines) == 2, lines
    with a_node(tmp_path / "data", errors) as (bootstrap, _):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
        for partition in range(PARTITIONS):
            found = consumer.get_watermark_offsets(TopicPartition("many", partition), timeout=SECONDS_MAX)
            assert found == (0, 4)
        consumer.close()
