"""Retention against a model that knows nothing of segments but where they begin."""

from __future__ import annotations

from random import Random

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from tests.storage.driving import NOW_MS, append, batch, durable, open_logs, records_of, run, topic_id


def model_start(log: Log, stamps: dict[int, int], now_ms: int) -> int:
    """The obvious rules over all records: which leading segments may go."""
    bases = [segment.base_offset for segment in log.segments] + [log.end_offset]
    sizes = [segment.size_bytes for segment in log.segments]
    latest = [-1] * len(sizes)
    for offset, stamp in stamps.items():
        if offset >= bases[0]:
            index = max(i for i, base in enumerate(bases[:-1]) if base <= offset)
            latest[index] = max(latest[index], stamp)
    config = log.config
    by_time = by_size = 0
    while (
        by_time < len(sizes)
        and config.retention_ms >= 0
        and 0 <= latest[by_time] < now_ms - config.retention_ms
        and bases[by_time + 1] <= log.high_watermark
    ):
        by_time += 1
    while (
        by_size < len(sizes) - 1
        and config.retention_bytes >= 0
        and sum(sizes[by_size + 1 :]) >= config.retention_bytes
        and bases[by_size + 1] <= log.high_watermark
    ):
        by_size += 1
    count = max(by_time, by_size)
    return max(log.start_offset, bases[count]) if count else log.start_offset


@pytest.mark.parametrize("seed", range(60))
def test_retention_agrees_with_the_obvious_rules(seed: int) -> None:
    """Too much deleted is data lost; too little fills the disk. Offsets are never used again."""

    async def scenario() -> None:
        random = Random(seed)
        disk = SimDisk(seed)
        logs = await open_logs(disk)
        log = logs.create(
            "t",
            topic_id(1),
            0,
            LogConfig(
                segment_bytes=random.choice([300, 1000, 5000]),
                retention_ms=random.choice([-1, 0, 1000, 10_000]),
                retention_bytes=random.choice([-1, 0, 500, 4000]),
            ),
        )
        now_ms = NOW_MS
        written: dict[int, int] = {}
        for _ in range(15):
            for _ in range(random.randint(0, 12)):
                now_ms += random.randint(0, 500)
                stamps = [now_ms - random.randint(0, 3000) for _ in range(random.randint(1, 3))]
                values = [b"x" * random.randint(0, 200)] * len(stamps)
                offset = append(log, batch(values, timestamps=stamps), now_ms=now_ms)
                written |= dict(enumerate(stamps, offset))
            log.high_watermark = random.randint(log.high_watermark, log.end_offset)
            if random.random() < 0.2:
                log.advance_start(random.randint(log.start_offset, log.high_watermark))
            expected = model_start(log, written, now_ms) if log.segments else 0
            kept = [record for record in records_of(log) if record.offset >= expected]
            end_offset = log.end_offset
            await logs.maintain(now_ms)
            assert (log.start_offset, log.end_offset) == (expected, end_offset)
            assert records_of(log) == kept
            if log.segments:
                assert log.segments[0].base_offset <= log.start_offset
                assert len(log.segments) == 1 or log.segments[1].base_offset > log.start_offset
            names = [name for name in disk.list("/data/t-0") if name.endswith(".log")]
            assert names == [f"{segment.base_offset:020}.log" for segment in log.segments]
            if random.random() < 0.2:
                logs, log = await reopened(logs, log, disk)
                assert (log.start_offset, log.end_offset) == (expected, end_offset)
                assert records_of(log) == kept

    run(scenario)


async def reopened(logs: Logs, log: Log, disk: SimDisk) -> tuple[Logs, Log]:
    config, high_watermark = log.config, log.high_watermark
    await logs.close()
    logs = await open_logs(disk)
    again = logs.get(log.topic_id, 0) or logs.create("t", log.topic_id, 0, config)
    again.config, again.high_watermark = config, high_watermark
    return logs, again


def test_deleted_records_stay_deleted_after_a_power_cut() -> None:
    """DeleteRecords is acknowledged when it is durable; a consumer must not see them again."""

    async def scenario() -> None:
        for seed in range(30):
            disk = SimDisk(seed)
            logs = await open_logs(disk)
            log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=300))
            for index in range(20):
                append(log, batch([b"%d" % index * 50]))
            log.high_watermark = 20
            log.advance_start(13)
            await logs.maintain(NOW_MS)
            log = (await open_logs(disk.power_cut())).get(topic_id(1), 0)  # type: ignore[assignment]
            assert log.start_offset == 13

    run(scenario)


def test_a_config_change_takes_effect_with_the_next_step() -> None:
    async def scenario() -> None:
        logs = await open_logs(SimDisk(1))
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=300))
        for _ in range(10):
            append(log, batch([b"x" * 100]))
        log.high_watermark = log.end_offset
        await logs.maintain(NOW_MS)
        assert log.start_offset == 0
        log.config = LogConfig(segment_bytes=300, retention_ms=1)
        await logs.maintain(NOW_MS + 2)
        assert (log.start_offset, log.end_offset) == (10, 10)
        assert append(log, batch([b"y"]), now_ms=NOW_MS + 3) == 10

    run(scenario)


def test_a_damaged_log_keeps_no_other_from_being_retained() -> None:
    """One bad sector on one partition would fill the disk with all the others."""

    async def scenario() -> None:
        disk = SimDisk(1)
        config = LogConfig(segment_bytes=1000, retention_ms=10_000)
        logs = await open_logs(disk)
        for number in (1, 2):
            log = logs.create("t", topic_id(number), number, config)
            for _ in range(50):
                append(log, batch([b"v" * 20]))
        await logs.close()
        damaged = sorted(name for name in disk.list("/data/t-1") if name.endswith(".log"))[1]
        disk.flip_bit(f"/data/t-1/{damaged}", 16)  # the magic of its first batch
        logs = await open_logs(disk)
        for number in (1, 2):
            log = logs.create("t", topic_id(number), number, config)
            log.high_watermark = log.end_offset
        await logs.maintain(NOW_MS + 10**9)
        assert [log.start_offset for log in logs.all()] == [0, 50]

    run(scenario)


def test_a_segment_that_compaction_has_emptied_goes_with_those_behind_it() -> None:
    """An empty segment has no time. If retention waited for one, a compacted topic with retention would keep
    everything."""

    async def scenario() -> None:
        logs = await open_logs(SimDisk(1))
        config = LogConfig(cleanup_policy="compact,delete", segment_bytes=1000, retention_ms=10_000)
        log = logs.create("t", topic_id(1), 0, config)
        for _ in range(2):
            for number in range(10):
                append(log, batch([b"v" * 20], keys=[b"k%d" % number]))
            log.roll()
        append(log, batch([b"z"], keys=[b"z"], timestamps=[NOW_MS + 20_000]))
        log.high_watermark = log.end_offset
        await logs.maintain(NOW_MS)
        assert [segment.size_bytes > 0 for segment in log.segments] == [False, True, True]
        assert log.start_offset == 0
        await logs.maintain(NOW_MS + 20_000)
        assert (log.start_offset, len(log.segments)) == (20, 1)

    run(scenario)


@pytest.mark.parametrize("loss", ["restart", "truncation"])
def test_a_producer_goes_on_when_what_it_wrote_is_gone(loss: str) -> None:
    """Whether a restart or a truncation makes the log look for how far producers had got: what retention has taken
    since the last checkpoint tells nothing, and the checkpoint's word is too old to refuse the next batch by it."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=1))
        append(log, batch([b"a"], producer=(7, 0, 0)))
        await logs.checkpoint()
        for sequence in range(1, 7):
            append(log, batch([b"a"], producer=(7, 0, sequence)))
        for number in range(3):  # of other logs, after the removed ones: only these must remain
            append(log, batch([b"b"], producer=(8, 0, number)))
        log.high_watermark = log.end_offset
        log.advance_start(7)
        await logs.journal.flush_notes()
        log.drop_below(log.start_offset)
        await durable(log)
        if loss == "truncation":
            append(log, batch([b"c"]), epoch=1)
            for sequence in range(7, 13):  # more than are remembered, so that the log has to be read
                append(log, batch([b"a"], producer=(7, 0, sequence)), epoch=1)
            log.truncate_to(10)
        else:
            found = (await open_logs(disk.process_killed())).get(topic_id(1), 0)
            assert found is not None
            log = found
        assert log.append(batch([b"a"], producer=(7, 0, 7)), leader_epoch=2, now_ms=NOW_MS).first_offset == 10
        again = log.append(batch([b"b"], producer=(8, 0, 2)), leader_epoch=2, now_ms=NOW_MS)
        assert again.is_duplicate, "what is left of a producer counts"

    run(scenario)


def test_a_start_that_advances_while_retention_works_removes_nothing_yet() -> None:
    """The journal does not hold it durably. After a power cut the log would start where a file is missing."""

    async def scenario() -> None:
        disk = SimDisk(0)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=300, retention_ms=-1))
        for _ in range(6):
            append(log, batch([bytes(200)]))
        await logs.checkpoint()
        log.high_watermark = log.end_offset
        log.advance_start(1)
        flush_notes = logs._journal.flush_notes

        async def flush_and_advance() -> None:
            await flush_notes()
            log.advance_start(4)

        logs._journal.flush_notes = flush_and_advance  # type: ignore[method-assign]
        await logs.maintain(NOW_MS)
        assert log.segments[0].base_offset == 1
        again = (await open_logs(disk.power_cut())).get(topic_id(1), 0)
        assert again is not None
        assert (again.lost, again.start_offset, len(records_of(again))) == (None, 1, 5)

    run(scenario)
