"""Invariants between a log's offsets, marks and segments, checked after truncation, adoption or replacement.

Not used by appends and reads, which check what they touch. Reads nothing from disk and changes nothing. A damaged log
keeps its offsets without the files, so only its offsets are checked.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from chronik.runtime.invariants import broken

if TYPE_CHECKING:
    from chronik.storage.log import Log


def check_log(log: Log) -> None:
    end = log.end_offset
    if not 0 <= log.start_offset <= end:
        broken("10 a log does not start behind its end", log=log, start=log.start_offset, end=end)
    if log.durable_offset > end:
        broken("10 nothing is durable that was not written", log=log, durable=log.durable_offset, end=end)
    if log.high_watermark > end:
        broken("10 nothing is committed that was not written", log=log, high_watermark=log.high_watermark, end=end)
    if log.deleted and log.segments:
        broken("30 a deleted log has no segments", log=log, segments=len(log.segments))
    if log.damage is None and log.segments:
        _check_marks(log)
        _check_segments(log)


def _check_marks(log: Log) -> None:
    end, last = log.end_offset, log.segments[-1].base_offset
    if log.compacted_offset > end:
        broken("28 compaction stays below the end", log=log, compacted=log.compacted_offset, end=end)
    if log.checkpointed_segment > last:
        broken("28 a checkpoint names a segment of the log", log=log, segment=log.checkpointed_segment, last=last)
    if log.snapshot[0] > end:
        broken("13 a snapshot of producers is of written batches", log=log, snapshot=log.snapshot[0], end=end)
    if not log.has_directory:
        broken("28 a log with segments has a directory", log=log, segments=len(log.segments))
    epochs = log.epochs.entries()
    for (epoch, start), (later, later_start) in pairwise(epochs):
        if epoch >= later or start >= later_start:
            broken("11 leader epochs rise with offsets", log=log, epoch=epoch, start=start, next=later)
    if epochs and epochs[-1][1] > end:
        broken("11 no epoch begins behind the log's end", log=log, epoch=epochs[-1][0], start=epochs[-1][1])
    if epochs and epochs[-1][0] != log.epochs.latest:
        broken("11 the latest epoch is the last one", log=log, latest=log.epochs.latest, last=epochs[-1][0])
    for producer_id, producer in log.producers.producers.items():
        if producer.transaction_first_offset >= end:
            broken("14 a transaction's records are in the log", log=log, producer=producer_id)
        if producer.batches and producer.batches[-1].last_offset >= end:
            broken("13 a producer's batches are in the log", log=log, producer=producer_id)


def _check_segments(log: Log) -> None:
    if log.segments[0].base_offset > log.start_offset:
        broken("7 the log's files reach back to its start", log=log, first=log.segments[0].base_offset)
    if log.segments[-1].base_offset > log.end_offset:
        broken("28 segments begin within the log", log=log, last=log.segments[-1].base_offset)
    before = None
    for segment in log.segments:
        if before is not None:
            if before.base_offset >= segment.base_offset:
                broken("28 segments follow each other", log=log, base=before.base_offset, next=segment.base_offset)
            if segment.durable_bytes and before.durable_bytes < before.size_bytes:
                broken("10 what is durable has no hole", log=log, segment=before.base_offset, next=segment.base_offset)
        if segment.durable_bytes > segment.size_bytes:
            broken("10 nothing is durable that was not written", path=segment.path, durable=segment.durable_bytes)
        if segment.synced_bytes > segment.size_bytes:
            broken("21 nothing is synced that was not written", path=segment.path, synced=segment.synced_bytes)
        before = segment
