"""Lookup by time against a list: the first record at or after a time, whatever order timestamps come in."""

from __future__ import annotations

from random import Random

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.wire.compression import Codec
from tests.storage.driving import (
    NOW_MS,
    append,
    batch,
    max_timestamp,
    offset_for_timestamp,
    open_logs,
    records_of,
    run,
    topic_id,
)


@pytest.mark.parametrize("seed", range(60))
def test_lookup_agrees_with_a_walk_over_all_records(seed: int) -> None:
    """Spark and consumers start from a time: a record skipped is a record lost to them."""

    async def scenario() -> None:
        random = Random(seed)
        disk = SimDisk(seed)
        logs = await open_logs(disk)
        config = LogConfig(
            segment_bytes=random.choice([500, 3000, 10**6]),
            index_interval_bytes=random.choice([1, 300, 4096]),
            message_timestamp_type=random.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
        )
        log = logs.create("t", topic_id(1), 0, config)
        disorder = random.choice([0, 5, 200])
        now_ms = NOW_MS
        for index in range(random.randint(1, 60)):
            now_ms += random.randint(0, 10)
            stamps = [now_ms + random.randint(-disorder, disorder) for _ in range(random.randint(1, 6))]
            values = [random.randbytes(random.randint(0, 60)) for _ in stamps]
            epoch = index // 10
            append(log, batch(values, timestamps=stamps, codec=random.choice(list(Codec))), epoch=epoch, now_ms=now_ms)
        if random.random() < 0.5:
            log.advance_start(random.randint(0, log.end_offset))
        if random.random() < 0.5:
            await logs.close()
            logs = await open_logs(disk)
            log = logs.get(topic_id(1), 0)  # type: ignore[assignment]
        records = records_of(log)
        for _ in range(60):
            wanted = random.randint(NOW_MS - 250, now_ms + 250)
            limit = random.choice([log.end_offset, random.randint(0, log.end_offset)])
            first = next((each for each in records if each.timestamp >= wanted), None)
            found = offset_for_timestamp(log, wanted, limit)
            if first is None or first.offset >= limit:
                assert found is None
            else:
                assert found is not None
                assert (found.offset, found.timestamp_ms) == (first.offset, first.timestamp)
                assert found.leader_epoch == log.epochs.epoch_of(first.offset)
        latest = max_timestamp(log)
        if not records:
            assert latest is None
        else:
            largest = max(each.timestamp for each in records)
            first_largest = next(each for each in records if each.timestamp == largest)
            assert latest is not None
            assert (latest.offset, latest.timestamp_ms) == (first_largest.offset, largest)

    run(scenario)


def test_an_empty_log_has_no_times() -> None:
    async def scenario() -> None:
        log = (await open_logs(SimDisk(1))).create("t", topic_id(1), 0, LogConfig())
        assert offset_for_timestamp(log, 0, 100) is None
        assert max_timestamp(log) is None

    run(scenario)
