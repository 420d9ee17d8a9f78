"""Producers of a log after a cut: by what is kept of their batches, else by the last checkpoint and the log itself.

Replicas of a partition may know different pasts: one has read all of the log, another only what was left of it when it
began. So what a replica says of transactions depends on records at or above the log's start alone: a transaction begins
with the first of them.

Reading a large log takes many seconds. So a cut that needs it is prepared: `preparing_cut` reads in small steps while
the log is still whole, and the cut then takes what it found. What lies before a cut never changes, so the log may grow
meanwhile; another cut makes the preparation void.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.runtime.pieces import Work
from chronik.storage.errors import CorruptSegment
from chronik.storage.producer_state import ProducerState
from chronik.wire.batches import NO_PRODUCER_ID

if TYPE_CHECKING:
    from chronik.storage.log import Log

# Batches that are looked at behind a new start: a few ten milliseconds. A transaction that has none among them keeps
# its old beginning. Readers then stop at the log's start until it ends, as with Kafka.
SEARCHED_BATCHES_MAX: Final = 20_000


# Records that are read again at once: a few ten milliseconds if each is a batch of its own.
AT_ONCE_RECORDS_MAX: Final = 2_000
BATCHES_PER_STEP: Final = 16


class PreparedCut(NamedTuple):
    """The producers as of `offset`, read from a log that had been cut `generation` times."""

    offset: int
    generation: int
    producers: ProducerState | None  # None: the log could not be read, so the cut reads it and meets the damage


def preparing_cut(log: Log, offset: int) -> Work[None] | None:
    """What has to be done in turns before the log is cut at `offset`, at the beginning of a batch. None: nothing."""
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
    """Where reading begins for the producers as of `end_offset`, and what they were there."""
    offset, data = log.snapshot
    if offset > end_offset or offset < log.segments[0].base_offset:
        return log.start_offset, b""
    return offset, data


def rebuild_producers(log: Log) -> None:
    """As of the end, where the log was just cut. Reading is the last resort: from the beginning, if the cut is below
    the last checkpoint, or if some of what came behind that is gone."""
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
