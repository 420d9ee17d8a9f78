"""Client quotas: set, removed, refused and described, and how long clients are made to wait."""

from __future__ import annotations

import pytest

from chronik.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    EntityData,
    OpData,
)
from chronik.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.hostile import batch
from tests.oracle.asking import create_topic
from tests.oracle.comparison import CLIENT_ID, Pair

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("compat")]

EXACT, DEFAULT, ANY = range(3)
ANY_ORDER = ("entries", "entity", "values")  # Kafka's is that of hash tables
Entity = dict[str, str | None]


def alter(entity: Entity, validate_only: bool = False, **ops: float | None) -> AlterClientQuotasRequest:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    changes = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()]
    return AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequestEntry(entity=parts, ops=changes)], validate_only=validate_only
    )


def describe(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    asked = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return DescribeClientQuotasRequest(components=asked, strict=strict)


def entities(pair: Pair) -> list[Entity]:
    user, client = pair.name("user"), pair.name("client")
    return [
        {"user": user},
        {"user": user, "client-id": client},
        {"user": user, "client-id": None},
        {"client-id": client},
        {"user": None, "client-id": client},
    ]


def test_quotas_are_set_described_and_removed(pair: Pair) -> None:
    """Every combination of users, client ids and defaults, and every kind of filter."""
    user, client = pair.name("user"), pair.name("client")
    for version in pair.versions(AlterClientQuotasRequest):
        for entity in entities(pair):
            pair.ask(alter(entity, producer_byte_rate=1000.0, request_percentage=0.5), version, unordered=ANY_ORDER)
            pair.ask(alter(entity, consumer_byte_rate=2.0, producer_byte_rate=None), version, unordered=ANY_ORDER)
            pair.ask(alter(entity, validate_only=True, controller_mutation_rate=9.0), version, unordered=ANY_ORDER)
            pair.ask(
                alter(entity, consumer_byte_rate=None, controller_mutation_rate=None), version, unordered=ANY_ORDER
            )
        pair.ask(alter({"ip": "10.9.8.7"}, connection_creation_rate=7.0), version, unordered=ANY_ORDER)
        for asked in (
            describe(("user", EXACT, user)),
            describe(("user", EXACT, user), strict=True),
            describe(("user", EXACT, user), ("client-id", ANY, None)),
            describe(("user", EXACT, user), ("client-id", DEFAULT, None)),
            describe(("client-id", EXACT, client)),
            describe(("client-id", EXACT, client), strict=True),
            describe(("client-id", EXACT, client), ("user", DEFAULT, None)),
            describe(("ip", EXACT, "10.9.8.7")),
            describe(("ip", EXACT, "10.9.8.6")),
            describe(("user", EXACT, pair.name("nobody"))),
        ):
            pair.ask_until_equal(asked, version, unordered=ANY_ORDER)
        for entity in entities(pair):
            pair.do(alter(entity, request_percentage=None), version)
        pair.do(alter({"ip": "10.9.8.7"}, connection_creation_rate=None), version)


def test_bad_quotas_are_refused(pair: Pair) -> None:
    user = pair.name("user")
    both: Entity = {"user": user, "ip": "10.0.0.1"}
    for version in pair.versions(AlterClientQuotasRequest):
        for entity, ops in (
            ({}, {"producer_byte_rate": 1.0}),
            ({"group": "g"}, {"producer_byte_rate": 1.0}),
            (both, {"producer_byte_rate": 1.0}),
            ({"ip": "not an address"}, {"connection_creation_rate": 1.0}),
            ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1.0}),
            ({"ip": "10.0.0.1"}, {"connection_creation_rate": 2.0**31}),
            ({"user": user}, {"connection_creation_rate": 1.0}),
            ({"user": user}, {"no_such_rate": 1.0}),
            ({"user": user}, {"producer_byte_rate": 0.0}),
            ({"user": user}, {"producer_byte_rate": -1.0}),
            ({"user": user}, {"producer_byte_rate": 1.5}),
            ({"user": user}, {"producer_byte_rate": 1e300}),
            ({"user": user}, {"request_percentage": 0.0}),
            ({"user": user}, {"no_such_rate": None}),
        ):
            pair.case = f"{entity} {ops}"
            pair.ask(alter(entity, **ops), version, unordered=ANY_ORDER)  # type: ignore[arg-type]
        pair.case = "twice"
        once = alter({"user": user}, producer_byte_rate=5.0).entries
        pair.ask(AlterClientQuotasRequest(entries=[], validate_only=False), version)
        doubled = alter({"user": user}, producer_byte_rate=5.0)
        doubled.entries[0].ops += once[0].ops
        pair.ask(doubled, version, unordered=ANY_ORDER)
        pair.case = "filters"
        for asked in (
            describe(("", EXACT, user)),
            describe(("group", EXACT, user)),
            describe(("user", EXACT, user), ("user", DEFAULT, None)),
            describe(("user", EXACT, None)),
            describe(("user", DEFAULT, user)),
            describe(("user", ANY, user)),
            describe(("user", 7, None)),
            describe(("user", EXACT, user), ("ip", DEFAULT, None)),
        ):
            pair.ask(asked, version)


def test_a_producer_waits_as_long_as_kafka_makes_it_wait(pair: Pair) -> None:
    """60 KB three times at 10,000 bytes a second.

    A wait is the time that all bytes take at that rate, less the span of the rate: 10 s, and the part of a second that
    has passed since the last whole one. The part is not the same on two servers.
    """
    topic = create_topic(pair, pair.name("slow"))
    pair.do(alter({"client-id": CLIENT_ID}, producer_byte_rate=10_000.0), 1)
    pair.ask_until_equal(describe(("client-id", EXACT, CLIENT_ID)), 1, unordered=ANY_ORDER)
    data = PartitionProduceData(index=0, records=batch(b"x" * 60_000))
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    waits_ms: list[tuple[int, int]] = []
    try:
        for _ in range(3):
            kafka, chronik = pair.do(request, 9, on="producer")
            waits_ms.append((kafka.throttle_time_ms, chronik.throttle_time_ms))
    finally:
        pair.do(alter({"client-id": CLIENT_ID}, producer_byte_rate=None), 1)
    assert waits_ms[0] == (0, 0)
    for count, waits in enumerate(waits_ms[1:], 2):
        longest_ms = count * 6_030 - 10_000  # 60,000 bytes and at most 300 of headers
        for wait_ms in waits:
            assert longest_ms - 1_100 <= wait_ms <= longest_ms
