"""A reader that catches up gets its records in portions: every partition has its turn, and nothing is left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from chronik.broker.portions import SMALLEST_BYTES, Portions
from chronik.wire.batches import HEADER_BYTES, BatchView, split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker import hostile
from tests.broker.hostile import TOPIC, World

BATCH_BYTES = 200_000
BATCHES = 6  # of each partition, by default
MUCH_BYTES = 1 << 27
ANSWERS_MAX = 300


def asking(
    offsets: dict[int, int], *, min_bytes: int = 1, max_bytes: int = MUCH_BYTES, session_id: int = 0, epoch: int = -1
) -> FetchRequest:
    wanted = [FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=MUCH_BYTES) for p, o in offsets.items()]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=TOPIC, partitions=wanted)] if wanted else [],
        forgotten_topics_data=[],
    )


async def filled(*sizes: tuple[int, int]) -> World:
    """A partition for each (batches, bytes of a batch)."""
    world = await World.make()
    await world.create(partitions=len(sizes))
    for partition, (count, size_bytes) in enumerate(sizes):
        for _ in range(count):
            await world.produce(bytes(size_bytes), partition=partition)
    return world


def sizes_of(response: FetchResponse) -> dict[int, int]:
    return {part.partition_index: len(bytes(part.records)) for part in response.responses[0].partitions}


def taken(response: FetchResponse) -> dict[int, int]:
    """Next offsets by partition, of those that have records."""
    assert [topic.topic for topic in response.responses] in ([], [TOPIC]), "a topic is told once"
    found = [part for topic in response.responses for part in topic.partitions]
    assert not any(part.error_code for part in found)
    return {part.partition_index: split(part.records)[-1].next_offset for part in found if part.records}


async def read_all(world: World, ends: dict[int, int], names: Callable[[set[int]], Iterable[int]]) -> int:
    """Answers until everything is read, by a client that names these partitions, given the ones of the last answer."""
    offsets = dict.fromkeys(ends, 0)
    last: set[int] = set()
    for answers in range(1, ANSWERS_MAX):
        asked = {partition: offsets[partition] for partition in names(last)}
        response = await world.client.ask(asking(asked), FetchResponse, 11)
        assert [part.partition_index for part in response.responses[0].partitions] == list(asked)
        news = taken(response)
        offsets |= news
        last = set(news)
        if offsets == ends:
            return answers
    raise AssertionError(f"after {ANSWERS_MAX} answers it has {offsets} of {ends}")


def test_without_a_session_every_partition_has_its_turn() -> None:
    async def story() -> None:
        world = await filled(*[(BATCHES, BATCH_BYTES)] * 3)
        answers = await read_all(world, dict.fromkeys(range(3), BATCHES), lambda _: range(3))
        assert answers >= BATCHES * 3 * BATCH_BYTES // (2 * SMALLEST_BYTES)

    hostile.run(story())


def test_a_client_that_leaves_out_what_it_has_gets_all_of_them() -> None:
    """Prefetching clients do not name partitions whose last answer they still work on."""

    async def story() -> None:
        world = await filled(*[(BATCHES, BATCH_BYTES)] * 4)
        await read_all(world, dict.fromkeys(range(4), BATCHES), lambda last: [p for p in range(4) if p not in last])

    hostile.run(story())


def test_large_batches_get_their_turn_beside_small_ones() -> None:
    """The rest of a response after the first batch only has room for small batches."""

    async def story() -> None:
        world = await filled((60, BATCH_BYTES), (6, BATCH_BYTES), (600, 20_000))
        offsets = {0: 0, 1: 0, 2: 0}
        for _ in range(30):
            offsets |= taken(await world.client.ask(asking(offsets), FetchResponse, 11))
        assert offsets[1] == 6

    hostile.run(story())


def test_in_a_session_every_partition_has_its_turn() -> None:
    async def story() -> None:
        world = await filled(*[(BATCHES, BATCH_BYTES)] * 3)
        offsets = dict.fromkeys(range(3), 0)
        response = await world.client.ask(asking(offsets, epoch=0), FetchResponse, 11)
        session_id, epoch = response.session_id, 0
        news = taken(response)
        seen = [set(news)]
        while (offsets := offsets | news) and min(offsets.values()) < BATCHES:
            epoch += 1
            response = await world.client.ask(asking(news, session_id=session_id, epoch=epoch), FetchResponse, 11)
            news = taken(response)
            assert news
            seen.append(set(news))
        assert set().union(*seen[:3]) == {0, 1, 2}

    hostile.run(story())


def test_a_reader_that_is_far_away_soon_gets_all_it_asks_for() -> None:
    async def story() -> None:
        world = await filled(*[(40, BATCH_BYTES)] * 2)
        sizes: list[int] = []
        for _ in range(60):
            response = await world.client.ask(asking({0: 0, 1: 0}), FetchResponse, 11)
            sizes.append(sum(sizes_of(response).values()))
            await asyncio.sleep(0.1)
        assert sizes[0] < SMALLEST_BYTES
        assert sizes[-1] > 80 * BATCH_BYTES

    hostile.run(story())


def test_a_reader_that_is_near_gets_small_portions_for_long() -> None:
    async def story() -> None:
        world = await filled(*[(40, BATCH_BYTES)] * 2)
        for _ in range(300):
            size_bytes = sum(sizes_of(await world.client.ask(asking({0: 0, 1: 0}), FetchResponse, 11)).values())
            assert size_bytes <= 2 * SMALLEST_BYTES
            await asyncio.sleep(size_bytes * 1e-9)

    hostile.run(story())


def test_a_fetch_that_waited_is_not_held_against_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    given = Portions.given

    def noted(self: Portions, size_bytes: int, now_ns: int, *, has_waited: bool) -> None:
        told.append(has_waited)
        given(self, size_bytes, now_ns, has_waited=has_waited)

    monkeypatch.setattr(Portions, "given", noted)

    async def story() -> None:
        world = await filled((1, 10))
        for offset in (0, 1):
            request = asking({0: offset})
            request.max_wait_ms = 100
            await world.client.ask(request, FetchResponse, 11)

    hostile.run(story())
    assert told == [False, True]


@pytest.mark.parametrize("version", [3, 4, 11])
def test_a_portion_is_what_the_reader_gets(version: int) -> None:
    async def story() -> None:
        world = await filled((BATCHES, BATCH_BYTES))
        response = await world.client.ask(asking({0: 0}), FetchResponse, version)
        assert 0 < sizes_of(response)[0] <= SMALLEST_BYTES

    hostile.run(story())


def test_who_asks_for_less_than_a_portion_gets_no_more() -> None:
    async def story() -> None:
        world = await filled((BATCHES, 20_000))
        response = await world.client.ask(asking({0: 0}, max_bytes=50_000), FetchResponse, 11)
        assert taken(response) == {0: 2}

    hostile.run(story())


def test_a_batch_that_is_larger_than_a_portion_comes_whole() -> None:
    async def story() -> None:
        world = await filled((1, SMALLEST_BYTES + 1))
        await world.produce(b"w")
        response = await world.client.ask(asking({0: 0}), FetchResponse, 11)
        assert taken(response) == {0: 1}

    hostile.run(story())


def test_what_is_converted_stays_with_its_partition() -> None:
    """Old clients get other bytes than lie in the log, of partitions that may be read in another order than asked."""

    async def story() -> None:
        world = await World.make()
        await world.create(partitions=4)
        for partition in range(4):
            await world.produce(b"of partition %d" % partition, partition=partition)
        for _ in range(10):
            response = await world.client.ask(asking(dict.fromkeys(range(4), 0)), FetchResponse, 3)
            parts = response.responses[0].partitions
            assert [part.partition_index for part in parts] == [0, 1, 2, 3]
            for part in parts:
                assert b"of partition %d" % part.partition_index in bytes(part.records)

    hostile.run(story())


@pytest.mark.parametrize("version", [1, 2])
def test_clients_that_cannot_pass_a_larger_batch_get_all_they_ask_for(version: int) -> None:
    async def story() -> None:
        world = await filled((BATCHES, BATCH_BYTES))
        response = await world.client.ask(asking({0: 0}), FetchResponse, version)
        assert sizes_of(response)[0] > BATCHES * BATCH_BYTES

    hostile.run(story())


def test_who_waits_for_much_gets_much_at_once() -> None:
    async def story() -> None:
        world = await filled((BATCHES, BATCH_BYTES))
        response = await world.client.ask(asking({0: 0}, min_bytes=2), FetchResponse, 11)
        assert sizes_of(response)[0] > BATCHES * BATCH_BYTES

    hostile.run(story())


def test_what_is_wrong_with_a_partition_is_told_though_the_portion_is_full() -> None:
    async def story() -> None:
        empty: BatchView = split(memoryview(hostile.batch(b"")))[0]
        record_bytes = empty.size_bytes - HEADER_BYTES
        world = await World.make()
        await world.create(partitions=2)
        filler = bytes(SMALLEST_BYTES - HEADER_BYTES - record_bytes - 4)  # of which four say longer lengths
        await world.produce(filler)
        for _ in range(10):  # whichever comes first
            response = await world.client.ask(asking({0: 0, 1: 7}), FetchResponse, 11)
            first, second = response.responses[0].partitions
            assert len(bytes(first.records)) == SMALLEST_BYTES
            assert second.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    hostile.run(story())
