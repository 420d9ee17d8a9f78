"""What each request makes of a transaction, for every state: the tables of Kafka's protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chronik.coordinator.transactions.transaction import (
    CLIENT_EPOCH_MAX,
    EPOCH_MAX,
    State,
    Transaction,
    from_record,
    to_record,
)
from chronik.coordinator.transactions.transitions import (
    NEEDS_PRODUCER_ID,
    Outcome,
    Producer,
    add_partitions,
    complete,
    end_with_epoch_bump,
    end_with_same_epoch,
    fence,
    initialize,
    verify_partitions,
)
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.transaction_records import TransactionLogValue

ID, OLD_ID, NEW_ID = 7, 5, 9
EPOCH = 3
NOW_MS = 1_000
P0, P1 = ("t", 0), ("t", 1)
NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
SETTLED = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


def transaction(state: State = State.EMPTY, **fields: Any) -> Transaction:
    has_partitions = state is State.ONGOING or state.is_prepared
    values = {
        "transactional_id": "x",
        "producer_id": ID,
        "previous_producer_id": ID,
        "producer_epoch": EPOCH,
        "timeout_ms": 60_000,
        "state": state,
        "partitions": frozenset({P0}) if has_partitions else frozenset(),
        "start_ms": -1 if state is State.EMPTY else 500,
        "last_update_ms": 500,
        "client_version": 2,
    }
    return Transaction(**(values | fields))


def init(current: Transaction | None, expected: Producer | None = None, **asked: Any) -> Outcome:
    values = {"timeout_ms": 30_000, "is_pending": False, "transaction_version": 2, "new_producer_id": None}
    return initialize(current, "x", expected, now_ms=NOW_MS, **(values | asked))


def end(current: Transaction | None, epoch: int = EPOCH, *, commits: bool = True, **asked: Any) -> Outcome:
    values = {"client_version": 2, "is_pending": False, "new_producer_id": None, "producer_id": ID}
    values |= asked
    producer = Producer(values.pop("producer_id"), epoch)
    return end_with_epoch_bump(current, producer, commits=commits, now_ms=NOW_MS, **values)


def summary(outcome: Outcome) -> Any:
    if isinstance(outcome, Transaction):
        return outcome.state, outcome.producer_id, outcome.producer_epoch
    return outcome


# --- InitProducerId


def test_a_new_id_needs_a_producer_id_and_begins_with_epoch_0() -> None:
    assert init(None) is NEEDS_PRODUCER_ID
    made = init(None, new_producer_id=NEW_ID)
    assert isinstance(made, Transaction)
    assert (made.state, made.producer_id, made.producer_epoch) == (State.EMPTY, NEW_ID, 0)
    assert (made.timeout_ms, made.start_ms, made.last_producer_epoch) == (30_000, -1, -1)


@pytest.mark.parametrize("state", SETTLED)
def test_a_new_producer_gets_the_next_epoch_and_an_empty_transaction(state: State) -> None:
    made = init(transaction(state))
    assert isinstance(made, Transaction)
    assert summary(made) == (State.EMPTY, ID, EPOCH + 1)
    assert (made.partitions, made.start_ms, made.timeout_ms, made.last_producer_epoch) == (frozenset(), -1, 30_000, -1)


@pytest.mark.parametrize("state", SETTLED)
@pytest.mark.parametrize(
    ("expected", "last_epoch", "outcome"),
    [
        (Producer(ID, EPOCH), -1, (State.EMPTY, ID, EPOCH + 1)),
        (Producer(ID, EPOCH - 1), EPOCH - 1, (State.EMPTY, ID, EPOCH)),  # the answer to the last request was lost
        (Producer(ID, EPOCH - 1), -1, FENCED),  # another producer has initialized since
        (Producer(ID, EPOCH + 1), -1, FENCED),
        (Producer(OLD_ID, EPOCH), -1, FENCED),
    ],
)
def test_a_producer_may_go_on_with_its_own_epoch_or_repeat_its_request(
    state: State, expected: Producer, last_epoch: int, outcome: object
) -> None:
    assert summary(init(transaction(state, last_producer_epoch=last_epoch), expected)) == outcome


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_while_a_transaction_ends_its_id_is_busy(state: State) -> None:
    assert init(transaction(state), is_pending=True) is CONCURRENT


@pytest.mark.parametrize(("server_version", "client_version"), [(2, 2), (1, 0), (0, 0)])
def test_a_new_producer_fences_the_one_before_and_aborts_its_transaction(
    server_version: int, client_version: int
) -> None:
    made = init(transaction(State.ONGOING), transaction_version=server_version)
    assert isinstance(made, Transaction)
    assert summary(made) == (State.PREPARE_ABORT, ID, EPOCH + 1)
    assert (made.partitions, made.client_version, made.start_ms) == (frozenset({P0}), client_version, 500)


def test_used_up_epochs_bring_a_new_producer_id() -> None:
    """Epoch 32767 is never handed out: it is left for fencing."""
    exhausted = transaction(State.COMPLETE_COMMIT, producer_epoch=CLIENT_EPOCH_MAX)
    assert init(exhausted) is NEEDS_PRODUCER_ID
    made = init(exhausted, Producer(ID, CLIENT_EPOCH_MAX), new_producer_id=NEW_ID)
    assert isinstance(made, Transaction)
    assert summary(made) == (State.EMPTY, NEW_ID, 0)
    assert (made.previous_producer_id, made.last_producer_epoch) == (ID, CLIENT_EPOCH_MAX)
    assert summary(init(made, Producer(ID, CLIENT_EPOCH_MAX))) == (State.EMPTY, NEW_ID, 0), "a repeated request"
    assert init(made, Producer(ID, EPOCH)) is FENCED


def test_a_fence_stops_at_the_last_epoch() -> None:
    """A transaction at the last epoch can still be aborted, and its id continues with a new producer id."""
    stuck = transaction(State.ONGOING, producer_epoch=EPOCH_MAX)
    aborted = fence(stuck, transaction_version=2, new_producer_id=NEW_ID, now_ms=NOW_MS)
    assert isinstance(aborted, Transaction)
    assert summary(aborted) == (State.PREPARE_ABORT, ID, EPOCH_MAX)
    assert summary(complete(aborted, NOW_MS)) == (State.COMPLETE_ABORT, NEW_ID, 0)


# --- AddPartitionsToTxn


@pytest.mark.parametrize(
    ("current", "producer", "is_pending", "outcome"),
    [
        (None, Producer(ID, EPOCH), False, MAPPING),
        (None, Producer(ID, EPOCH), True, CONCURRENT),
        # A pending transition comes first: the producer may have the next id already.
        (transaction(State.EMPTY), Producer(NEW_ID, 0), True, CONCURRENT),
        (transaction(State.EMPTY), Producer(NEW_ID, EPOCH), False, MAPPING),
        (transaction(State.EMPTY), Producer(ID, EPOCH - 1), False, FENCED),
        (transaction(State.EMPTY), Producer(ID, EPOCH + 1), False, FENCED),
        (transaction(State.ONGOING), Producer(ID, EPOCH), False, NONE),
        *[(transaction(state), Producer(ID, EPOCH), False, (State.ONGOING, ID, EPOCH)) for state in SETTLED],
    ],
)
def test_adding_a_partition(current: Transaction | None, producer: Producer, is_pending: bool, outcome: object) -> None:
    done = add_partitions(current, producer, frozenset({P0}), client_version=2, is_pending=is_pending, now_ms=NOW_MS)
    assert summary(done) == outcome


def test_the_first_partition_starts_the_clock_and_later_ones_do_not() -> None:
    asked = {"client_version": 0, "is_pending": False}
    begun = add_partitions(transaction(), Producer(ID, EPOCH), frozenset({P0}), now_ms=NOW_MS, **asked)
    assert isinstance(begun, Transaction)
    assert (begun.start_ms, begun.partitions, begun.client_version) == (NOW_MS, frozenset({P0}), 0)
    more = add_partitions(begun, Producer(ID, EPOCH), frozenset({P0, P1}), now_ms=NOW_MS + 5, **asked)
    assert isinstance(more, Transaction)
    assert (more.start_ms, more.last_update_ms, more.partitions) == (NOW_MS, NOW_MS + 5, frozenset({P0, P1}))


@pytest.mark.parametrize(
    ("current", "producer", "errors"),
    [
        (None, Producer(ID, EPOCH), (MAPPING, MAPPING)),
        (transaction(State.ONGOING), Producer(OLD_ID, EPOCH), (MAPPING, MAPPING)),
        (transaction(State.ONGOING), Producer(ID, EPOCH - 1), (FENCED, FENCED)),
        (transaction(State.PREPARE_COMMIT), Producer(ID, EPOCH), (CONCURRENT, CONCURRENT)),
        (transaction(State.ONGOING), Producer(ID, EPOCH), (NONE, ErrorCode.TRANSACTION_ABORTABLE)),
        (transaction(State.EMPTY), Producer(ID, EPOCH), (ErrorCode.TRANSACTION_ABORTABLE,) * 2),
    ],
)
def test_verifying_says_of_each_partition_whether_it_is_in_the_transaction(
    current: Transaction | None, producer: Producer, errors: tuple[ErrorCode, ErrorCode]
) -> None:
    assert verify_partitions(current, producer, frozenset({P0, P1})) == dict(zip((P0, P1), errors, strict=True))


# --- EndTxn up to v4


@pytest.mark.parametrize(
    ("current", "producer", "is_pending", "commit", "abort"),
    [
        (None, Producer(ID, EPOCH), False, MAPPING, MAPPING),
        (transaction(State.ONGOING), Producer(OLD_ID, EPOCH), True, MAPPING, MAPPING),
        (transaction(State.ONGOING), Producer(ID, EPOCH - 1), True, FENCED, FENCED),
        (transaction(State.ONGOING), Producer(ID, EPOCH), True, CONCURRENT, CONCURRENT),
        (
            transaction(State.ONGOING),
            Producer(ID, EPOCH),
            False,
            (State.PREPARE_COMMIT, ID, EPOCH),
            (State.PREPARE_ABORT, ID, EPOCH),
        ),
        (transaction(State.COMPLETE_COMMIT), Producer(ID, EPOCH), False, NONE, WRONG_STATE),
        (transaction(State.COMPLETE_ABORT), Producer(ID, EPOCH), False, WRONG_STATE, NONE),
        (transaction(State.EMPTY), Producer(ID, EPOCH), False, WRONG_STATE, WRONG_STATE),
    ],
)
def test_ending_without_epoch_bump(
    current: Transaction | None, producer: Producer, is_pending: bool, commit: object, abort: object
) -> None:
    for commits, outcome in ((True, commit), (False, abort)):
        done = end_with_same_epoch(current, producer, commits=commits, is_pending=is_pending, now_ms=NOW_MS)
        assert summary(done) == outcome


# --- EndTxn from v5 on

BUMP = (State.PREPARE_ABORT, ID, EPOCH + 1)


@pytest.mark.parametrize(
    ("state", "abort_again", "abort", "commit_again", "commit"),
    [
        (State.EMPTY, FENCED, BUMP, FENCED, WRONG_STATE),
        (State.COMPLETE_ABORT, NONE, BUMP, WRONG_STATE, WRONG_STATE),
        (State.COMPLETE_COMMIT, WRONG_STATE, BUMP, NONE, WRONG_STATE),
        (State.ONGOING, FENCED, BUMP, FENCED, (State.PREPARE_COMMIT, ID, EPOCH + 1)),
    ],
)
def test_ending_with_epoch_bump(
    state: State, abort_again: object, abort: object, commit_again: object, commit: object
) -> None:
    current = transaction(state)
    assert summary(end(current, EPOCH - 1, commits=False)) == abort_again
    assert summary(end(current, EPOCH, commits=False)) == abort
    assert summary(end(current, EPOCH - 1, commits=True)) == commit_again
    assert summary(end(current, EPOCH, commits=True)) == commit


def test_a_pending_transition_is_told_before_id_and_epoch_are_compared() -> None:
    """A client that has the new epoch already, while it is on its way to the log, must not believe it was fenced."""
    assert end(transaction(State.PREPARE_COMMIT), EPOCH + 9, is_pending=True) is CONCURRENT
    assert end(None, EPOCH, is_pending=True) is CONCURRENT
    assert end(None, EPOCH) is MAPPING


@pytest.mark.parametrize("state", [*SETTLED, State.ONGOING])
def test_another_producers_id_or_epoch_ends_nothing(state: State) -> None:
    assert end(transaction(state), EPOCH, producer_id=OLD_ID) is MAPPING
    assert end(transaction(state), EPOCH + 1) is FENCED
    assert end(transaction(state), EPOCH - 2) is FENCED


def test_an_abort_of_nothing_has_a_start() -> None:
    """A producer that failed before its first record aborts a transaction without partitions, which ends at once."""
    done = end(transaction(State.EMPTY), commits=False)
    assert isinstance(done, Transaction)
    assert (done.start_ms, done.partitions) == (NOW_MS, frozenset())


def test_the_end_of_the_last_epoch_brings_a_new_producer_id_which_a_repeated_request_gets_too() -> None:
    last = transaction(State.ONGOING, producer_epoch=CLIENT_EPOCH_MAX)
    assert end(last, CLIENT_EPOCH_MAX) is NEEDS_PRODUCER_ID
    decided = end(last, CLIENT_EPOCH_MAX, new_producer_id=NEW_ID)
    assert isinstance(decided, Transaction)
    assert summary(decided) == (State.PREPARE_COMMIT, ID, EPOCH_MAX), "markers carry an epoch that no client has"
    completed = complete(decided, NOW_MS)
    assert summary(completed) == (State.COMPLETE_COMMIT, NEW_ID, 0)
    assert end(completed, CLIENT_EPOCH_MAX, producer_id=ID) is NONE
    assert end(completed, CLIENT_EPOCH_MAX, producer_id=ID, commits=False) is WRONG_STATE
    assert end(completed, EPOCH, producer_id=ID) is MAPPING


# --- the record


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("transaction_version", [1, 2])
def test_a_transaction_is_what_its_record_says(state: State, transaction_version: int) -> None:
    made = transaction(state, client_version=2 if state is not State.EMPTY else 0, next_producer_id=NEW_ID)
    record = to_record(made, transaction_version)
    assert record.version == 1
    assert isinstance(record.value, TransactionLogValue)
    assert (record.value.transaction_partitions is None) == (state is State.EMPTY)
    loaded = from_record("x", record.value)
    assert replace(loaded, last_producer_epoch=made.last_producer_epoch) == made


def test_after_a_failover_a_repeated_request_is_still_known_if_the_epoch_was_bumped() -> None:
    """The log does not hold the last epoch. The end of a transaction with epoch bump tells it."""
    record = to_record(transaction(State.COMPLETE_COMMIT), 2)
    assert isinstance(record.value, TransactionLogValue)
    assert from_record("x", record.value).last_producer_epoch == EPOCH - 1
    record.value.client_transaction_version = 0
    assert from_record("x", record.value).last_producer_epoch == -1
