"""A complete node on a disk that fills, fails, rots or belongs to another node."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from chronik.broker.errors import CannotStart
from chronik.runtime.alarms import DAMAGED_LOG, DISK_FULL
from chronik.sim.disk import SimDisk
from chronik.storage.errors import StorageFailed
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from chronik.wire.messages.fetch import FetchResponse
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from chronik.wire.messages.produce import ProduceResponse
from tests.broker.harness import Client, Closed, start_node
from tests.broker.hostile import TOPIC, Peer, World, batch, fetch_request, frame, produce_request, run, turns

GROUP = "readers"
SEGMENT = f"/data/{TOPIC}-0/{0:020}.log"


async def commit(world: World, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    request = OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, member_id="", topics=[topic])
    answer = await world.client.ask(request, OffsetCommitResponse, 7)
    return answer.topics[0].partitions[0].error_code


async def committed(world: World) -> int:
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    answer = await world.client.ask(OffsetFetchRequest(group_id=GROUP, topics=[topic]), OffsetFetchResponse, 5)
    assert answer.error_code == 0
    return answer.topics[0].partitions[0].committed_offset


async def find_coordinator(world: World) -> None:
    await world.client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse, 4)


def used_bytes(disk: SimDisk) -> int:
    return disk.total_bytes("/") - disk.free_bytes("/")


def test_a_full_disk_refuses_produces_while_fetches_go_on_and_heals() -> None:
    """Each refusal names the storage, nothing refused is ever read, and space that is back is used at once."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        await find_coordinator(world)
        await world.produce(b"before")
        assert await commit(world, 1) == 0
        world.disk.capacity_bytes = None
        world.disk.capacity_bytes = used_bytes(world.disk) + 10
        for acks in (-1, 1):
            refused = await world.produce(bytes(5000), acks=acks)
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert refused.base_offset == -1
            assert "no space" in (refused.error_message or "")
        found = await world.fetch()
        assert found.error_code == 0
        assert b"before" in bytes(found.records)
        assert found.high_watermark == 1
        assert await commit(world, 2) != 0, "a commit that is not durable must not be acknowledged"
        assert await committed(world) == 1
        world.disk.capacity_bytes = None
        made = await world.produce(b"after")
        assert (made.error_code, made.base_offset) == (0, 1)
        assert await commit(world, 2) == 0
        assert await committed(world) == 2
        await world.is_serving()
        await world.node.stop()

    run(test())


def test_a_disk_full_during_maintenance_does_not_end_maintenance() -> None:
    """Retention is what makes space; it must be there when it is needed."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"before")
        world.disk.capacity_bytes = used_bytes(world.disk)
        await asyncio.sleep(60)
        assert any("maintenance" in name for name in world.node.duties.names())
        world.disk.capacity_bytes = None
        await asyncio.sleep(60)
        await world.is_serving()
        await world.node.stop()

    run(test())


@pytest.mark.parametrize("path_part", ["/journal/", f"{TOPIC}-0/"])
def test_after_a_failed_sync_nothing_is_acknowledged_and_the_node_stops(
    path_part: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After a restart, acknowledged records are there; others may be, but were never acknowledged."""

    async def until_it_fails(disk: SimDisk) -> list[bytes]:
        world = await World.make(disk)
        await world.create()
        acknowledged = []
        for n in range(5):
            value = b"acknowledged %d" % n
            assert (await world.produce(value)).error_code == 0
            acknowledged.append(value)
        stopped = asyncio.ensure_future(world.node.wait_stopped())
        disk.fail("sync", path_part)
        failed = False
        for n in range(5):
            try:
                # Large ones sync the segment, small ones the journal: sooner or later the fault is met.
                made = await world.produce(b"lost %d" % n + bytes(300_000 if path_part != "/journal/" else 0))
            except Closed:
                failed = True
                break
            assert made.error_code == 0 or made.base_offset == -1
        assert failed
        with pytest.raises(StorageFailed):
            await stopped
        late = Client(world.node)  # one that was being accepted just then
        answer = await late.ask(produce_request(batch(b"late"), acks=1), ProduceResponse, 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await world.node.stop()
        return acknowledged

    async def after_restart(disk: SimDisk, acknowledged: list[bytes]) -> None:
        world = await World.make(disk)
        found = bytes((await world.fetch()).records)
        assert all(value in found for value in acknowledged)
        await world.is_serving()
        await world.node.stop()

    disk = SimDisk(1)
    acknowledged = run(until_it_fails(disk))
    assert len([each for each in caplog.records if each.levelno == logging.CRITICAL]) == 1
    run(after_restart(disk.power_cut(), acknowledged))


def test_an_input_output_error_on_append_stops_the_node() -> None:
    """It is unknown whether the bytes are on the disk, so no later append may follow them."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"before")
        stopped = asyncio.ensure_future(world.node.wait_stopped())
        world.disk.fail("append", SEGMENT)
        with pytest.raises(Closed):
            await world.produce(b"lost", acks=1)
        with pytest.raises(StorageFailed):
            await stopped
        await world.node.stop()

    run(test())


def test_a_disk_that_becomes_read_only_stops_the_node_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Whichever task writes first: an operator needs the file and the reason, and no traceback."""

    async def test() -> None:
        world = await World.make(**{"chronik.scrub.interval.ms": 1})
        await world.create()
        await world.produce(b"before")
        stopped = asyncio.ensure_future(world.node.wait_stopped())
        caplog.clear()
        world.disk.fail("open", "/data/scrub", errno.EROFS)
        with pytest.raises(StorageFailed):
            await stopped
        (line,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
        assert "the disk failed" in line.getMessage()
        assert "/data/scrub" in line.getMessage()
        assert not line.exc_info
        await world.node.stop()

    run(test())


def test_an_input_output_error_on_read_is_told_and_other_partitions_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        world = await World.make()
        await world.create()
        await world.create("other")
        await world.produce(b"one")
        await world.produce(b"two", topic="other")
        caplog.clear()
        world.disk.fail("read", SEGMENT)
        assert (await world.fetch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert SEGMENT in caplog.text
        assert len(caplog.records) == 1
        assert (await world.fetch(topic="other")).error_code == 0
        assert (await world.fetch()).error_code == 0, "it was the read that failed, not the file"
        await world.node.stop()

    run(test())


@pytest.mark.parametrize("at", [7, 8, 16, 18, 22, 40, 60, 70, -1], ids=lambda at: f"byte {at}")
def test_a_flipped_bit_is_reported_with_file_and_offset_and_never_served(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Offset (which no CRC covers), length, magic, CRC, header, records: the batch is not served, others are."""

    async def write(disk: SimDisk) -> int:
        world = await World.make(disk)
        await world.create()
        await world.create("other")
        await world.produce(b"first")
        size = disk.open(SEGMENT).size_bytes()
        await world.produce(b"second")
        await world.produce(b"elsewhere", topic="other")
        await world.node.stop()
        return size

    async def read(disk: SimDisk) -> None:
        world = await World.make(disk)
        for _ in range(3):
            whole = await world.fetch(0)
            assert b"second" not in bytes(whole.records)
            damaged = await world.fetch(1)
            assert damaged.error_code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE)
            assert bytes(damaged.records) == b""
        told = [each for each in caplog.records if SEGMENT in each.getMessage()]
        assert len(told) == 1, caplog.text
        assert "offset" in told[0].getMessage()
        assert (await world.fetch(topic="other")).error_code == 0
        assert (await world.produce(topic="other")).error_code == 0
        await world.node.stop()

    disk = SimDisk(2)
    size = run(write(disk))
    disk.flip_bit(SEGMENT, (size if at >= 0 else disk.open(SEGMENT).size_bytes()) + at, 3)
    caplog.clear()
    run(read(disk.process_killed()))


def test_a_segment_cut_short_under_a_running_node_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        world = await World.make()
        await world.create()
        for n in range(3):
            await world.produce(b"%d" % n)
        world.disk.open(SEGMENT).truncate(100)
        caplog.clear()
        for _ in range(3):
            answer = await world.client.ask(fetch_request(1), FetchResponse, 11)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(caplog.records) == 1
        assert "cut short" in caplog.text
        await world.node.stop()

    run(test())


def test_a_directory_in_use_is_told_in_one_clear_message() -> None:
    async def test() -> None:
        world = await World.make()
        with pytest.raises(CannotStart, match=r"/data/\.lock.*another broker"):
            await start_node(world.disk)
        await world.create()
        await world.is_serving()
        await world.node.stop()
        await turns()
        again = await World.make(world.disk)
        await again.is_serving()
        await again.node.stop()

    run(test())


@pytest.mark.parametrize("path", ["/data/checkpoint", "journal"])
def test_damage_that_leaves_no_way_to_start_is_told_with_its_file(path: str) -> None:
    async def write(disk: SimDisk) -> None:
        world = await World.make(disk)
        await world.create()
        await world.create("other")
        for n in range(3):
            await asyncio.gather(world.produce(b"%d" % n), world.produce(b"%d" % n, topic="other"))
        if path == "/data/checkpoint":
            await asyncio.sleep(60)
            await world.node.stop()

    disk = SimDisk(3)
    run(write(disk))
    disk = disk.process_killed()
    name = path if path != "journal" else f"/data/journal/{disk.list('/data/journal')[-1]}"
    disk.flip_bit(name, 20, 3)
    with pytest.raises(CannotStart, match=name):
        run(start_node(disk))


def test_a_disk_that_fails_in_the_middle_of_a_response_costs_a_connection_and_then_names_the_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Large batches are read while they are sent. The size of the response was sent already, so no other response is
    possible."""

    async def test() -> None:
        world = await World.make()
        world.disk.piece_bytes_min = 100
        await world.create()
        for _ in range(3):
            await world.produce(bytes(200))
        whole = bytes((await world.fetch()).records)
        reader = Peer(world.node)
        reader.send(frame(fetch_request(), 11))
        assert reader.answer(0, FetchResponse, 11).responses[0].partitions[0].records == whole
        world.disk.fail("read", SEGMENT, errno.EIO)
        reader.send(frame(fetch_request(), 11, correlation_id=2))
        await turns()
        assert reader.is_closed
        assert len(reader.frames()) == 1
        [line] = [record for record in caplog.records if "closing" in record.message]
        assert "cannot be read" in line.message
        world.disk.fail("read", SEGMENT, errno.EIO)
        assert (await world.fetch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert bytes((await world.fetch()).records) == whole
        await world.is_serving()
        await world.node.stop()

    run(test())


def test_a_full_disk_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """Producers get errors; the log, /status and the metrics show the cause to operators within five seconds."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"before")
        world.disk.capacity_bytes = used_bytes(world.disk) + 10
        caplog.clear()
        for _ in range(50):
            assert (await world.produce(bytes(5000))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(5)
        assert world.node.alarms.is_active(DISK_FULL, "/data")
        for _ in range(20):
            await asyncio.sleep(10)
            await world.produce(bytes(5000))
        [line] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert "no space to write" in line
        assert "/data" in line
        world.disk.capacity_bytes = None
        assert (await world.produce(b"after")).error_code == 0
        caplog.set_level(logging.INFO)
        await asyncio.sleep(60)
        assert not world.node.alarms.is_active(DISK_FULL, "/data")
        assert "space in /data again" in caplog.text
        await world.node.stop()

    run(test())


@pytest.mark.parametrize("left_bytes", [0, 500, 5000])
def test_a_node_starts_on_a_full_disk(left_bytes: int) -> None:
    """Only a running node can make space, by retention or by deleting topics. The reserve is there for that."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"before")
        await asyncio.sleep(20)  # the reserve is taken
        await world.node.stop()
        assert "reserve" in world.disk.names("/data", with_page_cache=True)
        disk = world.disk.process_killed()
        disk.fill(left_bytes)
        world = await World.make(disk)
        await asyncio.sleep(5)
        assert world.node.alarms.is_active(DISK_FULL, "/data")
        found = await world.fetch()
        assert found.error_code == 0
        assert b"before" in bytes(found.records)
        disk.fill(None)
        await world.is_serving()
        await world.node.stop()

    run(test())


def test_a_damaged_log_is_an_alarm_until_it_is_gone() -> None:
    """Its consumers get errors; without an alarm only the log file shows why."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        await world.produce(b"before")
        await world.node.stop()
        disk = world.disk.process_killed()
        disk.flip_bit(SEGMENT, 70)
        world = await World.make(disk)
        await world.fetch()
        await asyncio.sleep(5)
        [alarm] = world.node.alarms.active()
        assert (alarm.cause, alarm.subject) == (DAMAGED_LOG, f"{TOPIC}-0")
        assert SEGMENT in alarm.text
        request = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000)
        answer = await world.client.ask(request, DeleteTopicsResponse, 5)
        assert answer.responses[0].error_code == 0
        await asyncio.sleep(5)
        assert world.node.alarms.active() == []
        await world.node.stop()

    run(test())
