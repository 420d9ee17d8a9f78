"""Which record a time means. Reads segments, changes nothing.

Timestamps are the producers' and need not rise, so "the first record at or after a time" is found exactly: the index
says before which byte no record can match, batch headers say which batch holds one, and the batch itself says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chronik.storage.leader_epochs import LeaderEpochs
from chronik.storage.segment import Segment
from chronik.wire import records
from chronik.wire.batches import BatchView

DECOMPRESSED_BYTES_MAX = 64 << 20


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int  # that of the record


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, offset_limit: int, epochs: LeaderEpochs
) -> TimestampedOffset | None:
    """The first record, in the order of offsets, whose timestamp is not below; None if there is none."""
    for segment in segments:
        if segment.base_offset >= offset_limit:
            return None
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        for position, header in segment.headers_from(segment.index.before_timestamp(timestamp_ms)):
            if header.base_offset >= offset_limit:
                return None
            if header.max_timestamp < timestamp_ms or header.last_offset < start_offset or not header.record_count:
                continue
            found = _first_inside(segment.batch_at(position, header), timestamp_ms, start_offset)
            if found is not None:
                if found[0] >= offset_limit:
                    return None
                return TimestampedOffset(found[0], found[1], epochs.epoch_of(found[0]))
    return None


def latest(segments: Sequence[Segment], start_offset: int, epochs: LeaderEpochs) -> TimestampedOffset | None:
    """The first of the records with the largest timestamp at or above `start_offset`."""
    while segments:
        largest_ms = max([segment.max_timestamp_ms for segment in segments])
        if largest_ms < 0:
            return None
        found = first_at_or_after(segments, largest_ms, start_offset, 2**63 - 1, epochs)
        if found is not None:
            return found
        # The largest lies below the start: only the first segment can hold such records.
        return _latest_by_walking(segments, start_offset, epochs)
    return None


def _latest_by_walking(
    segments: Sequence[Segment], start_offset: int, epochs: LeaderEpochs
) -> TimestampedOffset | None:
    best: TimestampedOffset | None = None
    for segment in segments:
        for position, header in segment.headers():
            known_ms = best.timestamp_ms if best is not None else -1
            if header.last_offset < start_offset or header.max_timestamp <= known_ms or not header.record_count:
                continue
            for offset, timestamp_ms in _stamps(segment.batch_at(position, header)):
                if offset >= start_offset and timestamp_ms > (best.timestamp_ms if best is not None else -1):
                    best = TimestampedOffset(offset, timestamp_ms, epochs.epoch_of(offset))
    return best


def _first_inside(batch: BatchView, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    for offset, stamp_ms in _stamps(batch):
        if stamp_ms >= timestamp_ms and offset >= start_offset:
            return offset, stamp_ms
    return None


def _stamps(batch: BatchView) -> list[tuple[int, int]]:
    return [(record.offset, record.timestamp) for record in records.iterate(batch, DECOMPRESSED_BYTES_MAX)]
