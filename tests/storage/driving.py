"""What storage tests share: batches of known content, a node's logs on a disk in memory, and ways to read them back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from chronik.runtime.interfaces import Disk, Runtime
from chronik.storage import time_lookup
from chronik.storage.config import LogsConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.time_lookup import TimestampedOffset
from chronik.wire import records
from chronik.wire.batches import BatchView, build, split
from chronik.wire.compression import Codec
from chronik.wire.records import ControlType, Record

T = TypeVar("T")
DIRECTORY = "/data"
NOW_MS = 1_700_000_000_000


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Absent:
    """A clock, network or randomness that storage must not use: callers pass it the time."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"storage asked for {name}")


def runtime_on(disk: Disk) -> Runtime:
    absent: Any = Absent()
    return Runtime(absent, disk, absent, absent)


async def open_logs(disk: Disk, **config: int) -> Logs:
    return await Logs.open(runtime_on(disk), DIRECTORY, LogsConfig(**config))


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(work())


def batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> BatchView:
    """A batch as a client sends it. `producer` is (id, epoch, sequence)."""
    made = [
        Record(index, timestamps[index] if timestamps else NOW_MS, keys[index] if keys else None, value, ())
        for index, value in enumerate(values)
    ]
    data = build(
        made,
        codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=transactional,
    )
    return split(memoryview(data))[0]


def marker(producer_id: int, epoch: int, *, committed: bool, coordinator_epoch: int = 0) -> BatchView:
    outcome = ControlType.COMMIT if committed else ControlType.ABORT
    data = build(
        [records.marker(0, NOW_MS, outcome, coordinator_epoch)],
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
    )
    return split(memoryview(data))[0]


def append(log: Log, *batches: BatchView, epoch: int = 0, now_ms: int = NOW_MS) -> int:
    """The first offset. Transactional batches come from a client whose transaction includes the partition."""
    first_offset = log.end_offset
    for number, each in enumerate(batches):
        guard = None
        if each.is_transactional and not each.is_control:
            guard = log.producers.guard_for(each.producer_id, each.producer_epoch, each.base_sequence, is_tv2=False)
        appended = log.append(each, leader_epoch=epoch, now_ms=now_ms, guard=guard)
        first_offset = first_offset if number else appended.first_offset
    return first_offset


def batches_of(log: Log, start: int | None = None, bytes_max: int = 1 << 20) -> list[BatchView]:
    """Every batch from `start` on, read as a consumer would."""
    found: list[BatchView] = []
    offset = log.start_offset if start is None else start
    while offset < log.end_offset:
        read = log.read(offset, bytes_max=bytes_max, offset_limit=log.end_offset)
        if not read.buffers:
            break
        for buffer in read.buffers:
            found += split(buffer)
        assert read.next_offset > offset
        offset = read.next_offset
    return found


def records_of(log: Log) -> list[Record]:
    """Every record at or above the start, markers left out."""
    return [
        record
        for each in batches_of(log)
        if not each.is_control
        for record in records.iterate(each, 1 << 26)
        if record.offset >= log.start_offset
    ]


def values_of(log: Log) -> list[bytes | None]:
    return [record.value for record in records_of(log)]


async def durable(log: Log) -> None:
    future = log.when_durable(log.end_offset)
    if future is not None:
        await future


def random_value(random: Random, bytes_max: int) -> bytes:
    return random.randbytes(random.randint(0, bytes_max))


def offset_for_timestamp(log: Log, timestamp_ms: int, offset_limit: int) -> TimestampedOffset | None:
    """The first record at or after a time, below `offset_limit`."""
    return _found_by(time_lookup.first_at_or_after(log, timestamp_ms, offset_limit))


def max_timestamp(log: Log) -> TimestampedOffset | None:
    """The first record with the largest timestamp."""
    return _found_by(time_lookup.latest(log))


def _found_by(lookup: time_lookup.Lookup) -> TimestampedOffset | None:
    found: time_lookup.Stamp | None = None
    try:
        while True:
            found = lookup.send(found)()
    except StopIteration as end:
        result: TimestampedOffset | None = end.value
        return result
