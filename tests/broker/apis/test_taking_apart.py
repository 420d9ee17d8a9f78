"""Batches with an unknown number of records are decoded on a lane, and the loop serves other clients meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from chronik.broker.produced import QUICK_BYTES_MAX
from chronik.runtime.interfaces import File, Lane
from chronik.wire.batches import build
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.legacy_batches import messages, unwrap
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from chronik.wire.messages.fetch import FetchResponse, PartitionData
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.messages.produce import ProduceResponse
from chronik.wire.records import Record
from tests.broker.harness import NOW_MS, Client
from tests.broker.hostile import TOPIC, World, fetch_request, produce_request, run, turns

T = TypeVar("T")
VERSION_MAGIC_1 = 3
MAX_TIMESTAMP = -3
OPENED_TYPES = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


class NotedLane:
    """Counts its work, and holds it back while `is_open` is not set."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.count = 0
        self.is_open = asyncio.Event()
        self.is_open.set()

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        self.count += 1
        return asyncio.ensure_future(self._run(work))

    async def _run(self, work: Callable[[], T]) -> T:
        await self.is_open.wait()
        return await self._lane.run(work)

    def sync(self, files: Sequence[File]) -> asyncio.Future[None]:
        return self._lane.sync(files)

    def sync_then(self, files: Sequence[File], done: Callable[[BaseException | None], None]) -> None:
        self._lane.sync_then(files, done)

    def close(self) -> None:
        self._lane.close()


async def world_with(*batches: bytes) -> tuple[World, NotedLane]:
    world = await World.make()
    await world.create()
    for data in batches:
        answer = await world.client.ask(produce_request(data), ProduceResponse, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
    lane = NotedLane(world.node.record_lane)
    dispatcher = world.node.dispatcher
    dispatcher._services = replace(dispatcher._services, record_lane=lane)
    return world, lane


def batch(codec: Codec = Codec.NONE, *, value: bytes = b"v") -> bytes:
    return build([Record(n, NOW_MS + n, None, value, ()) for n in range(3)], codec)


async def offset_at(client: Client, time_ms: int) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=time_ms)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])]
    )
    return (await client.ask(request, ListOffsetsResponse, 7)).topics[0].partitions[0]


async def old_fetch(world: World, offset: int = 0) -> PartitionData:
    return (await world.client.ask(fetch_request(offset), FetchResponse, VERSION_MAGIC_1)).responses[0].partitions[0]


def old_offsets(found: PartitionData) -> list[int]:
    offsets: list[int] = []
    for message in messages(memoryview(bytes(found.records))):
        inside = [message] if message.codec is Codec.NONE else unwrap(message, 1 << 20)
        offsets += [each.offset for each in inside]
    return offsets


@pytest.mark.parametrize("codec", [*OPENED_TYPES, Codec.ZSTD])
def test_a_time_is_looked_up_in_a_compressed_batch_on_the_lane(codec: Codec) -> None:
    async def story() -> None:
        world, lane = await world_with(batch(codec), batch(codec))
        for time_ms, offset in ((NOW_MS + 1, 1), (MAX_TIMESTAMP, 2), (NOW_MS + 3, -1)):
            assert (await offset_at(world.client, time_ms)).offset == offset
        assert lane.count == 2  # records that no header announces are not searched

    run(story())


def test_a_small_plain_batch_is_taken_apart_where_it_is() -> None:
    """A thread costs more than decoding a few records."""

    async def story() -> None:
        world, lane = await world_with(batch(), batch())
        assert (await offset_at(world.client, NOW_MS + 1)).offset == 1
        assert old_offsets(await old_fetch(world))[:3] == [0, 1, 2]
        assert lane.count == 0

    run(story())


def test_a_large_plain_batch_is_taken_apart_on_the_lane() -> None:
    """It may hold a hundred thousand records."""

    async def story() -> None:
        world, lane = await world_with(batch(value=bytes(QUICK_BYTES_MAX)))
        assert (await offset_at(world.client, NOW_MS + 1)).offset == 1
        assert old_offsets(await old_fetch(world)) == [0, 1, 2]
        assert lane.count == 2

    run(story())


def test_batches_whose_headers_say_too_much_are_not_all_opened_on_the_loop() -> None:
    """A header may claim a time that no record has; of such batches a hostile producer can write any number."""

    async def story() -> None:
        claims = build([Record(0, NOW_MS, None, b"v", ())], max_timestamp=NOW_MS + 9)
        world, lane = await world_with(claims, claims, claims, batch())
        assert (await offset_at(world.client, NOW_MS + 2)).offset == 5
        assert lane.count == 3

    run(story())


@pytest.mark.parametrize("codec", OPENED_TYPES)
def test_compressed_batches_become_old_messages_on_the_lane(codec: Codec) -> None:
    async def story() -> None:
        world, lane = await world_with(batch(codec), batch(codec))
        lane.is_open.clear()
        fetched = asyncio.ensure_future(old_fetch(world))
        await turns()
        assert lane.count == 1
        other = Client(world.node)
        assert (await offset_at(other, -1)).offset == 6  # other clients are served
        assert not fetched.done()
        lane.is_open.set()
        assert old_offsets(await fetched)[:3] == [0, 1, 2]  # which take more bytes, so that not all may fit

    run(story())


def test_what_an_old_client_cannot_read_is_refused_and_not_counted_as_sent() -> None:
    async def story() -> None:
        world, _ = await world_with(batch(Codec.ZSTD), batch())
        found = await old_fetch(world)
        assert found.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        traffic = world.node.metrics.topics[TOPIC]
        assert (traffic.fetches_failed, traffic.bytes_out) == (1, 0)
        assert old_offsets(await old_fetch(world, 3)) == [3, 4, 5]

    run(story())


def test_a_partition_that_goes_away_during_a_lookup_denies_no_record() -> None:
    """The replica no longer knows the answer."""

    async def story() -> None:
        world, lane = await world_with(batch(Codec.GZIP))
        lane.is_open.clear()
        asked = asyncio.ensure_future(offset_at(Client(world.node), NOW_MS + 1))
        await turns()
        assert lane.count == 1
        deleted = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000)
        await world.client.ask(deleted, DeleteTopicsResponse, 4)
        lane.is_open.set()
        assert (await asked).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(story())
