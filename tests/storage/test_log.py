"""One log: offsets, reads, duplicates, rolling, truncation; what clients and replicas see of it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from chronik.runtime.invariants import InvariantBroken
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import (
    InvalidProducerEpoch,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordTooLarge,
)
from chronik.storage.log import Log
from chronik.wire.batches import BatchView, split
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import CorruptBatch
from tests.storage.driving import (
    NOW_MS,
    append,
    batch,
    batches_of,
    durable,
    marker,
    max_timestamp,
    open_logs,
    records_of,
    run,
    topic_id,
    values_of,
)


async def new_log(disk: SimDisk | None = None, **config: object) -> Log:
    logs = await open_logs(disk or SimDisk(1))
    return logs.create("t", topic_id(1), 0, LogConfig(**config))  # type: ignore[arg-type]


def test_offsets_are_assigned_in_order_and_bytes_are_those_that_came() -> None:
    """A batch's CRC covers everything but base offset and epoch: those two are all that may change."""

    async def scenario() -> None:
        log = await new_log()
        first, second = batch([b"a", b"b"]), batch([b"c"])
        assert log.append(first, leader_epoch=3, now_ms=NOW_MS) == (0, 1, -1, False)
        assert log.append(second, leader_epoch=4, now_ms=NOW_MS) == (2, 2, -1, False)
        assert log.append(second, leader_epoch=4, now_ms=NOW_MS) == (3, 3, -1, False)
        found = batches_of(log)
        assert [(each.base_offset, each.partition_leader_epoch) for each in found] == [(0, 3), (2, 4), (3, 4)]
        assert found[0].data[16:] == first.data[16:]
        assert log.end_offset == 4
        assert log.epochs.entries() == [(3, 0), (4, 2)]

    run(scenario)


def test_a_log_has_no_file_before_its_first_append() -> None:
    """10,000 new topics would otherwise cost tens of thousands of files."""

    async def scenario() -> None:
        disk = SimDisk(1)
        log = await new_log(disk)
        assert disk.list("/data") == [".lock", "journal", "manifest"]
        assert log.read(0, bytes_max=100, offset_limit=0) == ([], 0, 0)
        append(log, batch([b"a"]))
        assert disk.list("/data/t-0") == ["00000000000000000000.log", "partition.metadata"]

    run(scenario)


@pytest.mark.parametrize("bytes_max", [1, 61, 200, 1000, 4096, 5000, 1 << 20])
def test_reads_return_whole_batches_in_order_whatever_the_size_asked_for(bytes_max: int) -> None:
    """Every byte is returned exactly once, and a reader advances even if a batch is larger than its limit."""

    async def scenario() -> None:
        random = Random(bytes_max)
        log = await new_log(segment_bytes=10_000, index_interval_bytes=700)
        values = [random.randbytes(random.randint(0, 400)) for _ in range(300)]
        for value in values:
            append(log, batch([value]))
        assert len(log.segments) > 3
        found = batches_of(log, 0, bytes_max)
        assert [each.base_offset for each in found] == list(range(300))
        assert values_of(log) == values
        for segment in log.segments:
            segment._recent.clear()  # boundaries that are not cached are found by index and walk
        assert batches_of(log, 0, bytes_max) == found

    run(scenario)


def test_a_read_obeys_its_bounds() -> None:
    """A consumer must not see records above the high watermark, nor get more bytes than it requested."""

    async def scenario() -> None:
        log = await new_log()
        for index in range(10):
            append(log, batch([b"%d" % index] * 3))
        size = log.segments[0].size_bytes // 10
        read = log.read(0, bytes_max=10**6, offset_limit=15)
        assert (read.size_bytes, read.next_offset) == (5 * size, 15)
        read = log.read(4, bytes_max=size * 2 + 5, offset_limit=30)
        assert [each.base_offset for each in split(read.buffers[0])] == [3, 6], "offset 4 lies inside the batch at 3"
        assert log.read(4, bytes_max=size - 1, offset_limit=30, at_least_one=False) == ([], 0, 4)
        assert log.read(4, bytes_max=size - 1, offset_limit=30, at_least_one=True).size_bytes == size
        assert log.read(15, bytes_max=100, offset_limit=15) == ([], 0, 15)
        assert log.read(30, bytes_max=100, offset_limit=30) == ([], 0, 30)
        for offset in (-1, 31):
            with pytest.raises(OffsetOutOfRange) as raised:
                log.read(offset, bytes_max=100, offset_limit=30)
            assert raised.value.kafka_error is ErrorCode.OFFSET_OUT_OF_RANGE

    run(scenario)


def test_what_is_readable_is_counted_as_reading_would() -> None:
    """A fetch that waits for many bytes counts often, and reads once."""

    async def scenario() -> None:
        log = await new_log(segment_bytes=1000, index_interval_bytes=200)
        for _ in range(40):
            append(log, batch([b"v" * 30, b"w" * 30]))
        assert len(log.segments) > 3
        for limit in (*range(0, 81, 2), 100):
            for offset in range(81):
                found_bytes, found = 0, log.read(offset, bytes_max=1 << 20, offset_limit=limit)
                while found.size_bytes:
                    found_bytes += found.size_bytes
                    found = log.read(found.next_offset, bytes_max=1 << 20, offset_limit=limit)
                assert log.readable_bytes(offset, offset_limit=limit) == found_bytes
        with pytest.raises(OffsetOutOfRange):
            log.readable_bytes(81, offset_limit=100)

    run(scenario)


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    """A producer that missed the answer sends again; the record must be there once, and the answer be the same."""

    async def scenario() -> None:
        log = await new_log()
        sent = [batch([b"a", b"b"], producer=(9, 0, sequence * 2)) for sequence in range(7)]
        for index, each in enumerate(sent):
            assert log.append(each, leader_epoch=0, now_ms=NOW_MS) == (index * 2, index * 2 + 1, -1, False)
        for index in range(2, 7):
            repeated = log.append(sent[index], leader_epoch=0, now_ms=NOW_MS)
            assert repeated == (index * 2, index * 2 + 1, NOW_MS, True)  # with the time of the first, as Kafka answers
        with pytest.raises(OutOfOrderSequence):  # more than five batches ago: no client can still wait for it
            append(log, sent[0])
        with pytest.raises(OutOfOrderSequence, match="sequence 15 where 14"):
            append(log, batch([b"x"], producer=(9, 0, 15)))
        assert log.end_offset == 14
        append(log, batch([b"y"], producer=(9, 1, 0)))
        with pytest.raises(InvalidProducerEpoch) as raised:
            append(log, batch([b"z"], producer=(9, 0, 14)))
        assert raised.value.kafka_error is ErrorCode.INVALID_PRODUCER_EPOCH
        with pytest.raises(OutOfOrderSequence):
            append(log, batch([b"z"], producer=(9, 2, 5)))
        assert log.end_offset == 15

    run(scenario)


def test_sequences_wrap_around_after_the_largest_int32() -> None:
    async def scenario() -> None:
        log = await new_log()
        append(log, batch([b"a", b"b"], producer=(9, 0, 2**31 - 1)))
        assert append(log, batch([b"c"], producer=(9, 0, 1))) == 2

    run(scenario)


def test_a_batch_that_its_caller_refuses_at_the_last_moment_changes_nothing() -> None:
    """`verify` runs after the check of the sequence number, so a duplicate is answered without it."""

    def refuse(_: BatchView) -> None:
        raise RecordTooLarge(2, 1)

    async def scenario() -> None:
        log = await new_log()
        sent = batch([b"x"], producer=(9, 0, 0))
        with pytest.raises(RecordTooLarge):
            log.append(sent, leader_epoch=0, now_ms=NOW_MS, verify=refuse)
        assert log.end_offset == 0
        append(log, sent)
        assert log.append(sent, leader_epoch=0, now_ms=NOW_MS, verify=refuse).first_offset == 0
        assert log.end_offset == 1

    run(scenario)


def test_log_append_time_replaces_the_producers() -> None:
    async def scenario() -> None:
        log = await new_log(message_timestamp_type="LogAppendTime")
        appended = log.append(batch([b"a", b"b"], timestamps=[5, 9]), leader_epoch=0, now_ms=NOW_MS + 7)
        assert appended.append_time_ms == NOW_MS + 7
        assert [record.timestamp for record in records_of(log)] == [NOW_MS + 7] * 2
        assert max_timestamp(log) == (0, NOW_MS + 7, 0)

    run(scenario)


def test_segments_roll_by_size_and_by_time() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        log = await new_log(disk, segment_bytes=1000, segment_ms=10_000)
        for index in range(4):
            append(log, batch([b"x" * 300], timestamps=[NOW_MS + index]))
        assert [segment.base_offset for segment in log.segments] == [0, 2]
        append(log, batch([b"y"], timestamps=[NOW_MS + 10_002]))
        assert [segment.base_offset for segment in log.segments] == [0, 2], "10 s after its first record is not more"
        append(log, batch([b"y"], timestamps=[NOW_MS + 10_003]))
        assert [segment.base_offset for segment in log.segments] == [0, 2, 5]
        assert "00000000000000000005.log" in disk.list("/data/t-0")

    run(scenario)


def test_a_follower_takes_the_leaders_bytes_as_they_are() -> None:
    """Replicas are byte-identical; a batch cut short by the fetch size is fetched again."""

    async def scenario() -> None:
        leader = await new_log(SimDisk(1))
        follower = await new_log(SimDisk(2))
        for index in range(10):
            append(leader, batch([b"%d" % index], producer=(4, 0, index)), epoch=index // 4)
        data = leader.read(0, bytes_max=10**6, offset_limit=10).buffers[0]
        follower.append_fetched(data[: len(data) - 3])
        assert follower.end_offset == 9
        follower.append_fetched(leader.read(9, bytes_max=10**6, offset_limit=10).buffers[0])
        assert bytes(follower.read(0, bytes_max=10**6, offset_limit=10).buffers[0]) == bytes(data)
        assert follower.epochs.entries() == leader.epochs.entries() == [(0, 0), (1, 4), (2, 8)]
        assert follower.producers.encode() == leader.producers.encode()
        with pytest.raises(CorruptBatch):
            follower.append_fetched(data)
        damaged = bytearray(leader.read(0, bytes_max=10**6, offset_limit=1).buffers[0])
        damaged[-1] ^= 1
        with pytest.raises(CorruptBatch):
            (await new_log(SimDisk(3))).append_fetched(memoryview(damaged))

    run(scenario)


def test_an_epoch_never_goes_back() -> None:
    async def scenario() -> None:
        log = await new_log()
        append(log, batch([b"a"]), epoch=3)
        with pytest.raises(InvariantBroken):
            append(log, batch([b"b"]), epoch=2)
        assert log.end_offset == 1

    run(scenario)


def test_truncation_takes_batches_epochs_and_producers_with_it() -> None:
    """KIP-101: a follower truncates records that the new leader lacks, and continues as if they had never existed."""

    async def scenario() -> None:
        log = await new_log(segment_bytes=500)
        for index in range(20):
            append(log, batch([b"%03d" % index * 20], producer=(4, 0, index)), epoch=index // 8)
        await durable(log)
        log.truncate_to(13)
        assert (log.end_offset, log.durable_offset) == (13, 13)
        assert [record.offset for record in records_of(log)] == list(range(13))
        assert log.epochs.entries() == [(0, 0), (1, 8)]
        assert log.producers.producers[4].last_sequence == 12
        append(log, batch([b"new"], producer=(4, 0, 13)), epoch=5)
        assert values_of(log)[-1] == b"new"
        log.truncate_to(50)
        assert log.end_offset == 14, "there is nothing behind the end"
        log.restart_at(100)
        assert (log.start_offset, log.end_offset, log.epochs.entries()) == (100, 100, [])
        assert append(log, batch([b"later"]), epoch=6) == 100
        await durable(log)

    run(scenario)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_truncation_by_little_does_not_read_the_whole_log(restarts: bool) -> None:
    """A returning replica truncates records that no other replica has, possibly below its last checkpoint, on the event
    loop."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(index_interval_bytes=1000))
        for number in range(2000):
            append(log, batch([b"v" * 100], producer=(number % 3, 0, number // 3)))
        await logs.checkpoint()
        if restarts:
            await logs.close()
            disk = disk.process_killed()
            log = (await open_logs(disk)).create("t", topic_id(1), 0, LogConfig())
        disk.calls.clear()
        for cut in (1999, 1995):
            log.truncate_to(cut)
        assert disk.calls["read"] < 12
        assert append(log, batch([b"again"], producer=(1995 % 3, 0, 1995 // 3))) == 1995
        repeated = log.append(batch([b"v"], producer=(1994 % 3, 0, 1994 // 3)), leader_epoch=0, now_ms=NOW_MS)
        assert (repeated.first_offset, repeated.is_duplicate) == (1994, True)
        log.truncate_to(1900)  # none of the batches that are remembered stays: the log itself tells
        assert append(log, batch([b"again"], producer=(1900 % 3, 0, 1900 // 3))) == 1900

    run(scenario)


def test_truncation_inside_a_batch_takes_the_whole_batch() -> None:
    async def scenario() -> None:
        log = await new_log()
        append(log, batch([b"a", b"b"]))
        append(log, batch([b"c", b"d", b"e"]))
        log.truncate_to(3)
        assert (log.end_offset, values_of(log)) == (2, [b"a", b"b"])

    run(scenario)


def test_waiters_of_one_round_share_a_future_and_one_sync() -> None:
    """Group commit: the cost of a sync is shared by everything that arrived while the one before was running."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        many = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(50)]
        for log in many:
            append(log, batch([b"first"]))
        await asyncio.gather(*[durable(log) for log in many])
        syncs = disk.calls["sync"]
        futures = set()
        for log in many:
            append(log, batch([b"second"]))
            future = log.when_durable(log.end_offset)
            assert future is not None
            futures.add(future)
        assert len(futures) == 1
        await futures.pop()
        assert disk.calls["sync"] == syncs + 1
        assert all(log.when_durable(log.end_offset) is None for log in many)

    run(scenario)


def test_durability_os_acknowledges_without_a_round() -> None:
    """chronik.durability=os is Kafka's promise: the page cache, and replicas."""

    async def scenario() -> None:
        log = await new_log(durability="os")
        append(log, batch([b"a"]))
        assert log.when_durable(1) is None
        assert log.durable_offset == 1
        log.config = LogConfig()
        assert log.when_durable(1) is not None
        await durable(log)

    run(scenario)


def test_transactions_hold_the_stable_offset_until_their_marker_is_settled() -> None:
    """read_committed may not read past an open transaction, nor past a decision that could still be lost."""

    async def scenario() -> None:
        log = await new_log()
        append(log, batch([b"plain"]))
        append(log, batch([b"t1"], producer=(1, 0, 0), transactional=True))
        append(log, batch([b"t2"], producer=(2, 0, 0), transactional=True))
        assert log.last_stable_offset(3) == 1
        append(log, marker(1, 0, committed=False))
        assert log.last_stable_offset(3) == 1, "the marker itself is above the high watermark"
        assert log.last_stable_offset(4) == 2
        append(log, marker(2, 0, committed=True))
        assert log.last_stable_offset(5) == 5
        assert log.aborted_transactions(0, 10) == [(1, 1, 3, 2)]
        assert log.aborted_transactions(4, 10) == []
        assert log.aborted_transactions(2, 3) == [(1, 1, 3, 2)]
        assert log.aborted_transactions(0, 1) == [], "the end of the range is excluded, as in Kafka"
        with pytest.raises(InvalidProducerEpoch):
            append(log, marker(2, -1, committed=True))

    run(scenario)


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_pass_untouched(codec: Codec) -> None:
    async def scenario() -> None:
        log = await new_log()
        sent = batch([b"value" * 50] * 20, codec=codec)
        append(log, sent)
        assert batches_of(log)[0].data[61:] == sent.data[61:]

    run(scenario)
