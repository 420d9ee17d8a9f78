"""Determines which segments of a log have exceeded their topic's retention. Removes nothing.

A segment is removed as a whole: by time when its latest record is too old, by size when the log without it still has
the allowed size, and always when it is below the log's start. Only data below the high watermark may be removed, oldest
first.

The time of a segment's latest record is the largest timestamp of its records, as in Kafka. For a record without a
timestamp, the time of its append counts, so a segment with such a record stays until its last append is too old. Batch
headers hold the largest timestamp too, but clients write them, and some write 0 or the time of the last record. So a
header can keep a segment, but is not enough to remove it:

- The header has a recent enough timestamp: the segment stays.
- The last append is too old as well: the segment is removed. Every record in it has been kept for the whole time.
- Otherwise the records decide. `prove` reads them outside the event loop, each byte once, and stops at the first record
  that keeps the segment. This is only needed for old records that were written recently, and for wrong headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from chronik.runtime.interfaces import File, Lane
from chronik.runtime.invariants import check
from chronik.storage.config import DECOMPRESSED_BYTES_MAX
from chronik.storage.log import Log
from chronik.storage.segment import Segment
from chronik.wire import records
from chronik.wire.batches import HEADER, HEADER_BYTES, LENGTH_COVERS_FROM, BatchView, crc_holds, split
from chronik.wire.errors import WireError

READ_BYTES = 1 << 20  # per read; at least one batch
AS_ITS_FILE = 1 << 62  # for a record without a timestamp: the last append determines the age


def start_after_retention(log: Log, now_ms: int) -> int:
    """Returns where the log should start. Rolls the last segment if it is too old as well, so that an idle topic
    empties."""
    if not log.config.deletes or not log.segments:
        return log.start_offset
    count = max(_too_old(log, now_ms), _too_many_bytes(log))
    if count == 0:
        return log.start_offset
    if count == len(log.segments):
        log.roll()
    check(
        log.segments[count].base_offset <= log.high_watermark,
        "7 retention removes only what is committed",
        log=log,
        start=log.segments[count].base_offset,
        high_watermark=log.high_watermark,
    )
    check(
        log.segments[count].base_offset <= log.end_offset,
        "10 a log does not start behind its end",
        log=log,
        start=log.segments[count].base_offset,
    )
    return max(log.start_offset, log.segments[count].base_offset)


def roll_untimed(log: Log, now_ms: int) -> None:
    """Rolls the last segment if it has held records without a timestamp for segment.ms.

    An append rolls by record timestamps. Without timestamps, a topic with few records would keep using one segment,
    whose last append is always recent, and never delete anything.
    """
    if not log.config.deletes or not log.segments:
        return
    segment = log.segments[-1]
    if not segment.size_bytes or segment.proven_ms != AS_ITS_FILE:
        return
    if segment.untimed_since_ms is None:
        segment.untimed_since_ms = now_ms
    elif now_ms - segment.untimed_since_ms > log.config.segment_ms:
        log.roll()


async def prove(log: Log, now_ms: int, lane: Lane) -> None:
    """Reads the records of segments that `start_after_retention` cannot judge without them.

    Raises CorruptSegment for damaged bytes. Returns early if the log changes meanwhile.
    """
    if not log.config.deletes:
        return
    for segment in _unproven(log, now_ms):
        if not await _prove(log, segment, now_ms - log.config.retention_ms, lane):
            return


def _unproven(log: Log, now_ms: int) -> Iterator[Segment]:
    """In order, as long as the earlier ones are removed. Each segment only once, because the last one may grow faster
    than it is read."""
    last: Segment | None = None
    while True:
        count = _too_old(log, now_ms)
        segment = next((each for each in log.segments[count:] if each.size_bytes), None)
        if segment is None or log.config.retention_ms < 0 or not _settled(log, log.segments.index(segment)):
            return
        limit_ms = now_ms - log.config.retention_ms
        if segment.max_timestamp_ms >= limit_ms or segment.proven_ms >= limit_ms:
            return
        if segment is last or segment.proven_bytes == segment.size_bytes:
            return
        last = segment
        yield segment


async def _prove(log: Log, segment: Segment, limit_ms: int, lane: Lane) -> bool:
    """Reads to the end, or to a record that is recent enough. Returns False if the log changed or nothing could be
    read."""
    generation, end = log.generation, segment.size_bytes
    while segment.proven_bytes < end and segment.proven_ms < limit_ms:
        start = segment.proven_bytes
        seen = await lane.run(partial(_see, segment.file, start, end))
        if log.generation != generation or log.deleted or segment not in log.segments:
            return False
        if seen.end == start:
            for position, header in segment.headers(start):
                segment.batch_at(position, header)  # raises an error that says what is wrong with the batch
                break
            return False
        check(
            start < seen.end <= segment.size_bytes,
            "28 retention reads from boundary to boundary",
            path=segment.path,
            start=start,
            end=seen.end,
            size=segment.size_bytes,
        )
        segment.proven_bytes, segment.proven_ms = seen.end, max(segment.proven_ms, seen.largest_ms)
    return True


class _Seen(NamedTuple):
    end: int  # end of the batches that were read
    largest_ms: int


def _see(file: File, start: int, end: int) -> _Seen:
    """Reads whole batches from `start` on, about READ_BYTES. Uses only the file, so any thread may call it."""
    data = file.read(start, min(READ_BYTES, end - start))
    if len(data) >= HEADER_BYTES:
        first_bytes = HEADER.unpack_from(data)[1] + LENGTH_COVERS_FROM
        if len(data) < first_bytes <= end - start:
            data = file.read(start, first_bytes)
    position, largest_ms = start, records.NO_TIMESTAMP
    try:
        batches = split(data, cut_tail=True)
    except WireError:
        return _Seen(start, largest_ms)
    for batch in batches:
        if not crc_holds(batch):
            break
        largest_ms = max(largest_ms, _largest_ms(batch))
        position += batch.size_bytes
    return _Seen(position, largest_ms)


def _largest_ms(batch: BatchView) -> int:
    if batch.record_count <= 0 or batch.is_control:
        return batch.max_timestamp  # written by a broker
    try:
        smallest_ms, largest_ms = records.timestamp_range(batch, DECOMPRESSED_BYTES_MAX)
    except WireError:
        return AS_ITS_FILE  # these records are unreadable, so their age is unknown
    return largest_ms if smallest_ms >= 0 else AS_ITS_FILE


def _too_old(log: Log, now_ms: int) -> int:
    """The number of segments, from the oldest, that are too old."""
    if log.config.retention_ms < 0:
        return 0
    limit_ms = now_ms - log.config.retention_ms
    count = 0
    for index, segment in enumerate(log.segments):
        if not segment.size_bytes:
            continue  # emptied by compaction: removed with the next one; the last segment stays
        if not _settled(log, index) or not _is_too_old(segment, limit_ms):
            break
        count = index + 1
    return count


def _is_too_old(segment: Segment, limit_ms: int) -> bool:
    if segment.max_timestamp_ms >= limit_ms:
        return False
    if segment.modified_ms() < limit_ms:
        return True
    return segment.proven_bytes == segment.size_bytes and segment.proven_ms < limit_ms


def _too_many_bytes(log: Log) -> int:
    """The number of segments, from the oldest, that can be removed with retention.bytes still left. Never includes the
    last one."""
    if log.config.retention_bytes < 0:
        return 0
    excess_bytes = log.size_bytes - log.config.retention_bytes
    count = 0
    for index, segment in enumerate(log.segments[:-1]):
        excess_bytes -= segment.size_bytes
        if excess_bytes < 0 or not _settled(log, index):
            break
        count += 1
    return count


def _settled(log: Log, index: int) -> bool:
    end = log.segments[index + 1].base_offset if index + 1 < len(log.segments) else log.end_offset
    return end <= log.high_watermark
