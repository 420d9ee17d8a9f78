"""A reader that catches up gets its records in portions: every partition has its turn, and nothing is left out."""

from __future__ import annotations

import pytest

from chronik.broker.portions import SMALLEST_BYTES
from chronik.wire.batches import split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker import hostile
from tests.broker.hostile import TOPIC, World

PARTITIONS = 3
BATCH_BYTES = 200_000
BATCHES = 6  # of each partition
VERSIONS = (4, 11)
MUCH_BYTES = 1 << 25


def asking(offsets: dict[int, int], *, min_bytes: int = 1, session_id: int = 0, epoch: int = -1) -> FetchRequest:
    wanted = [FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=MUCH_BYTES) for p, o in offsets.items()]
    topics = [FetchTopic(topic=TOPIC, partitions=wanted)] if wanted else []
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=min_bytes,
        max_bytes=MUCH_BYTES,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=[],
    )


async def filled() -> World:
    world = await World.make()
    await world.create(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        for _ in range(BATCHES):
            await world.produce(b"v" * BATCH_BYTES, partition=partition)
    return world


def taken(response: FetchResponse) -> dict[int, int]:
    """Next offsets by partition, of those that have records."""
    assert [topic.topic for topic in response.responses] in ([], [TOPIC]), "a topic is told once"
    found = [part for topic in response.responses for part in topic.partitions]
    assert not any(part.error_code for part in found)
    assert sum(len(bytes(part.records)) for part in found) <= 2 * SMALLEST_BYTES
    return {part.partition_index: split(part.records)[-1].next_offset for part in found if part.records}


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_session_every_partition_has_its_turn(version: int) -> None:
    async def story() -> None:
        world = await filled()
        offsets = dict.fromkeys(range(PARTITIONS), 0)
        seen: list[set[int]] = []
        while min(offsets.values()) < BATCHES:
            response = await world.client.ask(asking(offsets), FetchResponse, version)
            assert [part.partition_index for part in response.responses[0].partitions] == list(offsets)
            news = taken(response)
            assert news
            offsets |= news
            seen.append(set(news))
        assert set().union(*seen[:PARTITIONS]) == set(range(PARTITIONS))
        assert offsets == dict.fromkeys(range(PARTITIONS), BATCHES)

    hostile.run(story())


def test_in_a_session_every_partition_has_its_turn() -> None:
    async def story() -> None:
        world = await filled()
        offsets = dict.fromkeys(range(PARTITIONS), 0)
        response = await world.client.ask(asking(offsets, epoch=0), FetchResponse, 11)
        session_id, epoch = response.session_id, 0
        seen = [set(taken(response))]
        news = taken(response)
        while (offsets := offsets | news) and min(offsets.values()) < BATCHES:
            epoch += 1
            response = await world.client.ask(asking(news, session_id=session_id, epoch=epoch), FetchResponse, 11)
            news = taken(response)
            assert news
            seen.append(set(news))
        assert set().union(*seen[:PARTITIONS]) == set(range(PARTITIONS))

    hostile.run(story())


def test_a_batch_that_is_larger_than_a_portion_comes_whole() -> None:
    async def story() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"v" * (SMALLEST_BYTES + 1))
        await world.produce(b"w")
        response = await world.client.ask(asking({0: 0}), FetchResponse, 11)
        assert taken(response) == {0: 1}

    hostile.run(story())


@pytest.mark.parametrize("version", [1, 2])
def test_clients_that_cannot_pass_a_larger_batch_get_all_they_ask_for(version: int) -> None:
    async def story() -> None:
        world = await filled()
        response = await world.client.ask(asking({0: 0}), FetchResponse, version)
        assert len(bytes(response.responses[0].partitions[0].records)) > BATCHES * BATCH_BYTES

    hostile.run(story())


def test_who_waits_for_much_gets_much_at_once() -> None:
    async def story() -> None:
        world = await filled()
        response = await world.client.ask(asking({0: 0}, min_bytes=2), FetchResponse, 11)
        assert len(bytes(response.responses[0].partitions[0].records)) > BATCHES * BATCH_BYTES

    hostile.run(story())


def test_what_is_wrong_with_a_partition_is_told_though_the_portion_is_full() -> None:
    async def story() -> None:
        world = await filled()
        response = await world.client.ask(asking({0: 0, 1: BATCHES + 1}), FetchResponse, 11)
        first, second = response.responses[0].partitions
        assert first.records
        assert second.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    hostile.run(story())
