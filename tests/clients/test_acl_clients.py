"""Access rules as Kafka's own command and confluent-kafka set them, and what they do to a producer and a consumer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from chronik.broker.settings.access import STANDARD
from chronik.testing import Cluster
from tests.clients.drivers.kafka_tools import KafkaTools

DENIED = 29
EVERYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
# Everything is allowed on resources without rules, so that a client without a login can create the first one.
SETTINGS = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}


@pytest.fixture
def guarded() -> Iterator[str]:
    with Cluster(settings=SETTINGS) as cluster:
        yield cluster.bootstrap


def produced(bootstrap: str, topic: str) -> int:
    """The error code of one record."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v", on_delivery=lambda error, _: codes.append(0 if error is None else error.code()))
    producer.flush()
    return codes[0]


def consumed(bootstrap: str, topic: str) -> bytes | int:
    """The first record's value, or the error code."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        while True:
            message = consumer.poll(1)
            if message is not None:
                return message.value() if message.error() is None else message.error().code()
    except KafkaException as error:
        return int(error.args[0].code())
    finally:
        consumer.close()


def binding(operation: AclOperation, permission: AclPermissionType, name: str = "orders") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission
    )


def test_rules_of_confluent_kafka_decide_what_its_clients_may_do(guarded: str) -> None:
    admin = AdminClient({"bootstrap.servers": guarded})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result()
    rules = [
        binding(AclOperation.WRITE, AclPermissionType.ALLOW),
        binding(AclOperation.READ, AclPermissionType.DENY),
    ]
    for created in admin.create_acls(rules).values():
        created.result()
    assert set(admin.describe_acls(EVERYTHING).result()) == set(rules)
    assert (produced(guarded, "orders"), consumed(guarded, "orders")) == (0, DENIED)
    [deleted] = [each.result() for each in admin.delete_acls([EVERYTHING]).values()]
    assert set(deleted) == set(rules)
    assert consumed(guarded, "orders") == b"v"
    for created in admin.create_acls([binding(AclOperation.READ, AclPermissionType.ALLOW)]).values():
        created.result()
    assert produced(guarded, "orders") == DENIED


def test_bad_rules_are_refused_in_kafkas_terms(guarded: str) -> None:
    admin = AdminClient({"bootstrap.servers": guarded})
    bad = AclBinding(
        ResourceType.BROKER,
        "other",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException) as refused:
        admin.create_acls([bad])[bad].result()
    assert refused.value.args[0].code() == 42


@pytest.mark.java
def test_kafkas_command_adds_lists_and_removes_rules(guarded: str) -> None:
    tools = KafkaTools("4.3.1")
    where = ("--bootstrap-server", guarded)
    try:
        who = ("--allow-principal", "User:alice")
        added = tools.run("AclCommand", *where, "--add", *who, "--producer", "--topic", "orders")
        assert "operation=WRITE, permissionType=ALLOW" in added
        tools.run("AclCommand", *where, "--add", *who, "--consumer", "--topic", "orders", "--group", "g")
        denies = ("--deny-principal", "User:*", "--deny-host", "10.0.0.9", "--operation", "All")
        tools.run("AclCommand", *where, "--add", *denies, "--topic", "or", "--resource-pattern-type", "prefixed")
        listed = tools.run("AclCommand", *where, "--list")
        found = set(re.findall(r"principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)", listed))
        assert ("User:alice", "*", "READ", "ALLOW") in found
        assert ("User:*", "10.0.0.9", "ALL", "DENY") in found
        matching = ("--topic", "orders", "--resource-pattern-type", "match")
        assert "patternType=PREFIXED" in tools.run("AclCommand", *where, "--list", *matching)
        removed = tools.run("AclCommand", *where, "--remove", "--force", *matching)
        assert "User:alice" not in removed.rpartition("Current ACLs")[2]
        left = tools.run("AclCommand", *where, "--list")
        assert "resourceType=TOPIC" not in left
        assert "resourceType=GROUP" in left
    finally:
        tools.close()
