"""Which segments of a log have outlived their topic's retention. Decides, and removes nothing.

A segment goes as a whole: by time when its latest record is too old, by size when the log without it is still as large
as it may be, and always when it lies below the log's start. Only what is below the high watermark may go, oldest first.
"""

from __future__ import annotations

from chronik.storage.log import Log


def start_after_retention(log: Log, now_ms: int) -> int:
    """Where the log should start. Rolls the last segment if that one is too old too, so that a quiet topic empties."""
    if not log.config.deletes or not log.segments:
        return log.start_offset
    count = max(_too_old(log, now_ms), _too_many_bytes(log))
    if count == 0:
        return log.start_offset
    if count == len(log.segments):
        log.roll()
    return max(log.start_offset, log.segments[count].base_offset)


def _too_old(log: Log, now_ms: int) -> int:
    """How many segments from the oldest on are too old."""
    if log.config.retention_ms < 0:
        return 0
    limit_ms = now_ms - log.config.retention_ms
    count = 0
    for index, segment in enumerate(log.segments):
        if not segment.size_bytes:
            continue  # emptied by compaction: it goes with the next one that does. Or the last, which stays.
        latest_ms = segment.max_timestamp_ms
        # Without a timestamp nobody can say how old a record is, so it stays.
        if latest_ms < 0 or latest_ms >= limit_ms or not _settled(log, index):
            break
        count = index + 1
    return count


def _too_many_bytes(log: Log) -> int:
    """How many segments from the oldest on can go with retention.bytes still left. The last one never does."""
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
