"""Real clients on a listener that asks for a login: PLAIN and SCRAM, right and wrong passwords, renewed logins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from chronik.testing import Cluster
from chronik.testing.ports import free_ports
from tests.clients.built import skip_module_without
from tests.clients.contract import wait_until
from tests.clients.driver import Driver, ProcessDriver, Sent
from tests.clients.drivers.aiokafka import AiokafkaDriver
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.kafka_python import KafkaPythonDriver
from tests.clients.drivers.kafka_tools import KafkaTools
from tests.clients.test_go_clients import program

skip_module_without("go")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("go")]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SIMPLE = "alice"  # kafka-python sends the comma of a name as it is, which SCRAM reads as the end of the name
USER, PASSWORD = "alice, the =2C first", 'pä"ss\\wörd'
LIFETIME_MS = 5000
RENEWALS = 2


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def jaas(mechanism: str, user: str, password: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f"org.apache.kafka.common.security.{module} required username={quoted(user)} password={quoted(password)};"


class WithLogins:
    """A cluster of one node with two listeners: logins on one do not expire, logins on the other expire quickly."""

    def __init__(self) -> None:
        main, short = free_ports(2)
        listeners = f"MAIN://127.0.0.1:{main},SHORT://127.0.0.1:{short}"
        users = " ".join(
            [
                'PlainLoginModule required username="admin" password="a" user_admin="a"',
                f'"user_{USER}"={quoted(PASSWORD)} user_{SIMPLE}={quoted(PASSWORD)};',
            ]
        )
        self.main, self.short = f"127.0.0.1:{main}", f"127.0.0.1:{short}"
        self.cluster = Cluster(
            settings={
                "listeners": listeners,
                "advertised.listeners": listeners,
                "listener.security.protocol.map": "MAIN:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
                "inter.broker.listener.name": "MAIN",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.jaas.config": users,
                "listener.name.short.connections.max.reauth.ms": str(LIFETIME_MS),
                "num.partitions": "3",
            },
            in_process=False,
        )


@pytest.fixture(scope="module")
def logins() -> Iterator[WithLogins]:
    made = WithLogins()
    try:
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            for user in (USER, SIMPLE):
                info = ScramCredentialInfo(kind, 4096)
                alter(made.main, UserScramCredentialUpsertion(user, info, PASSWORD.encode()))
        yield made
    finally:
        made.cluster.close()


def librdkafka(bootstrap: str, mechanism: str, user: str, password: str) -> Driver:
    return ConfluentDriver(bootstrap, rdkafka_login(mechanism, user, password))


def rdkafka_login(mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "message.timeout.ms": "120000",
    }


def kafka_python(bootstrap: str, mechanism: str, user: str, password: str) -> Driver:
    return KafkaPythonDriver(bootstrap, **python_login(mechanism, user, password))


def aiokafka(bootstrap: str, mechanism: str, user: str, password: str) -> Driver:
    return AiokafkaDriver(bootstrap, **python_login(mechanism, user, password))


def python_login(mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def franz_go(bootstrap: str, mechanism: str, user: str, password: str) -> Driver:
    return ProcessDriver([program("franz"), mechanism, user, password], bootstrap)


# One of them on every run; the others take long to start.
CLIENTS = [librdkafka, *(pytest.param(each, marks=pytest.mark.long) for each in (kafka_python, aiokafka, franz_go))]
MakeDriver = Callable[[str, str, str, str], Driver]


def alter(bootstrap: str, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **rdkafka_login("PLAIN", "admin", "a")})
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(timeout=30)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("make", CLIENTS)
def test_a_user_produces_and_consumes(logins: WithLogins, make: MakeDriver, mechanism: str) -> None:
    driver = make(logins.main, mechanism, SIMPLE if make is kafka_python else USER, PASSWORD)
    topic = f"{make.__name__}-{mechanism}".replace("_", "-")
    try:
        assert driver.produce(topic, [Sent("one", partition=0), Sent("two", partition=0)]) == [(0, 0), (0, 1)]
        assert [record.value for record in driver.consume(topic, 2)] == ["one", "two"]
    finally:
        driver.close()


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_in_brokers_words(logins: WithLogins, mechanism: str) -> None:
    for user, password in ((USER, "wrong"), ("mallory", PASSWORD)):
        errors: list[str] = []
        admin = AdminClient(
            {
                "bootstrap.servers": logins.main,
                **rdkafka_login(mechanism, user, password),
                "error_cb": lambda error, errors=errors: errors.append(str(error)),
            }
        )
        while not any("Authentication failed" in error for error in errors):
            admin.poll(1)
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.5)


def described(logins: WithLogins, user: str) -> list[tuple[ScramMechanism, int]]:
    admin = AdminClient({"bootstrap.servers": logins.main, **rdkafka_login("PLAIN", "admin", "a")})
    found = admin.describe_user_scram_credentials([user])[user].result(timeout=30)
    return [(info.mechanism, info.iterations) for info in found.scram_credential_infos]


def test_users_are_described_and_deleted(logins: WithLogins) -> None:
    kind = ScramMechanism.SCRAM_SHA_256
    alter(logins.main, UserScramCredentialUpsertion("dave", ScramCredentialInfo(kind, 8192), b"pw", b"salt"))
    assert described(logins, "dave") == [(kind, 8192)]
    alter(logins.main, UserScramCredentialDeletion("dave", kind))
    with pytest.raises(KafkaException, match="dave"):
        described(logins, "dave")


@pytest.mark.long
@pytest.mark.parametrize("make", [librdkafka, franz_go])
def test_logins_are_renewed_while_records_flow(logins: WithLogins, make: MakeDriver) -> None:
    """A client that knows lifetimes (KIP-368) renews its login on the connection that it has, and loses nothing."""
    driver = make(logins.short, "SCRAM-SHA-512", USER, PASSWORD)
    topic, sent = f"renewed-{make.__name__}", 0
    end = time.monotonic() + RENEWALS * LIFETIME_MS / 1000
    try:
        driver.join("member", f"group-{make.__name__}", topic)
        while time.monotonic() < end:
            driver.produce(topic, [Sent(str(sent), partition=0)])
            sent += 1
        wait_until(lambda: len(driver.received("member")) >= sent, "all records are received")
        assert [record.value for record in driver.received("member")] == [str(number) for number in range(sent)]
    finally:
        driver.close()


# --- Kafka's own tools


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    made = KafkaTools("4.3.1")
    yield made
    made.close()


def properties(folder: Path, mechanism: str, user: str, password: str) -> str:
    path = folder / "client.properties"
    text = jaas(mechanism, user, password).replace("\\", "\\\\")
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={text}\n"
        "request.timeout.ms=20000\ndefault.api.timeout.ms=20000\n",
        encoding="latin-1",
    )
    return str(path)


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_console_producer_and_consumer(logins: WithLogins, tools: KafkaTools, tmp_path: Path, mechanism: str) -> None:
    topic = f"console-{mechanism}"
    where = ("--bootstrap-server", logins.main, "--topic", topic)
    own = ("--command-config", properties(tmp_path, mechanism, USER.replace("ä", "a"), PASSWORD))
    tools.run("ConsoleProducer", *where, *own, "--sync", "--timeout", "0", stdin="one\ntwo\n")
    read = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    seen = tools.run("ConsoleConsumer", *where, *own, *read)
    assert [line for line in seen.splitlines() if line in ("one", "two")] == ["one", "two"]


@pytest.mark.java
@pytest.mark.long
def test_kafka_configs_sets_and_removes_credentials(logins: WithLogins, tools: KafkaTools, tmp_path: Path) -> None:
    where = ("--bootstrap-server", logins.main, "--command-config", properties(tmp_path, "PLAIN", "admin", "a"))
    erin = ("--entity-type", "users", "--entity-name", "erin")
    both = "SCRAM-SHA-256=[iterations=8192,password=pw],SCRAM-SHA-512=[password=pw]"
    assert "Completed updating" in tools.run("ConfigCommand", *where, *erin, "--alter", "--add-config", both)
    kinds = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
    assert described(logins, "erin") == [(kinds[0], 8192), (kinds[1], 4096)]
    driver = librdkafka(logins.main, "SCRAM-SHA-512", "erin", "pw")
    assert driver.produce("of-erin", [Sent("x", partition=0)]) == [(0, 0)]
    driver.close()
    gone = tools.run("ConfigCommand", *where, *erin, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "Completed updating" in gone
    assert described(logins, "erin") == [(kinds[1], 4096)]


@pytest.mark.java
@pytest.mark.long
def test_a_wrong_password_is_told_to_kafkas_tools(logins: WithLogins, tools: KafkaTools, tmp_path: Path) -> None:
    own = ("--command-config", properties(tmp_path, "SCRAM-SHA-512", "mallory", "x"))
    refusal = tools.refused("TopicCommand", "--bootstrap-server", logins.main, *own, "--list")
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in refusal
