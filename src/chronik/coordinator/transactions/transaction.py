"""The state of one transactional id, as a value, and its record in `__transaction_state`.

The record is Kafka's (TransactionLogValue v0 and v1), so the topic can be read by Kafka's tools and by another broker.
A `Transaction` is immutable: a transition creates a new one (see `transitions`).

State            follows                                        meaning
EMPTY            EMPTY, COMPLETE_*                              an id and an epoch were handed out
ONGOING          EMPTY, ONGOING, COMPLETE_*                     at least one partition was added
PREPARE_COMMIT   ONGOING                                        decided: markers are being written
PREPARE_ABORT    ONGOING, and EMPTY, COMPLETE_* with epoch bump decided: markers are being written
COMPLETE_*       PREPARE_*                                      every marker is committed
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from chronik.coordinator.shard import CoordinatorRecord, RecordType
from chronik.wire.batches import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from chronik.wire.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

RECORD_TYPES: Final = {TransactionLogKey.record_type: RecordType(TransactionLogKey, TransactionLogValue)}
EPOCH_MAX: Final = 2**15 - 1
# The last epoch that clients get. The next one is reserved for fencing.
CLIENT_EPOCH_MAX: Final = EPOCH_MAX - 1
NO_TIME: Final = -1
NEVER_MS: Final = 2**31 - 1  # the timeout with two-phase commit: only the client ends the transaction
EPOCH_BUMP_SINCE: Final = 2  # level of transaction.version: each transaction of a producer has a separate epoch

TopicPartition = tuple[str, int]


class State(IntEnum):
    """The numbers in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """The name in ListTransactions and DescribeTransactions."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


_LABELS: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in State}
# Kafka has these states as well. They are never in the log, and no transaction here is in them.
OTHER_LABELS: Final = ("Dead", "PrepareEpochFence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID  # before the last transition
    next_producer_id: int = NO_PRODUCER_ID  # for the next transaction, when the current id has no epochs left
    producer_epoch: int
    last_producer_epoch: int = NO_PRODUCER_EPOCH  # before the last bump; not in the log
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    last_update_ms: int
    client_version: int = 0  # transaction.version of the client's last request

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    @property
    def has_epoch_bump(self) -> bool:
        return self.client_version >= EPOCH_BUMP_SINCE

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= CLIENT_EPOCH_MAX

    @property
    def has_not_ended(self) -> bool:
        return self.state is State.ONGOING or self.state.is_prepared

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NEVER_MS


def to_record(transaction: Transaction, transaction_version: int) -> CoordinatorRecord:
    """`transaction_version` is the cluster's feature level: from 1 on the record has tagged fields."""
    partitions = None
    if transaction.state is not State.EMPTY:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(transaction.partitions):
            topics.setdefault(topic, []).append(index)
        partitions = [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return CoordinatorRecord(
        TransactionLogKey(transactional_id=transaction.transactional_id), value, min(transaction_version, 1)
    )


def removal(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def from_record(transactional_id: str, value: TransactionLogValue) -> Transaction:
    partitions = frozenset(
        (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
    )
    transaction = Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=State(value.transaction_status),
        partitions=partitions,
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
    return replace(transaction, last_producer_epoch=_epoch_before(transaction))


def _epoch_before(transaction: Transaction) -> int:
    """The epoch before the last bump is not in the log. With epoch bump, it follows from the state of the
    transaction."""
    if not transaction.has_epoch_bump or not (transaction.state.is_prepared or transaction.state.is_complete):
        return NO_PRODUCER_EPOCH
    return transaction.producer_epoch - 1 if transaction.producer_epoch else CLIENT_EPOCH_MAX
