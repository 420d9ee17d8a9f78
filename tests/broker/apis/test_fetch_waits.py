"""A waiting fetch is answered by the next write, whenever that comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.broker.memory import MemoryBudget
from chronik.sim.disk import SimDisk
from chronik.storage.answers import LogRead
from chronik.storage.log import Log
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
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tests.broker import hostile
from tests.broker.harness import Client, start_node
from tests.broker.hostile import World, turns
from tests.broker.test_pipelining import produce

VERSION = 4


def test_what_is_committed_before_the_fetch_has_begun_to_wait_is_not_missed() -> None:
    """Between the first read and the start of the wait, another client's append may become readable."""

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
    """Batches are returned whole, so the part that fits is usually smaller than requested, and waiting does not change
    that."""

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
    """A node with little memory returns what it can at once, because waiting would not bring the rest."""

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


MANY = 300  # partitions: more than one turn reads


def waiting_for_many(bytes_min: int, ends: dict[int, int] | None = None) -> FetchRequest:
    """From the beginning of each partition, or from its end."""
    request = waiting_for(bytes_min)
    offsets = [(ends or {}).get(n, 0) for n in range(MANY)]
    request.topics[0].partitions = [
        FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=1 << 20)
        for n, offset in enumerate(offsets)
    ]
    return request


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partition of each count of what could be read."""
    partitions: list[int] = []
    readable_bytes = Log.readable_bytes

    def noted(self: Log, offset: int, *, offset_limit: int) -> int:
        partitions.append(self.partition)
        return readable_bytes(self, offset, offset_limit=offset_limit)

    monkeypatch.setattr(Log, "readable_bytes", noted)
    return partitions


def test_a_write_costs_a_waiting_fetch_one_partition_and_not_all(counts: list[int]) -> None:
    """If twenty consumers of 20,000 partitions counted all of them after each write, other clients could not be
    served."""

    async def story() -> None:
        world = await World.make()
        await world.create(partitions=MANY)
        readers = [Client(world.node) for _ in range(5)]
        asked = waiting_for_many(1 << 20)
        fetched = [asyncio.ensure_future(reader.ask(asked, FetchResponse, 11)) for reader in readers]
        await turns(100)
        counts.clear()
        for n in range(20):
            await world.produce(b"small", partition=n)
            await turns()
        assert len(counts) == 20 * len(readers)
        assert set(counts) == set(range(20))
        assert not any(each.done() for each in fetched)
        await world.produce(bytes(900_000), partition=7)
        await world.produce(bytes(900_000), partition=8)
        for response in await asyncio.gather(*fetched):
            found = {each.partition_index for each in response.responses[0].partitions if each.records}
            assert found == set(range(20))
        await world.node.stop()

    hostile.run(story())


@pytest.mark.parametrize("bytes_min", [1, 100])
def test_what_is_written_while_many_partitions_are_read_is_not_missed(bytes_min: int) -> None:
    """They are read in slices. A write in between ends the wait, whatever its partition and time."""

    async def story() -> None:
        world = await World.make()
        await world.create(partitions=MANY, chronik_durability="os")
        ends: dict[int, int] = {}
        for partition in (0, MANY // 2, MANY - 1):
            for waited_turns in range(12):
                reader = Client(world.node)
                asked = waiting_for_many(bytes_min, ends)
                fetched = asyncio.ensure_future(reader.ask(asked, FetchResponse, 11))
                await turns(waited_turns)
                made = await world.produce(bytes(200), partition=partition)
                answer = await asyncio.wait_for(fetched, 30)
                found = [each for each in answer.responses[0].partitions if each.partition_index == partition]
                assert found[0].records
                ends[partition] = made.base_offset + 1
        await world.node.stop()

    hostile.run(story())


def test_who_hangs_up_does_not_leave_its_fetch_behind() -> None:
    """It would keep its partitions, watch them and count them for as long as it had meant to wait."""

    async def story() -> None:
        world = await World.make()
        await world.create(partitions=MANY)
        peer = hostile.Peer(world.node)
        peer.send(hostile.frame(waiting_for_many(1 << 20), 11))
        await turns(100)
        held_bytes = world.node.memory.small_bytes
        assert held_bytes > MANY * 100, "what the request was decoded into counts"
        peer.hang_up()
        await turns(100)
        assert world.node.memory.small_bytes == 0
        await world.node.stop()

    hostile.run(story())


def test_a_fetch_of_many_partitions_does_not_wait_when_memory_is_spent() -> None:
    """Other requests need the memory that it would hold. It gets a response without records."""

    async def story() -> None:
        world = await World.make()
        await world.create(partitions=MANY)
        world.node.memory.keep(world.node.memory.size_bytes)
        answer = await asyncio.wait_for(Client(world.node).ask(waiting_for_many(1), FetchResponse, 11), 1)
        assert len(answer.responses[0].partitions) == MANY
        await world.node.stop()

    hostile.run(story())


def test_long_fetches_that_are_read_at_the_same_time_share_the_memory() -> None:
    """Each is read in slices. If each took the same free memory into account, together they would use a multiple of
    it."""

    async def story() -> None:
        world = await World.make()
        await world.create(partitions=MANY, chronik_durability="os")
        value = bytes(20_000)
        for partition in range(0, MANY, 10):
            await world.produce(value, partition=partition)
        memory = world.node.memory
        total_bytes = len(value) * len(range(0, MANY, 10))
        memory.size_bytes = memory.kept_bytes + total_bytes
        readers = [Client(world.node) for _ in range(4)]
        asked = waiting_for_many(1 << 30)
        asked.max_wait_ms, asked.max_bytes = 10, 1 << 30
        answers = await asyncio.gather(*[reader.ask(asked, FetchResponse, 11) for reader in readers])
        sizes_bytes = [
            sum(len(partition.records or b"") for partition in answer.responses[0].partitions) for answer in answers
        ]
        assert all(sizes_bytes), "each makes progress"
        one_batch_each = len(readers) * (len(value) + 1_000)
        assert sum(sizes_bytes) <= total_bytes + one_batch_each, sizes_bytes
        assert memory.unsent_bytes == 0, "what has left is given back"
        await world.node.stop()

    hostile.run(story())


def test_later_requests_of_a_connection_do_not_overtake_a_long_one() -> None:
    """A commit of many offsets runs in slices, and must not overwrite the result of a later commit."""

    async def story() -> None:
        world = await World.make()
        await world.create(partitions=MANY)
        await world.client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 4)
        client = Client(world.node)

        def commit(offset: int, partition_count: int) -> OffsetCommitRequest:
            parts = [
                OffsetCommitRequestPartition(partition_index=n, committed_offset=offset, committed_metadata="")
                for n in range(partition_count)
            ]
            topics = [OffsetCommitRequestTopic(name=hostile.TOPIC, partitions=parts)]
            return OffsetCommitRequest(group_id="g", member_id="", topics=topics)

        while (await client.ask(commit(0, 1), OffsetCommitResponse, 7)).topics[0].partitions[0].error_code:
            await asyncio.sleep(0.01)
        long, short = client.start(commit(1, MANY), 7), client.start(commit(2, 1), 7)
        await asyncio.gather(long, short)
        asked = OffsetFetchRequestTopic(name=hostile.TOPIC, partition_indexes=[0, 1, MANY - 1])
        found = await client.ask(OffsetFetchRequest(group_id="g", topics=[asked]), OffsetFetchResponse, 5)
        assert [each.committed_offset for each in found.topics[0].partitions] == [2, 1, 1]
        await world.node.stop()

    hostile.run(story())
