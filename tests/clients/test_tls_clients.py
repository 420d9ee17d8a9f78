"""Clients in other languages over TLS, with and without certificates of their own."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from chronik.testing import Cluster
from tests.broker.tls_files import Files
from tests.clients.drivers.kafka_tools import KafkaTools

WAIT_S = 120
NAMES = (None, "alice")  # of the client's certificate


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def cluster(files: Files) -> Iterator[Cluster]:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "ssl.client.auth": "requested",
        **files.stores,
    }
    with Cluster(settings=settings) as cluster:
        yield cluster


def context_of(files: Files, name: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.trust))
    path = files.client(name)
    if path is not None:
        context.load_cert_chain(str(path))
    return context


@pytest.mark.parametrize("name", NAMES)
def test_aiokafka(cluster: Cluster, files: Files, name: str | None) -> None:
    security = {"security_protocol": "SSL", "ssl_context": context_of(files, name)}
    topic = f"aiokafka-{name}"

    async def work() -> list[bytes]:
        async with asyncio.timeout(WAIT_S):
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **security) as producer:
                for index in range(20):
                    await producer.send_and_wait(topic, b"%d" % index)
            consumer = AIOKafkaConsumer(
                topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", **security
            )
            async with consumer:
                return [(await consumer.getone()).value for _ in range(20)]

    assert asyncio.run(work()) == [b"%d" % index for index in range(20)]


@pytest.mark.parametrize("name", NAMES)
def test_kafka_python(cluster: Cluster, files: Files, name: str | None) -> None:
    security = {"security_protocol": "SSL", "ssl_context": context_of(files, name)}
    topic = f"kafka-python-{name}"
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, **security)
    for index in range(20):
        producer.send(topic, b"%d" % index).get(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
        **security,
    )
    assert [next(consumer).value for _ in range(20)] == [b"%d" % index for index in range(20)]
    consumer.close()


def chronik(cluster: Cluster, config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chronik.cli", *words, "--bootstrap", cluster.bootstrap]
    return subprocess.run([*command, "--command-config", str(config)], capture_output=True, text=True)


def test_our_own_commands(cluster: Cluster, files: Files) -> None:
    config = files.properties_file("alice")
    made = chronik(cluster, config, "topic", "create", "commands")
    assert made.returncode == 0, made.stderr
    assert "commands" in chronik(cluster, config, "topic", "list").stdout


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"ssl.truststore.location": "/nowhere"}, "/nowhere: cannot read the file"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS: allowed: PLAINTEXT, SSL"),
    ],
)
def test_our_own_commands_say_what_is_wrong_with_the_file(
    cluster: Cluster,
    files: Files,
    tmp_path: Path,
    keys: dict[str, str],
    reason: str,
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in {**files.properties(), **keys}.items()))
    refused = chronik(cluster, path, "topic", "list")
    assert refused.returncode == 2
    assert reason in refused.stderr


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_kafkas_own_tools(cluster: Cluster, files: Files, name: str | None) -> None:
    tools = KafkaTools("4.3.1")
    topic = f"tools-{name}"
    config = str(files.properties_file(name))
    where = ("--bootstrap-server", cluster.bootstrap)
    try:
        tools.run("TopicCommand", *where, "--command-config", config, "--create", "--topic", topic)
        tools.run("ConsoleProducer", *where, "--command-config", config, "--topic", topic, stdin="one\ntwo\n")
        read = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
        assert "one\ntwo\n" in tools.run("ConsoleConsumer", *where, "--command-config", config, *read)
    finally:
        tools.close()


@pytest.mark.long
def test_franz_gos_own_tests(files: Files, tmp_path: Path) -> None:
    """Its chains of groups and transactions, with KGO_TEST_TLS."""
    from tests.clients.test_franz_go_transactions import compiled_tests

    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
        **files.stores,
    }
    own = files.client("franz")
    with Cluster(nodes=3, settings=settings, in_process=False) as cluster:
        environment = {
            **os.environ,
            "KGO_SEEDS": cluster.bootstrap,
            "KGO_TEST_TLS": f"ca:{files.trust},cert:{own},key:{own}",
            "KGO_TEST_RF": "3",
            "KGO_TEST_RECORDS": "1000",
            "KGO_LOG_LEVEL": "none",
        }
        command = [compiled_tests(), "-test.run", "^TestTxnEtl$", "-test.v"]
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path)
    said = ran.stdout.decode(errors="replace")
    assert ran.returncode == 0, said[-8000:]
    assert len(re.findall(r"--- PASS: TestTxnEtl/", said)) == 3
