"""The errors for callers without permissions: the table of Chronik's tests, checked against a Kafka with an authorizer.

Clients come by a listener without a login, as User:ANONYMOUS, who has no permissions. Kafka's own connections, and the
one that creates the topic, log in as a super user.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from chronik.broker.api import served_apis
from chronik.broker.permissions import (
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from chronik.broker.session import Principal
from chronik.metadata.access import ALL, ALLOW, DENY, LITERAL, PREFIXED, AccessRule
from chronik.peer.addresses import Address
from chronik.peer.connection import connect
from chronik.runtime.real import real_runtime
from chronik.testing.ports import free_ports
from chronik.wire.compiler import decoder_of
from chronik.wire.headers import ResponseHeader, response_header_version
from chronik.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from chronik.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from chronik.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from chronik.wire.notation import Struct
from tests.broker.harness import Client
from tests.broker.hostile import World, frame, run
from tests.broker.requests_of_all_apis import Row, rows
from tests.broker.test_denied import Guarded, Scripted, by_rules, codes
from tests.oracle.kafka_server import KafkaServer

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

VERSIONS = range(1, 4)  # of the three APIs, in Kafka 4.3.1
DENIALS = {29, 30, 31, 53, 65}
OWN = ("brokers", "cluster_id", "error_message")  # what differs between any two servers
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="root" password="p" user_root="p";'
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.internal.plain.sasl.jaas.config": LOGIN,
    "listener.name.controller.plain.sasl.jaas.config": LOGIN,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
    "unstable.api.versions.enable": "true",  # for InitProducerId v6
}


class GuardedKafka(KafkaServer):
    internal_port = 0

    def _properties(self, controller_port: int) -> str:
        [self.internal_port] = free_ports(1)
        internal = f"INTERNAL://127.0.0.1:{self.internal_port}"
        clients = f"PLAINTEXT://127.0.0.1:{self.port}"
        self._settings = SETTINGS | {
            "listeners": f"{clients},{internal},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"{clients},{internal}",
        }
        return super()._properties(controller_port)

    def _awaited_ports(self) -> tuple[int, ...]:
        return (self.port, self.internal_port)


class Plain:
    """SASL PLAIN: one message."""

    name = "PLAIN"

    def first(self) -> bytes:
        return b"\0root\0p"

    def answer(self, challenge: bytes) -> None:
        return None


async def create_topic(port: int) -> bytes:
    connection = await connect(
        real_runtime().network, Address("127.0.0.1", port), client_id="test", mechanism=Plain(), timeout_ms=30_000
    )
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    response = await connection.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, timeout_ms=30_000)
    connection.close()
    assert not response.topics[0].error_code, response.topics[0].error_message
    return response.topics[0].topic_id


@pytest.fixture(scope="module")
def guarded_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuardedKafka, bytes]]:
    """One for all tests, with the id of topic `t`. A test that creates rules deletes them."""
    with GuardedKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka, asyncio.run(create_topic(kafka.internal_port))


def ask(port: int, row: Row) -> Any:
    response = served_apis()[row.request.api_key].response
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(frame(row.request, row.version))
        stream = client.makefile("rb")
        data = memoryview(bytearray(stream.read(int.from_bytes(stream.read(4), "big"))))
    _, at = decoder_of(ResponseHeader, response_header_version(response, row.version))(data)
    return decoder_of(response, row.version)(data, at)[0]


async def refused_by_chronik() -> dict[str, Any]:
    guarded = await Guarded.make()
    found = {row.what: shown(await guarded.ask(Scripted(), row), guarded.topic_id) for row in rows(guarded.topic_id)}
    await guarded.world.node.stop()
    return found


def shown(value: Any, topic_id: bytes) -> Any:
    """A response in comparable form: addresses, ids, texts and orders depend on the server."""
    if isinstance(value, Struct):
        names = [name for name in type(value).__annotations__ if name not in OWN]
        return {name: shown(getattr(value, name), topic_id) for name in names}
    if isinstance(value, list | tuple):
        return sorted((shown(each, topic_id) for each in value), key=repr)
    if isinstance(value, memoryview):
        return bytes(value)
    return "the id" if value == topic_id else value


def allow(operation: int, kind: int, name: str, *, pattern: int = LITERAL, deny: bool = False) -> AccessRule:
    return AccessRule(kind, name, pattern, "User:ANONYMOUS", "*", operation, DENY if deny else ALLOW)


# Rules under which the requests of the table are repeated, all at once. None of them lets a request change the state
# that later requests depend on.
RULES: dict[str, list[AccessRule]] = {
    "may see the topic": [allow(DESCRIBE, TOPIC, "t")],
    "may see all topics but one": [allow(DESCRIBE, TOPIC, "*"), allow(DESCRIBE, TOPIC, "t", deny=True)],
    "may read by a prefix": [allow(READ, TOPIC, "t", pattern=PREFIXED)],
    "may read, and not see": [allow(READ, TOPIC, "t"), allow(DESCRIBE, TOPIC, "t", deny=True)],
    "may write to topics that do not exist": [allow(WRITE, TOPIC, "absent")],
    "may see the cluster": [allow(DESCRIBE, CLUSTER, CLUSTER_NAME)],
    "may see configurations": [allow(DESCRIBE_CONFIGS, TOPIC, "*"), allow(DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME)],
    "may see transactions": [allow(DESCRIBE, TRANSACTIONAL_ID, "*")],
    "may be a follower": [allow(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)],
    "rules of somebody else": [AccessRule(TOPIC, "*", LITERAL, "User:other", "*", ALL, ALLOW)],
    "rules for another host": [AccessRule(TOPIC, "*", LITERAL, "User:ANONYMOUS", "10.1.1.1", ALL, ALLOW)],
}


async def set_rules(port: int, rules: list[AccessRule]) -> None:
    """Replaces all rules of a Kafka."""
    connection = await connect(
        real_runtime().network, Address("127.0.0.1", port), client_id="test", mechanism=Plain(), timeout_ms=30_000
    )
    fits = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    fits |= {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    everything = DeleteAclsRequest(filters=[DeleteAclsFilter(**fits)])
    await connection.ask(everything, DeleteAclsResponse, timeout_ms=30_000)
    creations = [
        AclCreation(
            resource_type=rule.kind,
            resource_name=rule.name,
            resource_pattern_type=rule.pattern,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    ]
    made = await connection.ask(CreateAclsRequest(creations=creations), CreateAclsResponse, timeout_ms=30_000)
    assert [result.error_code for result in made.results] == [0] * len(rules)
    asked = DescribeAclsRequest(**fits)
    for _ in range(10_000):  # the broker follows its controller
        shown_rules = await connection.ask(asked, DescribeAclsResponse, timeout_ms=30_000)
        there = {
            (of.resource_type, of.resource_name, of.pattern_type, acl.principal, acl.host, acl.operation)
            for of in shown_rules.resources
            for acl in of.acls
        }
        if there == {tuple(rule[:6]) for rule in rules}:
            break
    connection.close()


async def answered_by_chronik() -> dict[str, dict[str, list[int]]]:
    found = {}
    for what, rules in RULES.items():
        guarded = await Guarded.make()
        table = rows(guarded.topic_id)
        found[what] = {row.what: codes(await guarded.ask(by_rules(*rules), row)) for row in table}
        await guarded.world.node.stop()
    return found


def test_callers_with_some_permissions_get_the_same_errors(guarded_kafka: tuple[GuardedKafka, bytes]) -> None:
    """Each added rule allows what it should and nothing else. Compared where one of the two denies something."""
    kafka, topic_id = guarded_kafka
    kafkas = {}
    for what, rules in RULES.items():
        asyncio.run(set_rules(kafka.internal_port, rules))
        kafkas[what] = {row.what: codes(ask(kafka.port, row)) for row in rows(topic_id)}
    asyncio.run(set_rules(kafka.internal_port, []))
    ours = run(answered_by_chronik())
    different = {
        (what, name): (answer, ours[what][name])
        for what, answers in kafkas.items()
        for name, answer in answers.items()
        if answer != ours[what][name] and DENIALS & {*answer, *ours[what][name]}
    }
    assert different == {}
    opened = {
        what: sum(answers[name] != row.denied for name, row in denied_rows(topic_id)) for what, answers in ours.items()
    }
    assert all(opened[what] > 0 for what in RULES if what.startswith("may")), opened


def creation(name: str = "x", **fields: Any) -> AclCreation:
    usual: dict[str, Any] = {"resource_type": TOPIC, "principal": "User:u", "host": "*", "operation": READ}
    return AclCreation(resource_name=name, **{**usual, "permission_type": ALLOW, **fields})


CREATIONS = [
    (creation(), 0),
    (creation(), 0),
    (creation("x", resource_pattern_type=PREFIXED, host="no address"), 0),
    (creation("y", permission_type=DENY), 0),
    (creation("*", operation=ALL), 0),
    (creation(""), 42),
    (creation("another", resource_type=CLUSTER), 42),
    (creation(principal="u"), 42),
]
UNKNOWN = [creation(operation=1), creation(resource_type=1), creation(permission_type=1)]
FILTERS = [
    {},
    {"resource_name_filter": "x", "pattern_type_filter": 2},
    {"resource_name_filter": "xyz", "pattern_type_filter": 2, "resource_type_filter": TOPIC},
    {"resource_name_filter": "*"},
    {"principal_filter": "User:*"},
    {"operation": ALL},
    {"permission_type": DENY},
]


async def rules_through(connection: Any, version: int) -> list[Any]:
    """The responses of the three APIs in sequence; no rules remain."""

    async def ask(request: Any, response: Any) -> Any:
        return await connection.ask(request, response, version_min=version, version_max=version, timeout_ms=30_000)

    def fits(**fields: Any) -> dict[str, Any]:
        usual = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
        usual |= {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
        return {**usual, **fields}

    await ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**fits())]), DeleteAclsResponse)
    created = await ask(CreateAclsRequest(creations=[each for each, _ in CREATIONS]), CreateAclsResponse)
    created_count = len({repr(each) for each, code in CREATIONS if not code})
    found: list[Any] = [[result.error_code for result in created.results]]
    for _ in range(3_000):  # a broker of Kafka's follows its controller
        everything = await ask(DescribeAclsRequest(**fits()), DescribeAclsResponse)
        if sum(len(resource.acls) for resource in everything.resources) == created_count:
            break
    for fields in FILTERS:
        answer = await ask(DescribeAclsRequest(**fits(**fields)), DescribeAclsResponse)
        told = {
            (of.resource_type, of.resource_name, of.pattern_type, acl.principal, acl.host, acl.operation)
            for of in answer.resources
            for acl in of.acls
        }
        found.append((answer.error_code, sorted(told)))
    filters = [DeleteAclsFilter(**fits(resource_name_filter="x", pattern_type_filter=2)), DeleteAclsFilter(**fits())]
    deleted = await ask(DeleteAclsRequest(filters=filters), DeleteAclsResponse)
    found.append([(each.error_code, len(each.matching_acls)) for each in deleted.filter_results])
    return found


class AsRoot:
    """A node of ours, asked by a super user."""

    def __init__(self, world: World) -> None:
        self._client = Client(world.node)
        self._client.connection.session.principal = Principal("User", "root")

    async def ask(self, request: Any, response: Any, *, version_max: int, **_: Any) -> Any:
        return await self._client.ask(request, response, version_max)


async def rules_of_chronik() -> list[list[Any]]:
    world = await World.make(authorizer_class_name=SETTINGS["authorizer.class.name"], super_users="User:root")
    return [await rules_through(AsRoot(world), version) for version in VERSIONS]


async def rules_of_kafka(port: int) -> list[list[Any]]:
    at = Address("127.0.0.1", port)
    connection = await connect(real_runtime().network, at, client_id="t", mechanism=Plain(), timeout_ms=30_000)
    found = [await rules_through(connection, version) for version in VERSIONS]
    for unknown in UNKNOWN:  # Kafka has no error for this; Chronik returns INVALID_REQUEST
        answer = await connection.ask(
            CreateAclsRequest(creations=[unknown]), CreateAclsResponse, version_min=3, timeout_ms=30_000
        )
        assert answer.results[0].error_code in (-1, 42)
    connection.close()
    return found


def test_rules_are_created_found_and_deleted_as_by_kafka(guarded_kafka: tuple[GuardedKafka, bytes]) -> None:
    ours = run(rules_of_chronik())
    assert ours[0][0] == [code for _, code in CREATIONS]
    assert ours == asyncio.run(rules_of_kafka(guarded_kafka[0].internal_port))


def denied_rows(topic_id: bytes) -> list[tuple[str, Row]]:
    return [(row.what, row) for row in rows(topic_id)]


def test_kafka_refuses_as_the_table_says_and_as_chronik_does(guarded_kafka: tuple[GuardedKafka, bytes]) -> None:
    """Chronik is held to the same table without a JVM, by tests/broker/test_denied.py."""
    kafka, topic_id = guarded_kafka
    table = rows(topic_id)
    answers = {row.what: ask(kafka.port, row) for row in table}
    assert {what: codes(answer) for what, answer in answers.items()} == {row.what: row.denied for row in table}
    chronik = run(refused_by_chronik())
    for what, answer in answers.items():
        assert chronik[what] == shown(answer, topic_id), what
