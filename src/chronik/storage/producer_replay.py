"""Restores a log's producers after a truncation: from their kept batches, else from the last checkpoint and the log.

Replicas of a partition may know different parts of the log: one has read all of it, another only what retention had
left when it started. So a replica's statements about transactions depend only on records at or above the log's start: a
transaction begins with its first remaining record.

Reading a large log takes many seconds. So a truncation that needs it is prepared: `preparing_cut` reads in small steps
before the truncation, which then uses the result. Records before the truncation point never change, so the log may grow
meanwhile. Another truncation makes the preparation void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.runtime.pieces import Work
from chronik.storage.errors import CorruptSegment
from chronik.storage.producer_state import ProducerState
from chronik.wire.batches import NO_PRODUCER_ID

if TYPE_CHECKING:
    from chronik.storage.log import Log

# The number of batches to search after a new log start, which takes a few tens of milliseconds. A transaction without a
# batch among them keeps its old first offset. Readers then stop at the log's start until the transaction ends, as in
# Kafka.
SEARCHED_BATCHES_MAX: Final = 20_000


# Up to this many records are read again at once: a few tens of milliseconds if each is a batch of its own.
AT_ONCE_RECORDS_MAX: Final = 2_000
BATCHES_PER_STEP: Final = 16


class PreparedCut(NamedTuple):
    """The producers as of `offset`, read from a log that had been truncated `generation` times."""

    offset: int
    generation: int
    # None: the log could not be read. The truncation reads it again and reports the damage.
    producers: ProducerState | None


def preparing_cut(log: Log, offset: int) -> Work[None] | None:
    """Work to run in slices before the log is truncated at `offset`, the start of a batch. None: no work is needed."""
    has_marker_behind = log.aborted.last_offset >= offset or not log.aborted.is_whole
    if not has_marker_behind and log.producers.may_take_back_from(offset):
        return None
    if _is_prepared(log, offset, log.generation):
        return None
    begin_offset, _ = _replayed_from(log, offset)
    return _prepare(log, offset) if offset - begin_offset > AT_ONCE_RECORDS_MAX else None


def _prepare(log: Log, offset: int) -> Work[None]:
    generation = log.generation
    begin_offset, data = _replayed_from(log, offset)
    producers = ProducerState.decode(data)
    yield 1
    count = 0
    try:
        for segment in log.segments[log.index_at(begin_offset) :]:
            for position, header in segment.headers(segment.position_of(begin_offset)):
                if header.base_offset >= offset:
                    break
                if header.producer_id != NO_PRODUCER_ID and header.next_offset > begin_offset:
                    batch = segment.batch_at(position, header) if header.is_control else header
                    producers.note_batch(batch, batch.base_offset, batch.max_timestamp)
                count += 1
                if count % BATCHES_PER_STEP == 0:
                    yield BATCHES_PER_STEP
                    if log.generation != generation:
                        return
    except CorruptSegment:
        log.prepared_cut = PreparedCut(offset, generation, None)
        return
    log.prepared_cut = PreparedCut(offset, generation, producers)


def _is_prepared(log: Log, offset: int, generation: int) -> bool:
    prepared = log.prepared_cut
    return prepared is not None and prepared[:2] == (offset, generation)


def _replayed_from(log: Log, end_offset: int) -> tuple[int, bytes]:
    """Where to start reading for the producers as of `end_offset`, and the producers' state there."""
    offset, data = log.snapshot
    if offset > end_offset or offset < log.segments[0].base_offset:
        return log.start_offset, b""
    return offset, data


def rebuild_producers(log: Log) -> None:
    """Restores the producers as of the end, where the log was just truncated. If the kept batches do not suffice, reads
    the log: from the last checkpoint, or from the beginning if the truncation is below it or records after it are gone.
    """
    is_prepared = _is_prepared(log, log.end_offset, log.generation - 1)
    prepared, log.prepared_cut = log.prepared_cut, None
    has_marker_gone = log.aborted.truncate(log.end_offset)
    if not has_marker_gone and log.producers.take_back_from(log.end_offset):
        if log.snapshot[0] > log.end_offset:
            log.snapshot = (log.end_offset, log.producers.encode())
        return
    if is_prepared and prepared is not None and prepared.producers is not None:
        log.producers = prepared.producers
        log.snapshot = (log.end_offset, log.producers.encode())
    else:
        offset, data = log.snapshot = _replayed_from(log, log.end_offset)
        log.producers = ProducerState.decode(data)
        replay(log, offset)
    forget_deleted(log)


def replay(log: Log, offset: int) -> None:
    """Adds the batches of producers from `offset` on."""
    for segment in log.segments[log.index_at(offset) :]:
        for position, header in segment.headers(segment.position_of(offset)):
            if header.producer_id == NO_PRODUCER_ID or header.next_offset <= offset:
                continue
            batch = segment.batch_at(position, header) if header.is_control else header
            aborted = log.producers.note_batch(batch, batch.base_offset, batch.max_timestamp)
            if aborted is not None:
                log.aborted.add(segment.base_offset, aborted)


def forget_deleted(log: Log) -> None:
    """Moves the first offset of transactions that began before the log's start to their first remaining batch.

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
    log.producers.begin_later(
        {each: found.get(each) for each in open_ones if is_searched or each in found},
    )
    for producer_id, marker in ended.items():
        if is_searched or producer_id in found:
            log.producers.began_later(marker, found.get(producer_id))


def _producer_at(log: Log, offset: int) -> int:
    segment = log.segments[log.index_at(offset)]
    _, header = next(segment.headers(segment.position_of(offset)))
    return header.producer_id


def _first_batches(log: Log, producer_ids: set[int]) -> tuple[dict[int, int], bool]:
    """The first transactional batch of each producer at or after the log's start, if no marker comes before it. False:
    the search reached its limit before it found all."""
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
