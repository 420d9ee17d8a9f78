"""Records of transactions that have not ended: part of a shard's state, which the runtime keeps.

A transactional record is in the log before its transaction is decided. A COMMIT marker makes it take effect, at the
record's own offset; an ABORT marker drops it. A shard reads this state to decide, for example, whether an offset is
stable, and does not change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chronik.coordinator.shard import CoordinatorRecord
from chronik.storage.transaction_guards import Guard
from chronik.wire import batches, records


class Producer(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


class Transaction(NamedTuple):
    """What a write needs to be part of a producer's transaction.

    The log accepts the first write of a transaction only with a `guard` that was created before the transaction's
    coordinator was asked. None: the transaction is open in this partition already.
    """

    producer: Producer
    guard: Guard | None = None


class OpenTransactions:
    def __init__(self) -> None:
        self._records: dict[int, list[tuple[CoordinatorRecord, int]]] = {}  # by producer id, in log order

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._records

    def records(self) -> Iterator[CoordinatorRecord]:
        return (record for of_one in self._records.values() for record, _ in of_one)

    def add(self, producer_id: int, record: CoordinatorRecord, offset: int) -> None:
        self._records.setdefault(producer_id, []).append((record, offset))

    def end(self, producer_id: int) -> list[tuple[CoordinatorRecord, int]]:
        """Forgets the transaction and returns its records with their offsets; an empty list if none is open."""
        return self._records.pop(producer_id, [])


def transactional_batch(encoded: list[records.Record], producer: Producer) -> bytes:
    """A coordinator's batches have no sequence numbers: each begins with sequence 0, as in Kafka."""
    return batches.build(
        encoded,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )


def marker_batch(producer: Producer, outcome: records.ControlType, coordinator_epoch: int, now_ms: int) -> bytes:
    """The batch that ends a producer's transaction on one partition."""
    return batches.build(
        [records.marker(0, now_ms, outcome, coordinator_epoch)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=batches.NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
    )
