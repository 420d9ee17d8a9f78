"""Producers of a log after a cut: by what is kept of their batches, else by the last checkpoint and the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.storage.producer_state import ProducerState
from chronik.wire.batches import NO_PRODUCER_ID

if TYPE_CHECKING:
    from chronik.storage.log import Log


def rebuild_producers(log: Log) -> None:
    """As of the end. Reading is the last resort: from the beginning, if the cut is below the last checkpoint, or if
    some of what came behind that is gone."""
    offset, data = log.snapshot
    if log.producers.take_back_from(log.end_offset):
        if offset > log.end_offset:
            log.snapshot = (log.end_offset, log.producers.encode())
        return
    if offset > log.end_offset or offset < log.segments[0].base_offset:
        offset, data = log.start_offset, b""
        log.snapshot = (offset, data)
    log.producers = ProducerState.decode(data)
    replay(log, offset)


def replay(log: Log, offset: int) -> None:
    """Reads from `offset` on what producers wrote."""
    for segment in log.segments[log.index_at(offset) :]:
        for position, header in segment.headers(segment.position_of(offset)):
            if header.producer_id == NO_PRODUCER_ID or header.base_offset < offset:
                continue
            batch = segment.batch_at(position, header) if header.is_control else header
            log.producers.note_batch(batch, batch.base_offset, batch.max_timestamp)
