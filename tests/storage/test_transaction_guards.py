"""Which transactional batches and markers a leader takes: Kafka's rules, with the clients and coordinators they stop.

A transactional batch that no coordinator knows opens a hanging transaction: read_committed consumers never get past it.
Nearly every test here shows a way in which such a batch could be accepted.
"""

from __future__ import annotations

import pytest

from chronik.runtime.pieces import at_once
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from chronik.storage.log import Log
from chronik.storage.origins import Origin
from chronik.storage.transaction_guards import Guard
from chronik.wire.error_codes import ErrorCode
from tests.storage.driving import NOW_MS, batch, marker, open_logs, run, topic_id

P = 7  # the producer of these tests
MAX_EPOCH = 32767


class Partition:
    """One led log, asked as request handlers ask it."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def ask(self, epoch: int = 0, sequence: int = 0, *, is_tv2: bool = False) -> Guard | None:
        return self.log.producers.guard_for(P, epoch, sequence, is_tv2=is_tv2)

    def send(
        self, epoch: int = 0, sequence: int = 0, guard: Guard | None = None, *, transactional: bool = True
    ) -> tuple[int, bool]:
        """Appends a client's batch of one record. Returns its offset, and whether it counted as a duplicate."""
        made = batch([b"v"], producer=(P, epoch, sequence), transactional=transactional)
        appended = self.log.append(made, leader_epoch=0, now_ms=NOW_MS, guard=guard)
        return appended.first_offset, appended.is_duplicate

    def begin(self, epoch: int = 0, sequence: int = 0, *, is_tv2: bool = False) -> None:
        """The first batch of a transaction whose coordinator said yes at once."""
        self.send(epoch, sequence, self.ask(epoch, sequence, is_tv2=is_tv2))

    def coordinate(self, epoch: int = 0, guard: Guard | None = None) -> tuple[int, bool]:
        """A group coordinator's batch for this producer."""
        made = batch([b"v"], producer=(P, epoch, 0), transactional=True)
        appended = self.log.append(made, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR, guard=guard)
        return appended.first_offset, appended.is_duplicate

    def end(self, epoch: int = 0, *, version: int = 0, coordinator_epoch: int = 0, committed: bool = True) -> None:
        made = marker(P, epoch, committed=committed, coordinator_epoch=coordinator_epoch)
        self.log.append(made, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR, transaction_version=version)

    @property
    def open_from(self) -> int:
        return self.log.producers.producers[P].transaction_first_offset


@pytest.fixture
def partition() -> Partition:
    async def made() -> Log:
        return (await open_logs(SimDisk(0))).create("t", topic_id(1), 0, LogConfig())

    return Partition(run(made))


# --- clients


def test_a_transactional_batch_needs_a_guard_until_its_transaction_is_open(partition: Partition) -> None:
    with pytest.raises(InvalidTransactionState) as refused:
        partition.send()
    assert refused.value.kafka_error is ErrorCode.INVALID_TXN_STATE
    guard = partition.ask()
    assert guard is not None
    assert partition.log.end_offset == 0
    assert partition.send(guard=guard) == (0, False)
    assert partition.ask(sequence=1) is None, "its coordinator knows: there is nothing to ask"
    assert partition.send(sequence=1) == (1, False)


def test_a_refused_batch_changes_nothing(partition: Partition) -> None:
    partition.ask()
    before = partition.log.producers.encode()
    with pytest.raises(InvalidTransactionState):
        partition.send(guard=Guard())
    assert (partition.log.end_offset, partition.log.producers.encode()) == (0, before)


@pytest.mark.parametrize("committed", [True, False])
def test_an_answer_from_before_a_marker_opens_no_transaction(partition: Partition, committed: bool) -> None:
    """The coordinator confirmed, then the transaction ended, and then the batch arrives. A new guard for the same
    producer differs from the old one: otherwise the late batch would pass with the next transaction's question."""
    late = partition.ask()
    partition.end(committed=committed)
    with pytest.raises(InvalidTransactionState):
        partition.send(guard=late)
    fresh = partition.ask()
    assert fresh is not late
    with pytest.raises(InvalidTransactionState):
        partition.send(guard=late)
    assert partition.send(guard=fresh) == (0 + 1, False)


def test_requests_that_ask_at_the_same_time_share_the_guard(partition: Partition) -> None:
    first = partition.ask(sequence=0)
    second = partition.ask(sequence=1)
    assert first is second
    partition.send(sequence=0, guard=first)
    assert partition.send(sequence=1, guard=second) == (1, False), "the transaction is open by now"


def test_a_guard_opens_one_transaction(partition: Partition) -> None:
    guard = partition.ask()
    partition.send(guard=guard)
    partition.end()
    with pytest.raises(InvalidTransactionState):
        partition.send(sequence=1, guard=guard)


def test_an_open_transaction_of_an_older_epoch_is_not_the_one_of_this_batch(partition: Partition) -> None:
    """The producer was fenced and came again. Its old transaction is about to be aborted, and the marker may be written
    a moment after the new epoch's batch: only the coordinator knows whether that batch belongs to anything."""
    partition.begin(epoch=3)
    guard = partition.ask(epoch=4)
    assert guard is not None
    with pytest.raises(InvalidTransactionState):
        partition.send(epoch=4)
    assert partition.send(epoch=4, guard=guard) == (1, False)


def test_a_fenced_epoch_is_told_so_before_anybody_is_asked(partition: Partition) -> None:
    partition.begin(epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        partition.ask(epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        partition.send(epoch=2)


def test_a_repeated_batch_is_answered_also_after_its_transaction_ended(partition: Partition) -> None:
    """Its answer was lost, and the producer's commit overtook the retry: nothing is wrong with it."""
    partition.begin()
    partition.end()
    assert partition.send() == (0, True)


def test_a_batch_outside_of_the_open_transaction_is_refused(partition: Partition) -> None:
    """The batch would not belong to the transaction, yet consumers could not read it before the marker."""
    partition.begin()
    for epoch, sequence in [(0, 1), (1, 0)]:
        with pytest.raises(InvalidTransactionState):
            partition.send(epoch, sequence, transactional=False)
    partition.end()
    assert partition.send(0, 1, transactional=False) == (2, False)


def test_a_higher_sequence_waits_for_the_lowest_that_was_asked_about(partition: Partition) -> None:
    """The client must retry the lower one. If the higher one were written first, the lower one could never be
    written."""
    partition.end(epoch=0)
    guard = partition.ask(sequence=5)
    assert partition.ask(sequence=3) is guard
    assert partition.ask(sequence=4) is guard
    with pytest.raises(OutOfOrderSequence):
        partition.send(sequence=5, guard=guard)
    producer = partition.log.producers.producers.pop(P)  # expired: any sequence may begin
    with pytest.raises(OutOfOrderSequence):
        partition.send(sequence=5, guard=guard)
    assert partition.send(sequence=3, guard=guard) == (1, False)
    assert producer.epoch == 0


def test_a_new_epoch_forgets_the_sequences_of_the_old_one(partition: Partition) -> None:
    partition.ask(epoch=0, sequence=0)
    guard = partition.ask(epoch=1, sequence=4)
    assert partition.send(epoch=1, sequence=4, guard=guard) == (0, False)


@pytest.mark.parametrize(("is_tv2", "taken"), [(False, True), (True, False)])
def test_a_producer_that_nobody_remembers_begins_at_zero_under_version_2(
    partition: Partition, is_tv2: bool, taken: bool
) -> None:
    """With version 1, an expired producer may continue its sequence. With version 2, each transaction has a new
    epoch."""
    guard = partition.ask(sequence=6, is_tv2=is_tv2)
    if taken:
        assert partition.send(sequence=6, guard=guard) == (0, False)
    else:
        with pytest.raises(OutOfOrderSequence):
            partition.send(sequence=6, guard=guard)


def test_guards_end_with_a_truncation_and_with_time(partition: Partition) -> None:
    """The truncated part may hold a marker, and unfinished questions must not accumulate."""
    partition.send(transactional=False)
    partition.send(sequence=1, transactional=False)
    guard = partition.ask(sequence=1)
    partition.log.truncate_to(1)
    with pytest.raises(InvalidTransactionState):
        partition.send(sequence=1, guard=guard)
    guard = partition.ask(sequence=1)
    for now_ms in (1000, 2000):
        at_once(partition.log.producers.expiring(now_ms, expiration_ms=1000))
        assert partition.ask(sequence=1) is guard
    at_once(partition.log.producers.expiring(2001, expiration_ms=1000))
    assert not partition.log.producers.guards.entries


# --- coordinators


def test_a_coordinators_batches_are_numbered_alike_and_all_written(partition: Partition) -> None:
    """Offset commits of one transaction all begin with sequence 0. None of them repeats another."""
    assert partition.coordinate(guard=partition.ask()) == (0, False)
    assert [partition.coordinate() for _ in range(2)] == [(1, False), (2, False)]
    partition.end()
    assert partition.coordinate(guard=partition.ask()) == (4, False)


def test_a_coordinator_opens_no_transaction_without_a_guard(partition: Partition) -> None:
    """The transaction was open when the coordinator was asked, and has ended before the commit is written. Nothing
    would end the transaction that such a write opens: its offsets would be unstable forever."""
    partition.coordinate(guard=partition.ask())
    assert partition.ask() is None
    partition.end()
    with pytest.raises(InvalidTransactionState):
        partition.coordinate()


def test_a_coordinator_of_a_fenced_producer_writes_nothing(partition: Partition) -> None:
    partition.coordinate(epoch=2, guard=partition.ask(epoch=2))
    with pytest.raises(InvalidProducerEpoch):
        partition.coordinate(epoch=1)


def test_a_coordinators_guard_ends_with_the_transaction_too(partition: Partition) -> None:
    guard = partition.ask()
    assert partition.coordinate(guard=guard) == (0, False)
    assert partition.coordinate(guard=guard) == (1, False), "the transaction is open"
    partition.end()
    with pytest.raises(InvalidTransactionState):
        partition.coordinate(guard=guard)


# --- markers


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "taken"),
    [
        (0, 4, True, False),
        (0, 5, True, True),
        (0, 5, False, True),
        (0, 6, True, True),
        (1, 5, True, True),
        (2, 4, True, False),
        (2, 4, False, False),
        (2, 5, True, False),
        (2, 5, False, True),
        (2, 6, True, True),
        (2, 6, False, True),
    ],
)
def test_a_marker_of_version_2_has_a_higher_epoch_than_its_transaction(
    partition: Partition, version: int, epoch: int, is_open: bool, taken: bool
) -> None:
    """One with the transaction's own epoch is late: it belongs to the transaction before, and would commit or abort
    this one. Without an open transaction it repeats a marker whose answer was lost, and ends nothing."""
    partition.begin(epoch=5)
    if not is_open:
        partition.end(epoch=5)
    end_before = partition.log.end_offset
    if taken:
        partition.end(epoch, version=version)
        assert partition.open_from == -1
    else:
        with pytest.raises(InvalidProducerEpoch):
            partition.end(epoch, version=version)
    assert partition.log.end_offset == end_before + taken


def test_a_transaction_of_the_largest_epoch_can_be_ended(partition: Partition) -> None:
    partition.begin(epoch=MAX_EPOCH)
    partition.end(MAX_EPOCH, version=2)
    assert partition.open_from == -1


def test_a_former_coordinator_ends_nothing(partition: Partition) -> None:
    partition.begin()
    partition.end(coordinator_epoch=4)
    partition.begin(sequence=1)
    with pytest.raises(CoordinatorFenced):
        partition.end(coordinator_epoch=3)
    assert partition.open_from == 2
    partition.end(coordinator_epoch=4)


def test_a_marker_of_the_next_transactions_epoch_leaves_its_guard_alone(partition: Partition) -> None:
    """Version 2: a client begins its next transaction when the coordinator has decided; the marker may come later."""
    partition.begin(epoch=5, is_tv2=True)
    guard = partition.ask(epoch=6, is_tv2=True)
    partition.end(epoch=6, version=2)
    assert partition.send(epoch=6, guard=guard) == (2, False)
    partition.end(epoch=7, version=2)
    guard = partition.ask(epoch=8, is_tv2=False)
    partition.end(epoch=8, version=0)
    with pytest.raises(InvalidTransactionState):
        partition.send(epoch=8, guard=guard)


def test_a_marker_of_a_producer_that_nobody_remembers_is_written(partition: Partition) -> None:
    """The producer's records may be deleted, and then the log forgets the producer. If the marker were refused, its
    coordinator would retry forever."""
    partition.end(epoch=3, version=2, committed=False)
    assert partition.log.end_offset == 1
    assert partition.log.aborted_transactions(0, 1) == []
    assert partition.log.last_stable_offset(1) == 1


def test_followers_refuse_nothing(partition: Partition) -> None:
    """The leader has checked it; a follower that is stricter than its leader never catches up."""
    state = partition.log.producers
    late = [
        batch([b"v"], producer=(P, 5, 9), transactional=True),
        marker(P, 4, committed=False, coordinator_epoch=2),
        marker(P, 4, committed=True, coordinator_epoch=1),
        batch([b"v"], producer=(P, 3, 0)),
    ]
    for offset, each in enumerate(late):
        state.note_batch(each, offset, NOW_MS)
    assert (state.producers[P].epoch, state.producers[P].coordinator_epoch) == (3, 1)
