"""Bugs that transactions had in Kafka, Redpanda or here, as patches of the partition's side.

Each patch breaks one rule through pytest's monkeypatch. tests/broker/test_transaction_traps.py names, for each of them,
the test that fails because of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from chronik.storage.aborted_transactions import AbortedTransactions
from chronik.storage.errors import InvalidProducerEpoch
from chronik.storage.origins import Origin
from chronik.storage.producer_state import AbortedTransaction, ProducerState, WrittenBatch
from chronik.storage.transaction_guards import Guard, TransactionGuards
from chronik.wire.batches import BatchView

EPOCH_MAX = 2**31 - 1  # of coordinators


def a_marker_of_the_same_epoch_ends_a_transaction_of_version_2(monkeypatch: pytest.MonkeyPatch) -> None:
    check_marker = ProducerState.check_marker

    def lenient(self: ProducerState, producer_id: int, epoch: int, coordinator_epoch: int, version: int = 0) -> None:
        check_marker(self, producer_id, epoch, coordinator_epoch, 0)

    monkeypatch.setattr(ProducerState, "check_marker", lenient)


def an_open_transaction_of_an_older_epoch_counts_as_open(monkeypatch: pytest.MonkeyPatch) -> None:
    check_open = ProducerState._check_open

    def ignoring_epochs(self: ProducerState, batch: BatchView, guard: Guard | None) -> None:
        producer = self.producers.get(batch.producer_id)
        if producer is None or producer.transaction_first_offset < 0:
            check_open(self, batch, guard)

    monkeypatch.setattr(ProducerState, "_check_open", ignoring_epochs)


def a_producer_gets_the_same_guard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = TransactionGuards.begin
    guards: dict[int, Guard] = {}

    def again(self: TransactionGuards, producer_id: int, *arguments: Any, **named: Any) -> Guard:
        begin(self, producer_id, *arguments, **named)
        self.entries[producer_id].guard = guards.setdefault(producer_id, self.entries[producer_id].guard)
        return self.entries[producer_id].guard

    monkeypatch.setattr(TransactionGuards, "begin", again)


def the_stable_offset_forgets_decisions_that_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_open_ones(self: ProducerState, high_watermark: int) -> int:
        return min([high_watermark, *self._open.values()])

    monkeypatch.setattr(ProducerState, "last_stable_offset", of_open_ones)


def a_coordinators_batches_are_checked_like_a_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    check_batch = ProducerState.check_batch

    def checked(
        self: ProducerState, batch: BatchView, origin: Origin = Origin.CLIENT, *arguments: Any
    ) -> WrittenBatch | None:
        if origin is Origin.COORDINATOR and not batch.is_control:
            last = batch.base_sequence + batch.last_offset_delta
            return self.check(batch.producer_id, batch.producer_epoch, batch.base_sequence, last, transactional=True)
        return check_batch(self, batch, origin, *arguments)

    monkeypatch.setattr(ProducerState, "check_batch", checked)


def a_marker_of_a_forgotten_producer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_marker = ProducerState.check_marker

    def strict(self: ProducerState, producer_id: int, epoch: int, *arguments: Any) -> None:
        if producer_id not in self.producers:
            raise InvalidProducerEpoch(producer_id, epoch, -1)
        check_marker(self, producer_id, epoch, *arguments)

    monkeypatch.setattr(ProducerState, "check_marker", strict)


def the_stable_offset_moves_before_the_abort_is_known_to_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    add = AbortedTransactions.add
    late: dict[int, tuple[int, AbortedTransaction]] = {}

    def one_behind(self: AbortedTransactions, base_offset: int, aborted: AbortedTransaction) -> None:
        waiting = late.pop(id(self), None)
        late[id(self)] = (base_offset, aborted)
        if waiting is not None:
            add(self, *waiting)

    monkeypatch.setattr(AbortedTransactions, "add", one_behind)


def the_largest_epoch_is_late_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """No marker has a greater epoch, so a transaction of that epoch stays open forever."""
    check_marker = ProducerState.check_marker

    def strict(self: ProducerState, producer_id: int, epoch: int, coordinator_epoch: int, version: int = 0) -> None:
        producer = self.producers.get(producer_id)
        if producer is not None and version >= 2 and epoch == producer.epoch and producer_id in self._open:
            raise InvalidProducerEpoch(producer_id, epoch, producer.epoch)
        check_marker(self, producer_id, epoch, coordinator_epoch, version)

    monkeypatch.setattr(ProducerState, "check_marker", strict)


def markers_of_former_coordinators_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    check_marker = ProducerState.check_marker

    def lenient(self: ProducerState, producer_id: int, epoch: int, coordinator_epoch: int, version: int = 0) -> None:
        check_marker(self, producer_id, epoch, EPOCH_MAX, version)

    monkeypatch.setattr(ProducerState, "check_marker", lenient)
