"""Changes of a share partition's state that are written together: of each record the last one counts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from chronik.coordinator.share.persister import StateBatch


def latest(changes: Iterable[Iterable[StateBatch]]) -> list[StateBatch]:
    """In the order of offsets, without overlaps. Later changes are written over earlier ones."""
    kept: list[StateBatch] = []
    for batches in changes:
        for batch in batches:
            _write_over(kept, batch)
    return kept


def _write_over(kept: list[StateBatch], batch: StateBatch) -> None:
    begin = bisect_left(kept, batch.first_offset, key=_last)
    end = bisect_right(kept, batch.last_offset, key=_first)
    parts = [batch]
    if begin < end:
        if kept[begin].first_offset < batch.first_offset:
            parts.insert(0, kept[begin]._replace(last_offset=batch.first_offset - 1))
        if batch.last_offset < kept[end - 1].last_offset:
            parts.append(kept[end - 1]._replace(first_offset=batch.last_offset + 1))
    kept[begin:end] = parts


def _first(batch: StateBatch) -> int:
    return batch.first_offset


def _last(batch: StateBatch) -> int:
    return batch.last_offset
