"""A segment's index: where it points, and how little is read because of it."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from chronik.sim.disk import SimDisk, SimFile
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from tests.storage.driving import NOW_MS, append, batch, durable, offset_for_timestamp, open_logs, run, topic_id


async def indexed_log(disk: SimDisk, count: int, interval_bytes: int = 500) -> Log:
    random = Random(count)
    log = (await open_logs(disk)).create("t", topic_id(1), 0, LogConfig(index_interval_bytes=interval_bytes))
    for index in range(count):
        values = [random.randbytes(random.randint(0, 80)) for _ in range(random.randint(1, 3))]
        append(log, batch(values, timestamps=[NOW_MS + index + random.randint(-20, 20) for _ in values]))
    return log


def test_every_entry_names_the_batch_it_points_at() -> None:
    """A wrong entry is found out when it is used, at the price of reading the whole segment."""

    async def scenario() -> None:
        segment = (await indexed_log(SimDisk(1), 400)).segments[0]
        batches = dict(segment.headers())
        entries = [segment.index.entry(index) for index in range(len(segment.index))]
        assert len(entries) > 30
        assert entries[0] == (0, 0, -1)
        for entry, following in pairwise(entries):
            assert following.position - entry.position >= 500
        for entry in entries:
            assert batches[entry.position].base_offset == entry.offset
            before = [header.max_timestamp for position, header in batches.items() if position < entry.position]
            assert entry.timestamp_before_ms == max(before, default=-1)

    run(scenario)


def test_a_lookup_reads_one_interval_not_the_segment() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        log = await indexed_log(disk, 2000)
        segment = log.segments[0]
        for offset in (1, 777, 1500, 2500):
            segment._recent.clear()
            disk.calls.clear()
            log.read(offset, bytes_max=100, offset_limit=log.end_offset)
            assert disk.calls["read"] <= 5
            disk.calls.clear()
            offset_for_timestamp(log, NOW_MS + offset // 2, log.end_offset)
            assert disk.calls["read"] <= 5

    run(scenario)


def test_a_tailing_reader_needs_neither_index_nor_walk() -> None:
    """What nearly every fetch is: from where the last one ended."""

    async def scenario() -> None:
        disk = SimDisk(1)
        log = await indexed_log(disk, 100)
        offset = log.read(0, bytes_max=1000, offset_limit=log.end_offset).next_offset
        for _ in range(10):
            disk.calls.clear()
            read = log.read(offset, bytes_max=1000, offset_limit=log.end_offset)
            assert disk.calls["read"] == 1
            offset = read.next_offset
        append(log, batch([b"new"]))
        disk.calls.clear()
        log.read(log.end_offset - 1, bytes_max=1000, offset_limit=log.end_offset)
        assert disk.calls["read"] == 1

    run(scenario)


def test_what_nobody_reads_leaves_memory_once_it_is_synced_but_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower's copy would use memory that leaders on the same machine need for their consumers."""
    forgotten: list[tuple[int, int]] = []
    monkeypatch.setattr(SimFile, "forget", lambda _, start, end: forgotten.append((start, end)))
    monkeypatch.setattr("chronik.storage.segment.KEPT_BYTES", 1000)
    monkeypatch.setattr("chronik.storage.segment.FORGOTTEN_BYTES_MIN", 500)

    async def scenario() -> None:
        disk = SimDisk(1)
        disk.journal_bytes_max = 0  # all by its own file
        log = (await open_logs(disk)).create("t", topic_id(1), 0, LogConfig())
        append(log, batch([bytes(3000)]))
        await durable(log)
        assert forgotten == [], "a leader's is read"
        log.is_read = False
        append(log, batch([bytes(100)]))
        assert forgotten == [], "not before it is synced"
        await durable(log)
        [segment] = log.segments
        assert forgotten == [(0, segment.size_bytes - 1000)]
        append(log, batch([bytes(100)]))
        await durable(log)
        assert len(forgotten) == 1, "not for so little"
        append(log, batch([bytes(600)]))
        await durable(log)
        assert forgotten[1] == (forgotten[0][1], segment.size_bytes - 1000)
        log.truncate_to(1)
        append(log, batch([bytes(3000)]))
        await durable(log)
        assert forgotten[2:] == [(segment.position_of(1), segment.size_bytes - 1000)], "what is new is told anew"

    run(scenario)
