"""Compaction against a dict: the last record of each key stays, at its offset, with its bytes."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.producer_replay import replay
from chronik.storage.producer_state import ProducerState
from chronik.wire import records
from chronik.wire.batches import build, split
from chronik.wire.checksums import crc32c
from chronik.wire.compression import Codec
from chronik.wire.records import Record
from tests.storage.driving import (
    NOW_MS,
    append,
    batch,
    batches_of,
    durable,
    marker,
    open_logs,
    records_of,
    run,
    topic_id,
)

CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=600, min_cleanable_dirty_ratio=0.0, delete_retention_ms=1000)


async def compacted_log(disk: SimDisk | None = None, config: LogConfig = CONFIG) -> tuple[Logs, Log]:
    logs = await open_logs(disk or SimDisk(1))
    return logs, logs.create("t", topic_id(1), 0, config)


async def compact(logs: Logs, log: Log, now_ms: int = NOW_MS) -> None:
    log.high_watermark = log.end_offset
    await logs.maintain(now_ms)


def put(log: Log, key: bytes, value: bytes | None, **more: object) -> int:
    return append(log, batch([value], keys=[key], **more))  # type: ignore[arg-type]


def latest_per_key(written: list[Record]) -> dict[bytes, Record]:
    return {record.key: record for record in written if record.key is not None}


@pytest.mark.parametrize("seed", range(80))
def test_compaction_keeps_the_last_record_of_each_key(seed: int) -> None:
    """A consumer that reads a compacted topic from the start must arrive at the same table as one that read it all."""

    async def scenario() -> None:
        random = Random(seed)
        disk = SimDisk(seed)
        config = LogConfig(
            cleanup_policy="compact",
            segment_bytes=random.choice([400, 1500, 6000]),
            index_interval_bytes=random.choice([1, 4096]),
            min_cleanable_dirty_ratio=random.choice([0.0, 0.5]),
            delete_retention_ms=500,
        )
        logs = await open_logs(disk, compaction_keys_max=random.choice([3, 200_000]))
        log = logs.create("t", topic_id(1), 0, config)
        written: list[Record] = []
        now_ms = NOW_MS
        for _ in range(12):
            for _ in range(random.randint(1, 12)):
                now_ms += random.randint(0, 100)
                count = random.randint(1, 4)
                keys = [b"k%d" % random.randrange(12) * random.choice([1, 1, 20]) for _ in range(count)]
                values = [None if random.random() < 0.2 else random.randbytes(random.randint(0, 60)) for _ in keys]
                stamps = [now_ms + random.randint(-3, 3) for _ in keys]
                sent = batch(values, keys=keys, timestamps=stamps, codec=random.choice(list(Codec)))
                offset = append(log, sent, now_ms=now_ms)
                written += [
                    Record(offset + index, stamps[index], keys[index], values[index], ()) for index in range(count)
                ]
            log.high_watermark = random.randint(log.high_watermark, log.end_offset)
            untouched_from = log.segments[-1].base_offset
            end_offset = log.end_offset
            await logs.maintain(now_ms)
            found = records_of(log)
            assert log.end_offset == end_offset
            by_offset = {record.offset: record for record in written}
            assert all(by_offset[record.offset] == record for record in found), "offset, time, key or value changed"
            offsets = [record.offset for record in found]
            assert offsets == sorted(set(offsets))
            kept = set(offsets)
            last = latest_per_key(written)
            for key, record in last.items():
                # A tombstone may be gone when its time has come; a value never.
                assert record.offset in kept or record.value is None, key
            assert {record.offset for record in written if record.offset >= untouched_from} <= kept
            for record in found:  # a value that comes back because its tombstone went first would be a lie
                newer = last[record.key or b""]
                assert newer.offset in kept or newer.offset <= record.offset, "a deleted value came back"
            if random.random() < 0.2:
                high_watermark = log.high_watermark
                await logs.close()
                logs = await open_logs(disk)
                log = logs.get(topic_id(1), 0)  # type: ignore[assignment]
                log.config, log.high_watermark = config, high_watermark
                assert records_of(log) == found

    run(scenario)


def test_a_pass_over_everything_leaves_exactly_one_record_a_key() -> None:
    """The model of the test above allows too much; this one does not."""

    async def scenario() -> None:
        logs, log = await compacted_log()
        for index in range(50):
            put(log, b"k%d" % (index % 7), b"%d" % index)
        log.roll()
        put(log, b"other", b"x")
        await compact(logs, log)
        assert [record.offset for record in records_of(log)] == [43, 44, 45, 46, 47, 48, 49, 50]
        read = log.read(3, bytes_max=1000, offset_limit=51)
        assert int.from_bytes(read.buffers[0][:8], "big") == 43, "a reader at a removed offset goes on at the next"
        assert log.read(3, bytes_max=1000, offset_limit=20).buffers == []
        log.roll()
        put(log, b"other", b"y")
        await compact(logs, log)
        assert len(log.segments) <= 3, "small neighbours are put together by the next pass"
        assert [record.offset for record in records_of(log)] == [43, 44, 45, 46, 47, 48, 49, 50, 51]

    run(scenario)


def test_a_tombstone_stays_for_delete_retention_and_hides_the_value_till_the_end() -> None:
    """A slow consumer must see the deletion. Otherwise it keeps the value forever."""

    async def scenario() -> None:
        logs, log = await compacted_log()
        put(log, b"k", b"v")
        put(log, b"k", None)
        log.roll()
        put(log, b"z", b"z")
        log.roll()
        put(log, b"y", b"y")
        await compact(logs, log, NOW_MS)
        assert [(r.offset, r.value) for r in records_of(log)][:1] == [(1, None)]
        put(log, b"y", b"y")
        log.roll()
        put(log, b"y", b"y")
        await compact(logs, log, NOW_MS + 999)
        assert [(r.offset, r.value) for r in records_of(log)][:1] == [(1, None)], "999 ms after the first pass"
        assert records_of(log)[0].timestamp == NOW_MS, "the horizon in the header changes no record's time"
        log.roll()
        put(log, b"y", b"y")
        await compact(logs, log, NOW_MS + 1000)
        assert b"k" not in {record.key for record in records_of(log)}

    run(scenario)


def test_the_last_batch_of_a_producer_stays_though_empty() -> None:
    """Its sequence number must survive a restart, or the producer's next batch counts as out of order."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs, log = await compacted_log(disk)
        put(log, b"k", b"1", producer=(8, 0, 0))
        put(log, b"k", b"2", producer=(8, 0, 1))
        put(log, b"k", b"3")
        log.roll()
        put(log, b"z", b"z")
        await compact(logs, log)
        found = batches_of(log)
        assert [(each.base_offset, each.record_count) for each in found] == [(1, 0), (2, 1), (3, 1)]
        assert (found[0].producer_id, found[0].base_sequence, found[0].last_offset) == (8, 1, 1)
        await logs.checkpoint()
        log.producers.clear()
        replay(log, 0)
        assert log.producers.producers[8].last_sequence == 1
        assert put(log, b"k", b"4", producer=(8, 0, 2)) == 4

    run(scenario)


def test_aborted_records_go_and_markers_stay_while_they_are_needed() -> None:
    async def scenario() -> None:
        logs, log = await compacted_log()
        put(log, b"a", b"committed before")
        put(log, b"a", b"aborted", producer=(1, 0, 0), transactional=True)
        put(log, b"b", b"committed", producer=(2, 0, 0), transactional=True)
        append(log, marker(1, 0, committed=False))
        append(log, marker(2, 0, committed=True))
        put(log, b"c", b"1", producer=(1, 0, 1), transactional=True)
        append(log, marker(1, 0, committed=True))
        put(log, b"d", b"1", producer=(2, 0, 1), transactional=True)
        append(log, marker(2, 0, committed=True))
        log.roll()
        put(log, b"z", b"z")
        await compact(logs, log, NOW_MS)
        assert [record.value for record in records_of(log)] == [b"committed before", b"committed", b"1", b"1", b"z"]
        assert [each.base_offset for each in batches_of(log) if each.is_control] == [3, 4, 6, 8]
        log.roll()
        put(log, b"z", b"z")
        await compact(logs, log, NOW_MS + 1000)
        # The abort at 3 ends nothing that is left; the others end transactions whose records are still there.
        assert [each.base_offset for each in batches_of(log) if each.is_control] == [4, 6, 8]

    run(scenario)


def test_an_aborted_transaction_is_forgotten_before_its_marker_goes() -> None:
    """Told of one whose marker is gone, a read_committed consumer drops all that its producer commits later: it is the
    marker that ends the dropping."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs, log = await compacted_log(disk)
        put(log, b"x", b"aborted", producer=(7, 0, 0), transactional=True)
        append(log, marker(7, 0, committed=False))
        put(log, b"a", b"committed", producer=(7, 0, 1), transactional=True)
        append(log, marker(7, 0, committed=True))
        put(log, b"y", b"the last of its producer", producer=(8, 0, 0), transactional=True)
        append(log, marker(8, 0, committed=False))
        log.roll()
        put(log, b"z", b"z")
        assert [aborted.producer_id for aborted in log.aborted_transactions(0, 100)] == [7, 8]
        await compact(logs, log)
        assert [each.base_offset for each in batches_of(log) if each.is_control] == [1, 3, 5]
        assert [aborted.producer_id for aborted in log.aborted_transactions(0, 100)] == [8], "its empty batch stays"
        await logs.maintain(NOW_MS)
        again = (await open_logs(disk.process_killed())).get(topic_id(1), 0)
        assert again is not None
        assert [aborted.producer_id for aborted in again.aborted_transactions(0, 100)] == [8], "nor does it come back"

    run(scenario)


def test_a_marker_stays_while_it_alone_tells_its_producers_epoch() -> None:
    """Under transaction version 2 the marker raises the epoch. A log that is read again from its start would otherwise
    take batches of the epoch before."""

    async def scenario() -> None:
        logs, log = await compacted_log()
        put(log, b"a", b"aborted", producer=(7, 0, 0), transactional=True)
        append(log, marker(7, 1, committed=False))
        put(log, b"a", b"aborted", producer=(8, 0, 0), transactional=True)
        append(log, marker(8, 0, committed=False))
        for now_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 2000):
            log.roll()
            put(log, b"z", b"z")
            await compact(logs, log, now_ms)
        assert [each.base_offset for each in batches_of(log) if each.is_control] == [1, 3]
        assert log.aborted_transactions(0, 100) == [(8, 2, 3, 4)], "of producer 7 nothing is left but its marker"
        again = ProducerState()
        for each in batches_of(log):
            if each.producer_id >= 0:
                again.note_batch(each, each.base_offset, NOW_MS)
        assert {each: producer.epoch for each, producer in again.producers.items()} == {7: 1, 8: 0}
        del log.producers.producers[7]  # it has expired
        log.roll()
        put(log, b"z", b"z")
        await compact(logs, log, NOW_MS + 3000)
        assert [each.base_offset for each in batches_of(log) if each.is_control] == [3]

    run(scenario)


def test_an_open_transaction_and_what_follows_it_are_not_touched() -> None:
    """Whether its records count is not known yet."""

    async def scenario() -> None:
        logs, log = await compacted_log()
        put(log, b"a", b"1")
        put(log, b"a", b"2")
        log.roll()
        put(log, b"a", b"3", producer=(1, 0, 0), transactional=True)
        log.roll()
        put(log, b"a", b"4")
        log.roll()
        put(log, b"a", b"5")
        await compact(logs, log)
        assert [record.value for record in records_of(log)] == [b"2", b"3", b"4", b"5"]

    run(scenario)


def test_lags_and_ratio_decide_when_a_log_is_compacted() -> None:
    async def scenario() -> None:
        logs, log = await compacted_log(
            config=LogConfig(cleanup_policy="compact", segment_bytes=600, min_cleanable_dirty_ratio=0.5)
        )
        for index in range(40):
            put(log, b"k%d" % index, b"x" * 50)
        log.roll()
        put(log, b"k0", b"new")
        await compact(logs, log)
        assert len(records_of(log)) == 41
        log.roll()
        put(log, b"k1", b"new")
        await compact(logs, log)
        assert len(records_of(log)) == 42, "a little that is new is not worth a pass over all that is old"
        log.config = LogConfig(
            cleanup_policy="compact", segment_bytes=600, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=1000
        )
        await compact(logs, log, NOW_MS + 1001)
        assert len(records_of(log)) == 41, "but nothing waits for longer than max.compaction.lag.ms"
        log.config = LogConfig(
            cleanup_policy="compact", segment_bytes=600, min_cleanable_dirty_ratio=0.0, min_compaction_lag_ms=5000
        )
        log.roll()
        put(log, b"k2", b"new")
        await compact(logs, log, NOW_MS + 4999)
        assert len(records_of(log)) == 42
        await compact(logs, log, NOW_MS + 5001)
        assert len(records_of(log)) == 41

    run(scenario)


def test_a_power_cut_at_any_call_of_a_pass_leaves_all_or_nothing_of_it() -> None:
    """Either the old segments or the new ones: a mixture would lose records or restore deleted ones."""

    async def scenario() -> None:
        finished = 0
        for steps in range(220):
            disk = SimDisk(steps)
            logs, log = await compacted_log(disk)
            for index in range(14):
                put(log, b"k%d" % (index % 3), b"%d" % index * 40)
            log.roll()
            put(log, b"z", b"z")
            await logs.checkpoint()
            before = records_of(log)
            disk.cut_after(steps)
            pass_ = asyncio.ensure_future(compact(logs, log))
            for _ in range(400):  # a lane whose power is off never answers
                await asyncio.sleep(0)
            if pass_.done():
                finished += pass_.exception() is None
            else:
                pass_.cancel()
            logs = await open_logs(disk.power_cut())
            again = logs.get(topic_id(1), 0)
            assert again is not None
            assert again.damage is None
            found = records_of(again)
            kept = {record.offset for record in found}
            assert [record for record in before if record.offset in kept] == found
            assert set(latest_per_key(before).values()) <= set(found)
        assert finished > 3

    run(scenario)


@pytest.mark.parametrize("is_power_cut", [False, True])
@pytest.mark.parametrize("kept", [20, 9], ids=["all kept", "truncated"])
def test_what_a_log_rolled_since_its_checkpoint_is_not_compacted(kept: int, is_power_cut: bool) -> None:
    """The checkpoint, and the journal since, name positions in those segments: other files there would look damaged."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        logs, log = await compacted_log(disk)
        other = logs.create("z", topic_id(2), 0, LogConfig())
        put(other, b"k", b"v")
        for index in range(20):
            put(log, b"k%d" % (index % 3), b"v%d" % index)
        await asyncio.gather(durable(log), durable(other))
        log.high_watermark = log.end_offset
        disk.delay_s = 0.02
        maintaining = asyncio.ensure_future(logs.maintain(NOW_MS))
        while not logs._checkpointer.holds_state((log.topic_id, 0)):
            await asyncio.sleep(0.001)
        log.truncate_to(kept)
        for index in range(20):  # the log's line is written, and the checkpoint continues with other logs
            put(log, b"k%d" % (index % 3), b"w%d" % index)
        await durable(log)
        log.high_watermark = log.end_offset
        await maintaining
        held = latest_per_key(records_of(log))
        again = (await open_logs(disk.power_cut() if is_power_cut else disk.process_killed())).get(topic_id(1), 0)
        assert again is not None
        assert (again.damage, again.end_offset) == (None, kept + 20)
        assert latest_per_key(records_of(again)) == held

    for seed in range(10):
        run(partial(scenario, seed))


@pytest.mark.parametrize("is_power_cut", [False, True])
@pytest.mark.parametrize("event", ["none", "truncated", "made anew"])
def test_a_log_that_goes_on_while_others_are_checkpointed_is_found_as_it_was(event: str, is_power_cut: bool) -> None:
    """The journal that a checkpoint keeps begins before the log's line is written. Its records about segments that were
    rolled since then and compacted must not be applied to the files that replaced them."""

    async def scenario(seed: int) -> bool:
        random = Random(seed)
        disk = SimDisk(seed)
        logs = await open_logs(disk)
        config = LogConfig(cleanup_policy="compact", segment_bytes=3000, min_cleanable_dirty_ratio=0.0)
        others = [logs.create("a", topic_id(2), partition, config) for partition in range(60)]
        log = logs.create("t", topic_id(1), 0, config)
        epoch = 0

        def put_some(count: int) -> None:
            for _ in range(count):
                append(log, batch([b"%d" % log.end_offset], keys=[b"k%d" % random.randrange(200)]), epoch=epoch)

        for other in others:
            put(other, b"k", b"v")
        put_some(90)
        await asyncio.gather(*[durable(each) for each in (log, *others)])
        log.high_watermark = log.end_offset
        happens_after = random.randint(0, 100)
        maintaining = asyncio.ensure_future(logs.maintain(NOW_MS))
        while not maintaining.done():
            put_some(random.randint(1, 4))
            if random.random() < 0.7:
                await durable(log)
            else:
                await asyncio.sleep(0)
            happens_after -= 1
            if event == "truncated" and not happens_after:
                log.truncate_to(log.end_offset - random.randint(0, 80))
                epoch += 1
            elif event == "made anew" and not happens_after:
                deleting = asyncio.ensure_future(logs.delete(log))
                log = logs.create("t", topic_id(1), 0, config)
            log.high_watermark = log.end_offset
        await maintaining
        if event == "made anew" and happens_after <= 0:
            await deleting
        put_some(3)
        await durable(log)
        is_compacted = len(records_of(log)) < log.end_offset
        held = latest_per_key(records_of(log))
        again = (await open_logs(disk.power_cut() if is_power_cut else disk.process_killed())).get(topic_id(1), 0)
        assert again is not None
        assert (again.damage, again.end_offset) == (None, log.end_offset)
        assert latest_per_key(records_of(again)) == held
        return is_compacted

    assert sum([run(partial(scenario, seed)) for seed in range(25)]) > 5


@pytest.mark.parametrize("is_power_cut", [False, True])
def test_a_compacted_log_that_was_truncated_is_found_whole(is_power_cut: bool) -> None:
    """The log is then read from its beginning, and a compacted segment ends before the next one begins."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        logs, log = await compacted_log(disk)
        for index in range(22):
            put(log, b"k%d" % (index % 3), b"v%d" % index)
        await durable(log)
        log.high_watermark = 20
        await logs.maintain(NOW_MS)
        await logs.checkpoint()
        log.truncate_to(21)
        put(log, b"k0", b"new")
        await durable(log)
        held = latest_per_key(records_of(log))
        again = (await open_logs(disk.power_cut() if is_power_cut else disk.process_killed())).get(topic_id(1), 0)
        assert again is not None
        assert (again.damage, again.end_offset) == (None, 22)
        assert latest_per_key(records_of(again)) == held

    for seed in range(10):
        run(partial(scenario, seed))


def test_values_and_headers_of_kept_records_are_untouched() -> None:
    async def scenario() -> None:
        logs, log = await compacted_log()
        put(log, b"k", b"old")
        headers = (("h", b"1"), ("h", None))
        made = [Record(0, NOW_MS + 5, b"k", b"new", headers), Record(1, NOW_MS - 9, b"gone", b"x", ())]
        append(log, split(memoryview(build(made)))[0])
        put(log, b"gone", b"later")
        log.roll()
        put(log, b"z", b"z")
        await compact(logs, log)
        assert records_of(log)[0] == Record(1, NOW_MS + 5, b"k", b"new", headers)
        assert [record.offset for record in records_of(log)] == [1, 3, 4]
        for each in batches_of(log):
            assert each.max_timestamp == max(record.timestamp for record in records.iterate(each, 10**6))

    run(scenario)


@pytest.mark.parametrize("event", ["deleted", "made anew", "truncated"])
def test_a_log_that_goes_or_is_cut_at_any_turn_of_a_pass_ends_only_that(event: str) -> None:
    """The pass is the node's maintenance: if it failed, no other log would be retained or compacted any more."""

    async def scenario(turns: int) -> bool:
        config = LogConfig(cleanup_policy="compact", segment_bytes=60_000, min_cleanable_dirty_ratio=0.0)
        disk = SimDisk(turns)
        logs, log = await compacted_log(disk, config)
        for _ in range(60):
            append(log, batch([b"v" * 20] * 100, keys=[b"k%d" % number for number in range(100)]))
        log.roll()
        put(log, b"z", b"z")
        await logs.checkpoint()
        log.high_watermark = log.end_offset
        maintaining = asyncio.ensure_future(logs.maintain(NOW_MS))
        for _ in range(turns):
            await asyncio.sleep(0)
        was_done = maintaining.done()
        if event == "truncated":
            log.truncate_to(2000)
        else:
            deleting = asyncio.ensure_future(logs.delete(log))
            if event == "made anew":
                put(logs.create("t", topic_id(1), 0, config), b"new", b"new")
            await deleting
        await maintaining
        assert logs.failed is None
        assert not [name for name in disk.list(log.directory) if name.endswith((".cleaned", ".swap"))]
        again = (await open_logs(disk.process_killed())).get(topic_id(1), 0)
        if event == "deleted":
            assert again is None
        else:
            assert again is not None
            assert again.damage is None
            assert again.end_offset == (2000 if event == "truncated" else 1)
        return was_done

    turns = 0
    while not run(partial(scenario, turns)):
        turns += 1
    assert turns > 20


def test_records_that_nobody_can_read_keep_no_other_log_from_being_compacted() -> None:
    """A broker does not look into batches of a topic that is not compacted, and that may change later."""

    async def scenario() -> None:
        logs, log = await compacted_log()
        garbage = bytearray(batch([b"v" * 700], keys=[b"k"]).data)
        garbage[61:] = b"\xff" * (len(garbage) - 61)
        garbage[17:21] = crc32c(bytes(garbage[21:])).to_bytes(4, "big")
        append(log, split(memoryview(garbage))[0])
        other = logs.create("z", topic_id(2), 0, CONFIG)
        for each in (log, other):
            put(each, b"k", b"old")
            put(each, b"k", b"new")
            each.roll()
            put(each, b"z", b"z")
            each.high_watermark = each.end_offset
        await logs.maintain(NOW_MS)
        assert len(batches_of(log)) == 4
        assert [record.value for record in records_of(other)] == [b"new", b"z"]

    run(scenario)


def test_a_segment_with_more_keys_than_are_held_at_once_is_compacted_in_several_passes() -> None:
    """Each pass continues where the last one ended. A pass that started over would rewrite the log forever and free
    nothing."""

    async def scenario() -> None:
        logs = await open_logs(SimDisk(1), compaction_keys_max=10)
        log = logs.create("t", topic_id(1), 0, LogConfig(cleanup_policy="compact", segment_bytes=20_000))
        for _ in range(5):
            for number in range(20):
                put(log, b"k%d" % number, b"v" * 20)
        log.roll()
        put(log, b"z", b"z")
        ends = []
        for _ in range(12):
            await compact(logs, log)
            ends.append(log.compacted_offset)
        assert ends == [*range(10, 101, 10), 100, 100]
        assert len(records_of(log)) == 21

    run(scenario)
