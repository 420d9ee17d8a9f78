"""A node with TLS, as clients see it: who can connect, under which identity, and the effect of a new certificate."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from chronik.broker.errors import BadSetting
from chronik.testing import Cluster
from chronik.testing.certificates import Authority
from chronik.testing.ports import free_ports
from tests.broker.tls_files import Files, replaced

SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SSL",
    "ssl.client.auth": "required",
    "chronik.ssl.reload.interval.ms": "100",
}
WAIT_S = 120
FOREIGN = Authority("Foreign")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def cluster(files: Files) -> Iterator[Cluster]:
    [admin] = free_ports(1)
    settings = {
        **SECURED,
        **files.stores,
        "chronik.admin.listener": f"127.0.0.1:{admin}",
        "chronik.admin.security.protocol": "SSL",
        "listener.name.chronik-admin.ssl.client.auth": "none",
        "ssl.principal.mapping.rules": "RULE:^CN=(node|alice|bob)$/$1/U",
    }
    with Cluster(settings=settings) as cluster:
        yield cluster


def produced(cluster: Cluster, security: dict[str, str], count: int = 1) -> int:
    """How many records were acknowledged."""
    done: list[Any] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": WAIT_S * 1000, **security})
    for index in range(count):
        producer.produce("orders", f"{index}".encode(), on_delivery=lambda error, _: done.append(error))
    producer.flush(WAIT_S)
    return sum(error is None for error in done)


def brokers_seen(cluster: Cluster, security: dict[str, str], patience_s: int) -> int:
    """0: it did not get in. The client keeps trying until its patience ends."""
    try:
        found = AdminClient({"bootstrap.servers": cluster.bootstrap, **security}).list_topics(timeout=patience_s)
    except KafkaException:
        return 0
    return len(found.brokers)


def test_a_client_with_a_certificate_writes_and_reads(cluster: Cluster, files: Files) -> None:
    security = files.librdkafka(files.client("alice"))
    assert produced(cluster, security, 300) == 300
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **security}
    )
    consumer.subscribe(["orders"])
    seen = [consumer.poll(WAIT_S).value() for _ in range(300)]
    consumer.close()
    assert sorted(seen, key=int) == [f"{index}".encode() for index in range(300)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "certificate",
    [
        pytest.param(lambda files: None, id="none", marks=pytest.mark.long),
        pytest.param(lambda files: files.client("mallory", authority=FOREIGN), id="foreign", marks=pytest.mark.long),
        pytest.param(lambda files: files.client("alice", days=-2), id="expired", marks=pytest.mark.long),
        pytest.param(lambda files: files.client("charlie"), id="no rule fits"),
    ],
)
def test_everybody_else_stays_outside(
    cluster: Cluster, files: Files, certificate: Callable[[Files], Path | None]
) -> None:
    assert brokers_seen(cluster, files.librdkafka(certificate(files)), 3) == 0
    assert brokers_seen(cluster, files.librdkafka(files.client("bob")), WAIT_S) == 1


def status(cluster: Cluster, files: Files, page: str = "status") -> str:
    port = cluster.settings[0]["chronik.admin.listener"].rpartition(":")[2]
    trusting = ssl.create_default_context(cafile=str(files.trust))
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/{page}", context=trusting, timeout=WAIT_S) as answer:
        return str(answer.read().decode())


def alarms(cluster: Cluster, files: Files) -> dict[str, str]:
    return {each["subject"]: each["text"] for each in json.loads(status(cluster, files))["alarms"]}


def test_administrators_see_over_tls_when_a_certificate_expires(cluster: Cluster, files: Files) -> None:
    assert 'chronik_certificate_expiry_days{listener="PLAINTEXT"} 29.' in status(cluster, files, "metrics")
    assert alarms(cluster, files) == {}


def alter_keystore(cluster: Cluster, security: dict[str, str], path: Path) -> None:
    entry = ConfigEntry(
        "listener.name.plaintext.ssl.keystore.location", str(path), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **security})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)


def served_serial(cluster: Cluster, files: Files) -> str:
    """The serial number of the node's current certificate, read by a client that trusts every certificate."""
    from cryptography import x509

    pem = ssl.get_server_certificate(("127.0.0.1", cluster.port), timeout=WAIT_S)
    return str(x509.load_pem_x509_certificate(pem.encode()).serial_number)


def test_altering_the_same_path_reads_the_file_again(cluster: Cluster, files: Files) -> None:
    """What Kafka's operators do after they have replaced a certificate."""
    security = files.librdkafka(files.client("alice"))
    alter_keystore(cluster, security, files.node)
    renewed = files.authority.server("node")
    replaced(files.node, renewed)
    alter_keystore(cluster, security, files.node)
    assert served_serial(cluster, files) == str(renewed.certificate.serial_number)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("no certificate at all", "0 private keys"), ("other subject", "the subject would change from CN=node to CN=b")],
)
def test_a_certificate_that_cannot_be_used_is_refused_and_changes_nothing(
    cluster: Cluster, files: Files, content: str, reason: str
) -> None:
    before = served_serial(cluster, files)
    path = files.directory / "worse.pem"
    path.write_text(files.authority.server("b").store_pem if content == "other subject" else content)
    security = files.librdkafka(files.client("alice"))
    with pytest.raises(KafkaException, match=reason):
        alter_keystore(cluster, security, path)
    assert served_serial(cluster, files) == before


def until(holds: Callable[[], bool]) -> None:
    """Bounded by the number of looks; each of them is a request."""
    assert any(holds() for _ in range(2000))


def test_a_file_that_changes_is_noticed_and_a_broken_one_raises_an_alarm(cluster: Cluster, files: Files) -> None:
    renewed = files.authority.server("node")
    replaced(files.node, "broken")
    until(lambda: "PLAINTEXT" in alarms(cluster, files))
    assert "keeps its certificates" in alarms(cluster, files)["PLAINTEXT"]
    assert produced(cluster, files.librdkafka(files.client("alice"))) == 1
    replaced(files.node, renewed)
    until(lambda: served_serial(cluster, files) == str(renewed.certificate.serial_number))
    until(lambda: not alarms(cluster, files))


def test_a_node_without_a_usable_certificate_does_not_start(files: Files) -> None:
    """The error names the key and the path, so an operator need not guess which of many files it is."""
    missing = {**SECURED, **files.stores, "ssl.keystore.location": "/nowhere/node.pem"}
    with pytest.raises(BadSetting, match=r"ssl\.keystore\.location=/nowhere/node\.pem: cannot read the file"):
        Cluster(settings=missing)


def test_tls_on_a_plaintext_port_is_called_that(caplog: pytest.LogCaptureFixture) -> None:
    with (
        Cluster() as plain,
        caplog.at_level("WARNING", "chronik.broker.connection"),
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        ssl.get_server_certificate(("127.0.0.1", plain.port), timeout=WAIT_S)
    assert "it speaks TLS: set security.protocol=PLAINTEXT at the client, or use an SSL listener" in caplog.text
