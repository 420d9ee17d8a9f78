"""The effect of each request on a transaction. Pure functions: a value and a request in, a new value or an error out.

The order of the checks is Kafka's, because clients react to the first error. `is_pending` says that the last transition
is not finished: its record is not committed yet, or markers are being written. The client then gets
CONCURRENT_TRANSACTIONS and retries.

A transition that needs a new producer id returns NEEDS_PRODUCER_ID if none was given. The caller gets one and decides
again, because the transaction may have changed meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from chronik.coordinator.transactions.transaction import (
    CLIENT_EPOCH_MAX,
    EPOCH_BUMP_SINCE,
    EPOCH_MAX,
    NO_TIME,
    State,
    TopicPartition,
    Transaction,
)
from chronik.wire.batches import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from chronik.wire.error_codes import ErrorCode


class Needs(Enum):
    PRODUCER_ID = 0


NEEDS_PRODUCER_ID: Final = Needs.PRODUCER_ID
# A transition to write; or the reason why there is none (NONE: nothing to do); or a need for a producer id.
Outcome = Transaction | ErrorCode | Needs


class Producer(NamedTuple):
    """The producer id and epoch in a request."""

    producer_id: int
    epoch: int


# --- InitProducerId


def initialize(
    current: Transaction | None,
    transactional_id: str,
    expected: Producer | None,
    *,
    timeout_ms: int,
    is_pending: bool,
    transaction_version: int,
    new_producer_id: int | None,
    now_ms: int,
) -> Outcome:
    """`expected` is the id and epoch that the producer wants to continue with, if any.

    A result in PREPARE_ABORT fences the producer of an ongoing transaction: once it is written, the client gets
    CONCURRENT_TRANSACTIONS and retries.
    """
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current is None:
        if new_producer_id is None:
            return NEEDS_PRODUCER_ID
        return Transaction(
            transactional_id=transactional_id,
            producer_id=new_producer_id,
            previous_producer_id=new_producer_id,
            producer_epoch=0,
            timeout_ms=timeout_ms,
            last_update_ms=now_ms,
        )
    if expected is not None and not _may_go_on(current, expected):
        return ErrorCode.PRODUCER_FENCED
    if current.state is State.ONGOING:
        return fence(current, transaction_version=transaction_version, new_producer_id=new_producer_id, now_ms=now_ms)
    fresh = replace(
        current,
        previous_producer_id=current.producer_id,
        state=State.EMPTY,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME,
        last_update_ms=now_ms,
    )
    is_current = expected is not None and expected.epoch == current.producer_epoch
    if current.is_epoch_exhausted and (expected is None or is_current):
        if new_producer_id is None:
            return NEEDS_PRODUCER_ID
        last_epoch = current.producer_epoch if is_current else NO_PRODUCER_EPOCH
        return replace(fresh, producer_id=new_producer_id, producer_epoch=0, last_producer_epoch=last_epoch)
    if expected is None or is_current:
        last_epoch = current.producer_epoch if is_current else NO_PRODUCER_EPOCH
        return replace(fresh, producer_epoch=current.producer_epoch + 1, last_producer_epoch=last_epoch)
    if expected.epoch == current.last_producer_epoch:
        return fresh  # a retry: no other producer has initialized since
    return ErrorCode.PRODUCER_FENCED


def _may_go_on(current: Transaction, expected: Producer) -> bool:
    """Whether the id is current; or is the previous one, whose epochs were used up: then the response was lost."""
    if expected.producer_id == current.producer_id:
        return True
    return expected.producer_id == current.previous_producer_id and expected.epoch >= CLIENT_EPOCH_MAX


def fence(
    current: Transaction, *, transaction_version: int, new_producer_id: int | None, now_ms: int
) -> Transaction | Needs:
    """Aborts an ongoing transaction on behalf of the coordinator, with an epoch that its producer does not have.

    It is computed from the committed state, so that a fence whose write failed does not raise the epoch twice.
    """
    if transaction_version >= EPOCH_BUMP_SINCE:
        return _decide(current, State.PREPARE_ABORT, transaction_version, new_producer_id, now_ms)
    return replace(
        current,
        previous_producer_id=current.producer_id,
        state=State.PREPARE_ABORT,
        producer_epoch=min(current.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        next_producer_id=NO_PRODUCER_ID,
        last_update_ms=now_ms,
        client_version=0,
    )


# --- AddPartitionsToTxn, AddOffsetsToTxn


def add_partitions(
    current: Transaction | None,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    *,
    client_version: int,
    is_pending: bool,
    now_ms: int,
) -> Transaction | ErrorCode:
    if is_pending:
        # This comes before the check of the id: the producer may already have the next id, which is not committed yet.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if error := _wrong_producer(current, producer):
        return error
    if current.state is State.ONGOING and partitions <= current.partitions:
        return ErrorCode.NONE
    return replace(
        current,
        previous_producer_id=current.producer_id,
        state=State.ONGOING,
        partitions=current.partitions | partitions,
        start_ms=current.start_ms if current.state is State.ONGOING else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def verify_partitions(
    current: Transaction | None, producer: Producer, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Whether the partitions are in the ongoing transaction. It need not wait, because the append is guarded."""
    if current is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    else:
        error = _wrong_producer(current, producer)
        if not error and current.state.is_prepared:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if not error:
            return {
                partition: ErrorCode.NONE if partition in current.partitions else ErrorCode.TRANSACTION_ABORTABLE
                for partition in partitions
            }
    return dict.fromkeys(partitions, error)


def _wrong_producer(current: Transaction, producer: Producer) -> ErrorCode:
    if producer.producer_id != current.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.epoch != current.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


# --- EndTxn


def end_with_same_epoch(
    current: Transaction | None, producer: Producer, *, commits: bool, is_pending: bool, now_ms: int
) -> Transaction | ErrorCode:
    """EndTxn up to v4: all transactions of a producer have the same epoch."""
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if error := _wrong_producer(current, producer):
        return error
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is State.ONGOING:
        return replace(
            current,
            previous_producer_id=current.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            state=State.PREPARE_COMMIT if commits else State.PREPARE_ABORT,
            last_update_ms=now_ms,
            client_version=0,
        )
    if current.state is (State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT):
        return ErrorCode.NONE  # a retry
    return ErrorCode.INVALID_TXN_STATE


def end_with_epoch_bump(
    current: Transaction | None,
    producer: Producer,
    *,
    commits: bool,
    client_version: int,
    is_pending: bool,
    new_producer_id: int | None,
    now_ms: int,
) -> Outcome:
    """EndTxn from v5 on: the end of a transaction raises the epoch, so a delayed request cannot end the next one.

    Except in ONGOING, a request with an older epoch is a retry, and a request with the current epoch is a new one:

                     abort, repeated    abort, present   commit, repeated   commit, present
    EMPTY            PRODUCER_FENCED    bump             PRODUCER_FENCED    INVALID_TXN_STATE
    COMPLETE_ABORT   NONE               bump             INVALID_TXN_STATE  INVALID_TXN_STATE
    COMPLETE_COMMIT  INVALID_TXN_STATE  bump             NONE               INVALID_TXN_STATE
    """
    if is_pending:
        # This comes before the check of id and epoch: those that the producer has may not be committed yet.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_repeated = _is_repeated(current, producer)
    if producer.producer_id != current.producer_id and not is_repeated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.epoch != current.producer_epoch and not (is_repeated and current.state.is_complete):
        return ErrorCode.PRODUCER_FENCED
    if current.state is State.ONGOING:
        state = State.PREPARE_COMMIT if commits else State.PREPARE_ABORT
        return _decide(current, state, client_version, new_producer_id, now_ms)
    if is_repeated:
        is_same = current.state is (State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT)
        return ErrorCode.NONE if is_same else ErrorCode.INVALID_TXN_STATE
    if commits:
        return ErrorCode.INVALID_TXN_STATE
    aborted = _decide(current, State.PREPARE_ABORT, client_version, new_producer_id, now_ms)
    return aborted if isinstance(aborted, Needs) else replace(aborted, start_ms=now_ms)


def _is_repeated(current: Transaction, producer: Producer) -> bool:
    """Whether the request has the id and epoch from before the end of the last transaction."""
    if producer.producer_id == current.producer_id and producer.epoch == current.producer_epoch - 1:
        return True
    return (
        current.producer_epoch == 0
        and producer.producer_id == current.previous_producer_id
        and producer.epoch == CLIENT_EPOCH_MAX
    )


def _decide(
    current: Transaction, state: State, client_version: int, new_producer_id: int | None, now_ms: int
) -> Transaction | Needs:
    if current.is_epoch_exhausted and new_producer_id is None:
        return NEEDS_PRODUCER_ID
    return replace(
        current,
        previous_producer_id=current.producer_id,
        next_producer_id=new_producer_id if current.is_epoch_exhausted and new_producer_id else NO_PRODUCER_ID,
        state=state,
        producer_epoch=min(current.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=current.producer_epoch,
        last_update_ms=now_ms,
        client_version=client_version,
    )


# --- after the markers


def complete(current: Transaction, now_ms: int) -> Transaction:
    """Every marker of a prepared transaction is committed."""
    has_next = current.has_epoch_bump and current.next_producer_id != NO_PRODUCER_ID
    return replace(
        current,
        producer_id=current.next_producer_id if has_next else current.producer_id,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0 if has_next else current.producer_epoch,
        state=State.COMPLETE_COMMIT if current.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
