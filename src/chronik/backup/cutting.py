"""Converts the batches of a backup into the steps of a restore. No I/O.

A broker assigns consecutive offsets, so a restored log must have something at every offset of the original. A step is:

Put    a batch whose records have consecutive offsets. It is sent to the broker.
Hide   offsets below the start of the log. Filler records occupy them, and DeleteRecords removes these.
Skip   offsets without a visible record: aborted records, markers, records that compaction removed. A marker of an
       empty transaction fills each one. No consumer sees markers, whatever its isolation level.

Payloads stay compressed unchanged, with two exceptions. A batch with holes, or with LogAppendTime, is decoded and
rebuilt. Small neighbours are joined, because a request carries one batch per partition. Producer ids are removed: in
another cluster they belong to other producers, and the batches would be taken for duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from chronik.wire.batches import (
    CRC_COVERS_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_COVERS_FROM,
    MAGIC,
    NO_LEADER_EPOCH,
    BatchView,
    build,
    split,
)
from chronik.wire.checksums import crc32c
from chronik.wire.compression import CODEC_BITS, Codec
from chronik.wire.records import Record, TimestampType, iterate

DECOMPRESSED_BYTES_MAX: Final = 1 << 30
JOINED_BYTES_MAX: Final = 128 << 10  # small batches are joined up to this size
JOINED_RECORDS_MAX: Final = 10_000
HIDDEN_RECORDS_MAX: Final = 100_000  # per batch that fills offsets below the start of the log
CRC_AT: Final = 17


class Put(NamedTuple):
    batch: BatchView


class Hide(NamedTuple):
    offset: int
    offset_count: int


class Skip(NamedTuple):
    offset: int
    offset_count: int


Step = Put | Hide | Skip


def steps(batches: Iterable[BatchView], start_offset: int, end_offset: int) -> Iterator[Step]:
    """Steps that fill the offsets from 0 to `end_offset`, in order and without a gap."""
    position = 0
    for batch in _joined(each for whole in batches for each in _without_holes(whole)):
        yield from _empty(position, batch.base_offset, start_offset)
        yield Put(batch)
        position = batch.next_offset
    yield from _empty(position, end_offset, start_offset)


class SkippedOffsets:
    """Counts what `steps` skips, from batch headers alone."""

    def __init__(self, start_offset: int) -> None:
        self._start_offset = start_offset
        self._position = 0
        self._count = 0

    def add(self, batch: BatchView) -> None:
        self._count += max(0, batch.base_offset - max(self._position, self._start_offset))
        self._count += batch.last_offset_delta + 1 - batch.record_count
        self._position = batch.next_offset

    def until(self, end_offset: int) -> int:
        """An upper bound: a batch may have holes below the start of the log."""
        return self._count + max(0, end_offset - max(self._position, self._start_offset))


def _empty(position: int, until: int, start_offset: int) -> Iterator[Step]:
    hidden_until = min(until, start_offset)
    if position < hidden_until:
        yield Hide(position, hidden_until - position)
        position = hidden_until
    if position < until:
        yield Skip(position, until - position)


def _without_holes(batch: BatchView) -> Iterator[BatchView]:
    """The batch, or one for each run of consecutive offsets in it."""
    is_whole = batch.record_count == batch.last_offset_delta + 1
    if is_whole and batch.timestamp_type is TimestampType.CREATE_TIME:
        yield batch
        return
    run: list[Record] = []
    for record in iterate(batch, DECOMPRESSED_BYTES_MAX):
        if run and record.offset != run[-1].offset + 1:
            yield _built(run, batch.compression)
            run = []
        run.append(record)
    if run:
        yield _built(run, batch.compression)


def _joined(batches: Iterable[BatchView]) -> Iterator[BatchView]:
    waiting: list[BatchView] = []
    size_bytes = record_count = 0
    for batch in batches:
        last = waiting[-1] if waiting else None
        if (
            last is None
            or last.next_offset != batch.base_offset
            or last.compression is not batch.compression
            or size_bytes + batch.size_bytes > JOINED_BYTES_MAX
            or record_count + batch.record_count > JOINED_RECORDS_MAX
        ):
            yield from _as_one(waiting)
            waiting, size_bytes, record_count = [], 0, 0
        waiting.append(batch)
        size_bytes += batch.size_bytes
        record_count += batch.record_count
    yield from _as_one(waiting)


def _as_one(batches: list[BatchView]) -> Iterator[BatchView]:
    if len(batches) < 2:
        yield from batches
        return
    yield _built(
        [record for batch in batches for record in iterate(batch, DECOMPRESSED_BYTES_MAX)], batches[0].compression
    )


def _built(records: list[Record], codec: Codec) -> BatchView:
    [batch] = split(memoryview(build(records, codec)))
    return batch


@lru_cache(maxsize=2)
def filler(count: int) -> BatchView:
    """A batch of `count` filler records. They have keys, so that compacted topics accept them."""
    return _built([Record(offset, 0, b"", None) for offset in range(count)], Codec.ZSTD)


def stamped(batch: BatchView, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """The batch as a producer sends it: at base offset 0, without data specific to the original cluster."""
    header = bytearray(
        HEADER.pack(
            0,
            batch.size_bytes - LENGTH_COVERS_FROM,
            NO_LEADER_EPOCH,
            MAGIC,
            0,
            batch.attributes & CODEC_BITS,
            batch.last_offset_delta,
            batch.base_timestamp,
            batch.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            batch.record_count,
        )
    )
    payload = batch.data[HEADER_BYTES:]
    crc = crc32c(payload, crc32c(bytes(header[CRC_COVERS_FROM:])))
    header[CRC_AT:CRC_COVERS_FROM] = crc.to_bytes(4)
    return bytes(header) + bytes(payload)
