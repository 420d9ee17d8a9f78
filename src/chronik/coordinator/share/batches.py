"""Merges what leaders report about records of one share partition into what is known of them.

Where two reports overlap, the higher delivery count holds, and of equal counts the higher state: a count never falls,
and a record that is done with stays done with. The order in which reports arrive does not matter. Pure functions.

Invariant: merged batches are sorted, do not overlap, and neighbours differ.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from chronik.coordinator.share.persister import UNKNOWN_OFFSET, StateBatch


def merged(known: Iterable[StateBatch], reported: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """`known` is a result of this function, or empty. Nothing before the start offset is kept."""
    found = from_start(known, start_offset)
    for batch in from_start(reported, start_offset):
        _put(found, batch)
    return found


def from_start(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    if start_offset == UNKNOWN_OFFSET:
        return list(batches)
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _put(batches: list[StateBatch], new: StateBatch) -> None:
    low = bisect_left(batches, new.first_offset - 1, key=lambda each: each.last_offset)
    high = bisect_right(batches, new.last_offset + 1, key=lambda each: each.first_offset)
    pieces: list[StateBatch] = []
    offset = new.first_offset  # of `new` up to here, everything is in `pieces`
    for old in batches[low:high]:
        _join(pieces, old._replace(last_offset=min(old.last_offset, new.first_offset - 1)))
        _join(pieces, new._replace(first_offset=offset, last_offset=min(new.last_offset, old.first_offset - 1)))
        first, last = max(old.first_offset, new.first_offset), min(old.last_offset, new.last_offset)
        stronger = new if _rank(new) >= _rank(old) else old
        _join(pieces, stronger._replace(first_offset=first, last_offset=last))
        _join(pieces, old._replace(first_offset=max(old.first_offset, new.last_offset + 1)))
        offset = max(offset, min(old.last_offset, new.last_offset) + 1)
    _join(pieces, new._replace(first_offset=offset))
    batches[low:high] = pieces


def _join(pieces: list[StateBatch], batch: StateBatch) -> None:
    """Appends a piece that is not empty, to the last one if it says the same."""
    if batch.first_offset > batch.last_offset:
        return
    if pieces and pieces[-1].last_offset + 1 == batch.first_offset and _rank(pieces[-1]) == _rank(batch):
        pieces[-1] = pieces[-1]._replace(last_offset=batch.last_offset)
    else:
        pieces.append(batch)


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state
