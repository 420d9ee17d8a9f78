"""A node with quotas returns throttle times, and does not read from clients for that long. In virtual time."""

from __future__ import annotations

import asyncio

import pytest

from chronik.broker.quotas.charging import WAIT_MS_MAX
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from chronik.wire.messages.fetch import FetchResponse
from chronik.wire.messages.produce import ProduceResponse
from tests.broker.harness import Client, Closed
from tests.broker.hostile import World, batch, fetch_request, produce_request, run, turns

RECORDS = batch(b"x" * 60_000)


async def quota(world: World, key: str, value: float | None, **entity: str | None) -> None:
    """Of the user that all clients of the harness are, unless an entity is named."""
    named = entity or {"user": "ANONYMOUS"}
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntry(
                entity=[
                    EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in named.items()
                ],
                ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
            )
        ],
        validate_only=False,
    )
    answer = await world.client.ask(request, AlterClientQuotasResponse, 1)
    assert answer.entries[0].error_code == 0, answer.entries[0].error_message


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_producer_is_answered_at_once_and_then_not_read_from(version: int) -> None:
    """Kafka's numbers: 60 KB three times at 10,000 bytes a second."""

    async def produced() -> None:
        world = await World.make()
        await world.create()
        await quota(world, "producer_byte_rate", 10_000)
        client, waits, answered_s = Client(world.node), [], []
        for _ in range(3):
            answer = await client.ask(produce_request(RECORDS), ProduceResponse, version)
            assert answer.responses[0].partition_responses[0].error_code == 0
            waits.append(answer.throttle_time_ms)
            answered_s.append(now_s())
        size_bytes = 60_000  # of each request, and its headers
        assert waits[0] == 0
        assert waits[1] == pytest.approx(2 * size_bytes / 10 - 10_000, abs=40)
        # The second wait has passed by the time the third request is read.
        assert answered_s[2] - answered_s[1] == pytest.approx(waits[1] / 1000, abs=0.01)
        assert waits[2] == pytest.approx(3 * size_bytes / 10 - 10_000 - (waits[1] % 1000), abs=1_100)
        await world.node.stop()

    run(produced())


def test_acks_0_pays_too() -> None:
    """Nothing is answered, so muting is all that slows such a producer down."""

    async def produced() -> None:
        world = await World.make()
        await world.create()
        await quota(world, "producer_byte_rate", 10_000)
        client = Client(world.node)
        for _ in range(3):
            client.start(produce_request(RECORDS, acks=0), 9).cancel()
        client._waiting.clear()
        await turns()
        assert client.connection.session.muted_until_ns > 0
        await world.node.stop()

    run(produced())


def test_a_consumer_above_its_quota_gets_nothing_until_it_has_waited() -> None:
    async def fetched() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"x" * 60_000)
        await quota(world, "consumer_byte_rate", 10_000)
        client = Client(world.node)
        first = await client.ask(fetch_request(0), FetchResponse, 11)
        second = await client.ask(fetch_request(0), FetchResponse, 11)
        assert (first.throttle_time_ms, len(first.responses)) == (0, 1)
        assert second.throttle_time_ms > 0
        assert second.responses == []
        since_s, answer = now_s(), second
        while not answer.responses:
            waited_ms, asked_s = answer.throttle_time_ms, now_s()
            answer = await client.ask(fetch_request(0), FetchResponse, 11)
            assert now_s() - asked_s >= waited_ms / 1000 - 0.002
        assert 10 <= now_s() - since_s <= 13  # until the first response is older than all samples
        await world.node.stop()

    run(fetched())


def test_a_response_is_no_larger_than_ten_seconds_of_the_quota() -> None:
    """Or a client with a small quota and large responses would never get one."""

    async def fetched() -> None:
        world = await World.make()
        await world.create()
        for _ in range(5):
            await world.produce(b"x" * 2_000)
        await quota(world, "consumer_byte_rate", 500)
        found = await Client(world.node).ask(fetch_request(0), FetchResponse, 11)
        assert found.throttle_time_ms == 0
        assert 2_000 < len(found.responses[0].partitions[0].records) <= 5_000
        await world.node.stop()

    run(fetched())


def test_changes_of_topics_are_refused_while_the_bucket_is_overdrawn() -> None:
    async def changed() -> None:
        world = await World.make(controller_quota_window_num=2)
        await world.create("old", 4)
        await quota(world, "controller_mutation_rate", 5)
        client = Client(world.node)
        topics = [
            CreatableTopic(name=name, num_partitions=20, replication_factor=1, assignments=[], configs=[])
            for name in ("a", "b")
        ]
        made = await client.ask(CreateTopicsRequest(topics=topics), CreateTopicsResponse, 7)
        assert {topic.name: topic.error_code for topic in made.topics} == {
            "a": 0,
            "b": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        }
        assert made.throttle_time_ms == pytest.approx(2_000, abs=20)  # 10 saved up, 20 taken
        grown = [CreatePartitionsTopic(name="old", count=9, assignments=None)]
        refused = await Client(world.node).ask(
            CreatePartitionsRequest(topics=grown, timeout_ms=0, validate_only=False), CreatePartitionsResponse, 3
        )
        assert refused.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        only = await Client(world.node).ask(
            CreatePartitionsRequest(topics=grown, timeout_ms=0, validate_only=True), CreatePartitionsResponse, 3
        )
        assert (only.results[0].error_code, only.throttle_time_ms) == (0, 0)
        old = await Client(world.node).ask(
            DeleteTopicsRequest(topic_names=["old"], timeout_ms=0), DeleteTopicsResponse, 4
        )
        assert old.responses[0].error_code == 0, "older versions do what they are asked, and wait afterwards"
        assert old.throttle_time_ms > 2_000
        await world.node.stop()

    run(changed())


def test_an_address_that_connects_too_often_is_turned_away_after_a_while() -> None:
    async def connected() -> None:
        world = await World.make()
        await quota(world, "connection_creation_rate", 1, ip="127.0.0.1")
        clients = [Client(world.node) for _ in range(12)]
        asked = [each.start(ApiVersionsRequest(), 0) for each in clients]
        await turns()
        served = [each.done() for each in asked]
        assert served == [True] * 10 + [False] * 2
        with pytest.raises(Closed):
            await asked[-1]
        assert world.client.is_closed is False
        await world.node.stop()

    run(connected())


def test_a_wait_that_no_response_can_tell_is_told_as_the_longest_one() -> None:
    """24 days. Without an answer a producer would send records again that are stored already."""

    async def throttled() -> None:
        world = await World.make()
        await world.create()
        await quota(world, "producer_byte_rate", 1)
        answers = [
            await Client(world.node).ask(produce_request(batch(b"x" * 900_000)), ProduceResponse, 9) for _ in range(3)
        ]
        assert [answer.responses[0].partition_responses[0].base_offset for answer in answers] == [0, 1, 2]
        assert answers[-1].throttle_time_ms == WAIT_MS_MAX
        await quota(world, "producer_byte_rate", None)
        await quota(world, "controller_mutation_rate", 1e-300)
        for version in (7, 5):  # refuses, and waits afterwards
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for _ in range(2):
                made = await Client(world.node).ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, version)
            assert made.throttle_time_ms == WAIT_MS_MAX
        await world.node.stop()

    run(throttled())


def test_a_quota_that_is_removed_does_not_hold_any_more() -> None:
    async def removed() -> None:
        world = await World.make()
        await world.create()
        for value in (10_000, None):
            await quota(world, "producer_byte_rate", value)
        client = Client(world.node)
        for _ in range(3):
            assert (await client.ask(produce_request(RECORDS), ProduceResponse, 9)).throttle_time_ms == 0
        assert world.node.quotas.restricts is False
        await world.node.stop()

    run(removed())


def test_a_client_that_leaves_while_it_waits_is_forgotten() -> None:
    """Its timer must not touch a connection that is gone."""

    async def left() -> None:
        world = await World.make()
        await world.create()
        await quota(world, "producer_byte_rate", 100)
        client = Client(world.node)
        answer = await client.ask(produce_request(RECORDS), ProduceResponse, 9)
        assert answer.throttle_time_ms > 0
        client.closed()
        await asyncio.sleep(answer.throttle_time_ms / 1000 + 1)
        assert (await world.client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)).error_code == 0
        await world.node.stop()

    run(left())
