"""Finds records by time. Reads segments, changes nothing.

Timestamps are set by producers and need not increase, so "the first record at or after a time" is found exactly: the
index excludes bytes before which no record can match, batch headers identify the batch, and the batch the record.

Decoding a batch may take long, so the caller does that: a lookup yields a `Look`, is sent its result, and holds no
segment meanwhile, so that the log may change.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, NamedTuple

from chronik.runtime.invariants import check
from chronik.storage.config import DECOMPRESSED_BYTES_MAX
from chronik.wire import records
from chronik.wire.batches import BatchView

if TYPE_CHECKING:
    from chronik.storage.log import Log
    from chronik.storage.segment import Segment


Stamp = tuple[int, int]  # offset, timestamp in ms


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int  # leader epoch of the record


class Look(NamedTuple):
    """A batch to decode. Calling it touches nothing else, so any thread may do it."""

    batch: BatchView
    start_offset: int
    timestamp_ms: int | None  # None: find the first record with the largest time

    def __call__(self) -> Stamp | None:
        found = records.iterate(self.batch, DECOMPRESSED_BYTES_MAX)
        stamps = ((record.offset, record.timestamp) for record in found if record.offset >= self.start_offset)
        wanted_ms = self.timestamp_ms
        if wanted_ms is None:
            return max(stamps, key=_timestamp_ms, default=None)
        return next((stamp for stamp in stamps if stamp[1] >= wanted_ms), None)


Lookup = Generator[Look, Stamp | None, TimestampedOffset | None]


def first_at_or_after(log: Log, timestamp_ms: int, offset_limit: int) -> Lookup:
    """The first record, by offset, whose timestamp is at or after the time; None if there is none."""
    start_offset = log.start_offset
    while (batch := _first_that_may(log.segments, timestamp_ms, start_offset, offset_limit)) is not None:
        found = yield Look(batch, start_offset, timestamp_ms)
        if found is not None:
            return _known(log, found) if found[0] < offset_limit else None
        check(batch.next_offset > start_offset, "25 a search by time gets on", log=log, offset=start_offset)
        start_offset = batch.next_offset
    return None


def latest(log: Log) -> Lookup:
    """The first of the records with the largest timestamp at or above the log's start."""
    largest_ms = max([segment.max_timestamp_ms for segment in log.segments], default=-1)
    if largest_ms < 0:
        return None
    found = yield from first_at_or_after(log, largest_ms, 2**63 - 1)
    # If there is none, it is below the start.
    return found if found is not None else (yield from _latest_by_headers(log))


def _latest_by_headers(log: Log) -> Lookup:
    """The header of the batch at the start also covers records below it, so one look may not suffice."""
    start_offset = log.start_offset
    best: Stamp | None = None
    looked_into: set[int] = set()
    while (batch := _latest_that_may(log.segments, start_offset, best[1] if best else -1, looked_into)) is not None:
        looked_into.add(batch.base_offset)
        found = yield Look(batch, start_offset, None)
        if found is not None and (best is None or found[1] > best[1]):
            best = found
    return None if best is None else _known(log, best)


def _first_that_may(
    segments: Iterable[Segment], timestamp_ms: int, start_offset: int, offset_limit: int
) -> BatchView | None:
    """The first batch that may hold a record at or after the time, according to its header."""
    for segment in segments:
        if segment.base_offset >= offset_limit:
            return None
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        by_time = segment.index.before_timestamp(timestamp_ms)
        by_offset = segment.index.before_offset(start_offset - segment.base_offset)
        for position, header in segment.headers_from(max(by_time, by_offset)):
            if header.base_offset >= offset_limit:
                return None
            if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset and header.record_count:
                return segment.batch_at(position, header)
    return None


def _latest_that_may(
    segments: Iterable[Segment], start_offset: int, above_ms: int, except_at: set[int]
) -> BatchView | None:
    """The first of the batches with the largest time above `above_ms`, according to their headers."""
    best: tuple[Segment, int, BatchView] | None = None
    for segment in sorted(segments, key=lambda each: each.max_timestamp_ms, reverse=True):
        if segment.max_timestamp_ms <= above_ms:
            break
        for position, header in segment.headers():
            if header.last_offset < start_offset or header.base_offset in except_at or not header.record_count:
                continue
            if header.max_timestamp > above_ms:
                best, above_ms = (segment, position, header), header.max_timestamp
    return None if best is None else best[0].batch_at(best[1], best[2])


def _known(log: Log, stamp: Stamp) -> TimestampedOffset:
    return TimestampedOffset(*stamp, log.epochs.epoch_of(stamp[0]))


def _timestamp_ms(stamp: Stamp) -> int:
    return stamp[1]
