"""A secure cluster for tests must be as easy as an open one: one argument, and one call for each client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer

from chronik.testing import Cluster
from tests.cli.conftest import Run, run_command
from tests.clients.driver import Sent
from tests.clients.drivers.kafka_python import KafkaPythonDriver
from tests.clients.drivers.kafka_tools import KafkaTools

__all__ = ["run_command"]

PATIENCE_S = 60
BOB = 'bob, the "first"'
START_CPU_S_MAX = 1.0


def sent(cluster: Cluster, topic: str, user: str = "alice", **more: Any) -> str:
    """The outcome of one record, by librdkafka."""
    outcomes: list[str] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        outcomes.append("OK" if error is None else error.name())

    settings = {**cluster.client_settings(user, "confluent-kafka"), "log_level": 0, **more}
    producer = Producer(settings)
    producer.produce(topic, b"x", on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    return outcomes[0]


def test_users_own_what_begins_with_their_name(secure_chronik_cluster: Cluster) -> None:
    """An ordinary user can work at once, and a test of denials needs no preparation."""
    assert sent(secure_chronik_cluster, "alice-orders") == "OK"
    assert sent(secure_chronik_cluster, "orders") == "TOPIC_AUTHORIZATION_FAILED"
    assert sent(secure_chronik_cluster, "orders", "admin") == "OK"


def test_users_are_added_allowed_denied_and_changed(secure_chronik_cluster: Cluster) -> None:
    """Each call is in effect when it returns: a test must not wait for it."""
    cluster = secure_chronik_cluster
    first = cluster.add_user(BOB, 'pä"ss\\wörd')
    assert sent(cluster, "orders", BOB) == "TOPIC_AUTHORIZATION_FAILED"
    cluster.allow(BOB, "write", "create", topic="ord", prefix=True)
    assert sent(cluster, "orders", BOB) == "OK"
    cluster.deny(BOB, "write", topic="orders")
    assert sent(cluster, "orders", BOB) == "TOPIC_AUTHORIZATION_FAILED"
    assert cluster.add_user(BOB) != first
    assert sent(cluster, "orders-2", BOB) == "OK"
    with pytest.raises(ValueError, match="operation 'wriet' does not exist"):
        cluster.allow("alice", "wriet", topic="t")
    with pytest.raises(ValueError, match="no user 'carol'"):
        cluster.client_settings("carol", "java")


def test_python_clients_work_with_their_settings(secure_chronik_cluster: Cluster) -> None:
    """Three libraries, each with its own words for the same login."""
    cluster = secure_chronik_cluster

    async def by_aiokafka() -> None:
        async with AIOKafkaProducer(**cluster.client_settings("alice", "aiokafka")) as producer:
            await producer.send_and_wait("alice-t", b"aiokafka", partition=0)

    assert sent(cluster, "alice-t") == "OK"
    asyncio.run(by_aiokafka())
    driver = KafkaPythonDriver(cluster.bootstrap, **_without_address(cluster, "kafka-python"))
    driver.produce("alice-t", [Sent("kafka-python", partition=0)])
    assert [each.value for each in driver.consume("alice-t", 3)] == ["x", "aiokafka", "kafka-python"]
    driver.close()
    group = {"group.id": "alice-g", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({**cluster.client_settings("alice", "confluent-kafka"), **group})
    consumer.subscribe(["alice-t"])
    assert len(consumer.consume(3, PATIENCE_S)) == 3
    consumer.close()


def _without_address(cluster: Cluster, library: str) -> dict[str, Any]:
    settings = cluster.client_settings("alice", library)
    assert settings.pop("bootstrap_servers") == cluster.bootstrap
    return settings


def test_commands_work_with_the_properties_file(secure_chronik_cluster: Cluster, run_command: Run) -> None:
    file = secure_chronik_cluster.properties_file("alice")
    assert file.stat().st_mode & 0o777 == 0o600
    where = ("--bootstrap", secure_chronik_cluster.bootstrap, "--command-config", str(file))
    assert run_command("topic", "create", "alice-t", *where).exit_code == 0
    refused = run_command("topic", "create", "orders", *where)
    assert (refused.exit_code, "TOPIC_AUTHORIZATION_FAILED" in refused.err) == (1, True)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
def test_kafkas_tools_work_with_the_properties_file() -> None:
    """Java reads the same file: the escapes in it are Java's own."""
    tools = KafkaTools("4.3.1")
    try:
        with Cluster(secure=True) as cluster:
            cluster.add_user("bob", 'pä"ss\\wörd ')
            cluster.allow("bob", "all", topic="orders")
            own = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(cluster.properties_file("bob")))
            tools.run("TopicCommand", *own, "--create", "--topic", "orders")
            assert "orders" in tools.run("TopicCommand", *own, "--list")
    finally:
        tools.close()


def test_a_secure_cluster_on_data_of_ones_own_keeps_users_and_authority(tmp_path: Path) -> None:
    """Another run of a program finds the cluster that the first one left, with certificates that its clients trust."""
    with Cluster(secure=True, data=tmp_path) as cluster:
        password = cluster.add_user("bob")
        authority = cluster.security.ca_file.read_text()
        assert sent(cluster, "alice-t") == "OK"
    with Cluster(secure=True, data=tmp_path) as cluster:
        assert cluster.security.passwords["bob"] == password
        assert cluster.security.ca_file.read_text() == authority
        assert sent(cluster, "alice-t") == "OK"
        cluster.restart()
        assert sent(cluster, "alice-t", "admin") == "OK"
    secret = [path for path in (tmp_path / "security").iterdir() if path.name != "ca.pem"]
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}


def test_an_open_cluster_says_how_to_get_users(chronik_cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r"Cluster\(secure=True\)"):
        chronik_cluster.client_settings("alice", "java")


@pytest.mark.slow
def test_three_nodes_form_a_secure_cluster() -> None:
    """Brokers log in to each other, and the quorum requires certificates. A change applies on all nodes at once."""
    with Cluster(nodes=3, secure=True) as cluster:
        cluster.allow("alice", "write", "create", topic="orders")
        for node_id in (1, 2, 3):
            assert sent(cluster, "orders", **{"bootstrap.servers": cluster.address(node_id), "acks": "all"}) == "OK"


def test_a_secure_node_starts_within_a_second() -> None:
    """Measured in CPU time of this process, so that other programs on the machine do not count."""
    before = time.process_time()
    with Cluster(secure=True):
        assert time.process_time() - before < START_CPU_S_MAX


def test_the_pytest_plugin_imports_nothing_heavy() -> None:
    """Every user of the package would pay for it in every run of pytest."""
    script = "import sys, pytest; before = set(sys.modules); import chronik.testing.pytest_plugin; "
    script += "print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["chronik", "chronik.testing", "chronik.testing.pytest_plugin"]
