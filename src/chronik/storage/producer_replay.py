"""Producers of a log after a cut: by what is kept of their batches, else by the last checkpoint and the log itself.

Replicas of a partition may know different pasts: one has read all of the log, another only what was left of it when it
began. So what a replica says of transactions depends on records at or above the log's start alone: a transaction begins
with the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chronik.storage.errors import CorruptSegment
from chronik.storage.producer_state import ProducerState
from chronik.wire.batches import NO_PRODUCER_ID

if TYPE_CHECKING:
    from chronik.storage.log import Log

# Batches that are looked at behind a new start: a few ten milliseconds. A transaction that has none among them keeps
# its old beginning. Readers then stop at the log's start until it ends, as with Kafka.
SEARCHED_BATCHES_MAX: Final = 20_000


def rebuild_producers(log: Log) -> None:
    """As of the end. Reading is the last resort: from the beginning, if the cut is below the last checkpoint, or if
    some of what came behind that is gone."""
    offset, data = log.snapshot
    has_marker_gone = log.aborted.truncate(log.end_offset)
    if not has_marker_gone and log.producers.take_back_from(log.end_offset):
        if offset > log.end_offset:
            log.snapshot = (log.end_offset, log.producers.encode())
        return
    if offset > log.end_offset or offset < log.segments[0].base_offset:
        offset, data = log.start_offset, b""
        log.snapshot = (offset, data)
    log.producers = ProducerState.decode(data)
    replay(log, offset)
    forget_deleted(log)


def replay(log: Log, offset: int) -> None:
    """Reads from `offset` on what producers wrote."""
    for segment in log.segments[log.index_at(offset) :]:
        for position, header in segment.headers(segment.position_of(offset)):
            if header.producer_id == NO_PRODUCER_ID or header.next_offset <= offset:
                continue
            batch = segment.batch_at(position, header) if header.is_control else header
            aborted = log.producers.note_batch(batch, batch.base_offset, batch.max_timestamp)
            if aborted is not None:
                log.aborted.add(segment.base_offset, aborted)


def forget_deleted(log: Log) -> None:
    """Transactions that began before the log's start begin with the first of their batches that is left.

    Such a transaction is open at the start, so its producer's next transactional batch belongs to it, unless a marker
    comes first.
    """
    if log.damage is not None or not log.segments:
        return
    open_ones, markers = log.producers.begun_before(log.start_offset)
    if not open_ones and not markers:
        return
    try:
        ended = {_producer_at(log, marker): marker for marker in markers}
        found, is_searched = _first_batches(log, {*open_ones, *ended})
    except CorruptSegment:
        return  # a read at that place reports the damage
    for producer_id in open_ones:
        if is_searched or producer_id in found:
            log.producers.begin_later(producer_id, found.get(producer_id))
    for producer_id, marker in ended.items():
        if is_searched or producer_id in found:
            log.producers.began_later(marker, found.get(producer_id))


def _producer_at(log: Log, offset: int) -> int:
    segment = log.segments[log.index_at(offset)]
    _, header = next(segment.headers(segment.position_of(offset)))
    return header.producer_id


def _first_batches(log: Log, producer_ids: set[int]) -> tuple[dict[int, int], bool]:
    """The first transactional batch of each producer from the log's start on, if no marker comes before it. False: the
    search has ended before the log, and before all were found."""
    found: dict[int, int] = {}
    left = set(producer_ids)
    count = 0
    for segment in log.segments[log.index_at(log.start_offset) :]:
        for _, header in segment.headers(segment.position_of(log.start_offset)):
            count += 1
            if count > SEARCHED_BATCHES_MAX:
                return found, False
            if header.next_offset <= log.start_offset or header.producer_id not in left:
                continue
            if header.is_control:
                left.discard(header.producer_id)
            elif header.is_transactional:
                found[header.producer_id] = header.base_offset
                left.discard(header.producer_id)
            if not left:
                return found, True
    return found, True
