"""A fetch that waits is answered by what is written, whenever that comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.broker.memory import MemoryBudget
from chronik.sim.disk import SimDisk
from chronik.storage.log import Log, LogRead
from chronik.wire.compiler import decode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker import hostile
from tests.broker.harness import Client, start_node
from tests.broker.hostile import World, turns
from tests.broker.test_pipelining import produce

VERSION = 4


def test_what_is_committed_before_the_fetch_has_begun_to_wait_is_not_missed() -> None:
    """Between finding nothing and waiting for something, somebody else's append may become readable."""

    async def run() -> FetchResponse:
        node = await start_node(SimDisk(1))
        reader, writer = Client(node), Client(node)
        at_once = CreatableTopicConfig(name="chronik.durability", value="os")  # readable as soon as it is appended
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[at_once])
        await writer.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 5)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])], max_bytes=1000
        )
        fetched = reader.start(request, VERSION)
        produced = writer.start(*produce())
        answer = await asyncio.wait_for(fetched, 30)
        await produced
        await node.stop()
        return decode(FetchResponse, VERSION, answer[4:])

    response = asyncio.run(run())
    assert response.responses[0].partitions[0].records


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each read of a log."""
    sizes: list[int] = []
    read = Log.read

    def noted(self: Log, offset: int, **how: Any) -> LogRead:
        found = read(self, offset, **how)
        sizes.append(found.size_bytes)
        return found

    monkeypatch.setattr(Log, "read", noted)
    return sizes


def waiting_for(bytes_min: int, *, bytes_max: int = 1 << 25) -> FetchRequest:
    request = hostile.fetch_request(0, max_wait_ms=60_000, max_bytes=bytes_max)
    request.min_bytes = bytes_min
    return request


def records_in(response: FetchResponse) -> bytes:
    return bytes(response.responses[0].partitions[0].records)


def test_a_fetch_that_waits_for_much_reads_it_once(reads: list[int]) -> None:
    """A megabyte that is there would be read again for each small append, by a loop that serves all others too."""

    async def story() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"v" * 1_000_000)
        reader = Client(world.node)
        fetched = asyncio.ensure_future(reader.ask(waiting_for(1_001_000), FetchResponse, VERSION))
        await turns()
        reads.clear()
        appended = 0
        while not fetched.done():
            await world.produce(b"small")
            appended += 1
            await turns()
        assert appended > 5
        assert len(reads) == 1
        assert len(records_in(fetched.result())) == reads[0] >= 1_001_000

    hostile.run(story())


def test_a_fetch_whose_time_is_up_gets_what_is_there() -> None:
    async def story() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"first")
        reader = Client(world.node)
        fetched = asyncio.ensure_future(reader.ask(waiting_for(1_000_000), FetchResponse, VERSION))
        await asyncio.sleep(1)
        await world.produce(b"second")
        await asyncio.sleep(58)
        assert not fetched.done()
        await asyncio.sleep(2)
        found = records_in(fetched.result())
        assert b"first" in found
        assert b"second" in found

    hostile.run(story())


def test_a_fetch_for_more_than_its_response_may_hold_does_not_wait() -> None:
    """Batches are not cut, so that what fits is mostly less than what was asked for: no waiting will change that."""

    async def story() -> None:
        world = await World.make()
        await world.create()
        for _ in range(4):
            await world.produce(b"v" * 300)
        for bytes_min in (1000, 2000):
            response = await asyncio.wait_for(
                world.client.ask(waiting_for(bytes_min, bytes_max=1000), FetchResponse, VERSION), 1
            )
            assert 0 < len(records_in(response)) < 1000

    hostile.run(story())


def test_a_fetch_for_more_than_there_is_memory_for_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is short of memory gives what it can, and at once: the rest would not come either."""

    async def story() -> None:
        world = await World.make()
        await world.create()
        for _ in range(8):
            await world.produce(b"v" * 300)
        monkeypatch.setattr(MemoryBudget, "room_bytes", 1000)
        response = await asyncio.wait_for(world.client.ask(waiting_for(2000), FetchResponse, VERSION), 1)
        assert 0 < len(records_in(response)) < 1000

    hostile.run(story())


def test_a_fetch_that_waits_for_much_hears_at_once_that_its_topic_is_gone() -> None:
    async def story() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"v")
        reader = Client(world.node)
        fetched = asyncio.ensure_future(reader.ask(waiting_for(1_000_000), FetchResponse, VERSION))
        await asyncio.sleep(1)
        await world.client.ask(
            DeleteTopicsRequest(topic_names=[hostile.TOPIC], timeout_ms=1000), DeleteTopicsResponse, 4
        )
        response = await asyncio.wait_for(fetched, 1)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    hostile.run(story())
