"""How old a record is: by its own timestamp, or by when it was appended, and never by a client's header alone."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage import retention
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.wire.batches import BatchView, build, split
from chronik.wire.compression import Codec
from chronik.wire.records import Record
from tests.storage.driving import NOW_MS, append, batch, open_logs, run, topic_id, values_of

WEEK_MS = 7 * 86_400_000
MINUTE_MS = 60_000


class Keeping:
    """A log with a retention of a week on a disk that has a clock."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimDisk(seed)
        self.now_ms = NOW_MS
        self.disk.wall_ms = lambda: self.now_ms

    async def open(self, **config: object) -> Log:
        self.logs: Logs = await open_logs(self.disk)
        config = {"retention_ms": WEEK_MS, "segment_ms": 10 * WEEK_MS} | config
        self.log = self.logs.create("t", topic_id(1), 0, LogConfig(**config))  # type: ignore[arg-type]
        return self.log

    async def pass_by(self, ms: int = 0) -> list[bytes | None]:
        """The records left after the next retention check."""
        self.now_ms += ms
        self.log.high_watermark = self.log.end_offset
        await self.logs.maintain(self.now_ms)
        return values_of(self.log)


def lying_batch(stamps: list[int], header_ms: int, codec: Codec = Codec.NONE) -> BatchView:
    """Records with these timestamps under a header that names another as the largest."""
    made = [Record(index, stamp, None, b"%d" % index) for index, stamp in enumerate(stamps)]
    return split(memoryview(build(made, codec, max_timestamp=header_ms)))[0]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_records_without_a_timestamp_are_kept_for_the_whole_time_after_their_append(codec: Codec) -> None:
    """librdkafka sends timestamp -1 with a header that says 0. Kafka ages such a segment by its file's time."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open()
        append(log, lying_batch([-1, -1], 0, codec), now_ms=keeping.now_ms)
        assert await keeping.pass_by() == [b"0", b"1"]
        assert await keeping.pass_by(WEEK_MS - MINUTE_MS) == [b"0", b"1"]
        assert await keeping.pass_by(2 * MINUTE_MS) == []

    run(scenario)


@pytest.mark.parametrize("header_ms", [0, -1, NOW_MS - 2 * WEEK_MS])
def test_a_young_record_under_an_old_header_is_kept(header_ms: int) -> None:
    """kafka-go names the last message's time, which need not be the largest."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open()
        append(log, lying_batch([NOW_MS, NOW_MS - 2 * WEEK_MS], header_ms), now_ms=keeping.now_ms)
        assert len(await keeping.pass_by()) == 2
        assert len(await keeping.pass_by(WEEK_MS - MINUTE_MS)) == 2
        assert await keeping.pass_by(2 * MINUTE_MS) == []

    run(scenario)


def test_old_records_written_today_go_at_the_next_check() -> None:
    """As in Kafka, their own timestamps count: a topic that is filled again keeps no more than it should."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open()
        append(log, batch([b"old"], timestamps=[NOW_MS - 2 * WEEK_MS]), now_ms=keeping.now_ms)
        assert await keeping.pass_by() == []

    run(scenario)


def test_records_are_read_once_and_only_where_header_and_file_disagree() -> None:
    """Decompressing everything before it is deleted would cost more than storing it did."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open()
        append(log, batch([b"x"] * 10, timestamps=[NOW_MS] * 10), now_ms=keeping.now_ms)
        honest = log.segments[0]
        await keeping.pass_by(WEEK_MS - MINUTE_MS)
        await keeping.pass_by(2 * MINUTE_MS)
        assert (log.start_offset, honest.proven_bytes) == (10, 0)
        append(log, lying_batch([-1] * 5, 0), now_ms=keeping.now_ms)
        await keeping.pass_by()
        assert log.segments[-1].proven_bytes == log.segments[-1].size_bytes
        reads = keeping.disk.calls["read"]
        await keeping.logs.maintain(keeping.now_ms)
        assert keeping.disk.calls["read"] == reads

    run(scenario)


def test_a_restored_file_that_looks_new_is_judged_by_its_records() -> None:
    """Otherwise a copy without its times would keep everything for another week, or forever if it is copied often."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open()
        append(log, batch([b"old"], timestamps=[NOW_MS]), now_ms=keeping.now_ms)
        await keeping.pass_by()
        path = log.segments[0].path
        keeping.disk.set_modified(path, NOW_MS + WEEK_MS)
        assert await keeping.pass_by(WEEK_MS + MINUTE_MS) == []

    run(scenario)


def test_the_same_holds_after_a_restart_and_on_a_follower() -> None:
    """A follower has the same bytes, and a restart forgets what was read of them: both get the same result."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open()
        append(log, lying_batch([NOW_MS], 0), now_ms=keeping.now_ms)
        fetched = bytes(log.read(0, bytes_max=1 << 20, offset_limit=1).buffers[0])
        follower = Keeping(2)
        (await follower.open()).append_fetched(memoryview(fetched))
        await keeping.logs.close()
        await keeping.open()
        for each in (keeping, follower):
            assert await each.pass_by(WEEK_MS - MINUTE_MS) == [b"0"]
            assert await each.pass_by(2 * MINUTE_MS) == []

    run(scenario)


def test_compaction_makes_records_without_a_timestamp_no_younger() -> None:
    """Their age is that of their file. A topic that is compacted every minute would keep them forever."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open(cleanup_policy="compact,delete", min_cleanable_dirty_ratio=0.0)
        for value in (b"a", b"b"):
            append(log, batch([value], keys=[b"k"], timestamps=[-1]), now_ms=keeping.now_ms)
            log.roll()
        append(log, batch([b"c"], keys=[b"c"], timestamps=[NOW_MS + 2 * WEEK_MS]), now_ms=keeping.now_ms)
        assert await keeping.pass_by(WEEK_MS - MINUTE_MS) == [b"b", b"c"]
        assert await keeping.pass_by(2 * MINUTE_MS) == [b"c"]

    run(scenario)


def test_a_segment_cut_while_its_records_are_read_is_not_judged_by_them() -> None:
    """A follower may truncate meanwhile: what was read of removed bytes must not delete others."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open()
        old_ms = NOW_MS - 2 * WEEK_MS
        for _ in range(3):
            append(log, batch([b"old"], timestamps=[old_ms]), now_ms=keeping.now_ms)
        log.high_watermark = log.end_offset
        lane = keeping.disk.lane("t")
        proving = retention.prove(log, keeping.now_ms, lane)
        task = asyncio.ensure_future(proving)
        await asyncio.sleep(0)
        log.truncate_to(1)
        append(log, lying_batch([NOW_MS], 0), epoch=1, now_ms=keeping.now_ms)
        await task
        log.high_watermark = log.end_offset
        assert retention.start_after_retention(log, keeping.now_ms) == 0

    run(scenario)


@pytest.mark.parametrize("seed", range(40))
def test_no_record_goes_before_its_time_whatever_headers_say(seed: int) -> None:
    """The promise: a record is there until retention.ms after its timestamp, and one without for as long after its
    append. Header and batching are drawn at random; truth is the list of records."""

    async def scenario() -> None:
        random = Random(seed)
        keeping = Keeping(seed)
        log = await keeping.open(segment_bytes=random.choice([200, 1000, 1 << 20]), retention_ms=100_000)
        until_ms: dict[int, int] = {}
        for _ in range(60):
            keeping.now_ms += random.choice([0, 0, 500, 30_000])
            now_ms = keeping.now_ms
            stamps = [random.choice([-1, now_ms, now_ms - random.randint(0, 200_000)]) for _ in range(3)]
            header_ms = random.choice([0, -1, stamps[-1], max(stamps), now_ms - 300_000])
            codec = random.choice([Codec.NONE, Codec.GZIP])
            first = append(log, lying_batch(stamps, header_ms, codec), now_ms=now_ms)
            for offset, stamp in enumerate(stamps, first):
                until_ms[offset] = (now_ms if stamp < 0 else stamp) + 100_000
            if random.random() < 0.5:
                await keeping.pass_by()
                young = [offset for offset, until in until_ms.items() if until >= keeping.now_ms]
                assert log.start_offset <= min(young, default=log.end_offset)
            if random.random() < 0.1:
                await keeping.logs.close()
                await keeping.open(segment_bytes=log.config.segment_bytes, retention_ms=100_000)
                log = keeping.log
        assert await keeping.pass_by(500_000) == [], "and nothing is kept for ever"

    run(scenario)


def test_a_topic_of_few_records_without_a_timestamp_does_not_keep_them_for_ever() -> None:
    """The segment that is written to is always young. It is rolled after segment.ms, as Kafka rolls it by its age."""

    async def scenario() -> None:
        keeping = Keeping()
        log = await keeping.open(segment_ms=WEEK_MS)
        for day in range(60):
            append(log, lying_batch([-1], 0), now_ms=keeping.now_ms)
            await keeping.pass_by(WEEK_MS // 7)
            assert log.start_offset <= max(0, day - 6), "each is kept for a week"
        assert len(log.segments) <= 4
        assert log.start_offset >= 60 - 22

    run(scenario)
