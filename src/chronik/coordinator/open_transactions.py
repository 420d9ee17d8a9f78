"""Records of transactions that have not ended: part of a shard's state, which the runtime keeps.

A transactional record is in the log before its transaction is decided. It counts from the COMMIT marker on, at its own
offset; an ABORT marker drops it. A shard reads this state to decide, for example, whether an offset is stable. It does
not change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chronik.coordinator.shard import Record


class Producer(NamedTuple):
    """Whose transaction a write is part of."""

    producer_id: int
    producer_epoch: int


class OpenTransactions:
    def __init__(self) -> None:
        self._records: dict[int, list[tuple[Record, int]]] = {}  # by producer id, in the order of the log

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._records

    def records(self) -> Iterator[Record]:
        return (record for of_one in self._records.values() for record, _ in of_one)

    def add(self, producer_id: int, record: Record, offset: int) -> None:
        self._records.setdefault(producer_id, []).append((record, offset))

    def end(self, producer_id: int) -> list[tuple[Record, int]]:
        """Forgets the transaction and returns its records with their offsets. None is open: nothing."""
        return self._records.pop(producer_id, [])
