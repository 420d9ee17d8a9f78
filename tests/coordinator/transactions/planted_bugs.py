"""Bugs that transaction coordinators had in Kafka, Redpanda or here, as patches of ours.

Each patch breaks one rule through pytest's monkeypatch. tests/broker/test_transaction_traps.py names, for each of them,
the test that fails because of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from chronik.coordinator.groups.pending_offsets import PendingOffsets
from chronik.coordinator.slot import Slot
from chronik.coordinator.transactions import coordinator, transitions
from chronik.coordinator.transactions.coordinator import TransactionCoordinator
from chronik.coordinator.transactions.markers import MarkerOrder
from chronik.coordinator.transactions.shard import TransactionShard
from chronik.coordinator.transactions.transaction import TopicPartition, Transaction
from chronik.wire.error_codes import ErrorCode


def the_epoch_is_compared_before_a_pending_transition_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that repeats its EndTxn while the markers are written is fenced."""

    def end(current: Transaction | None, producer: transitions.Producer, **asked: Any) -> transitions.Outcome:
        if current is not None and producer.epoch != current.producer_epoch and current.state.is_prepared:
            return ErrorCode.PRODUCER_FENCED
        return original(current, producer, **asked)

    original = transitions.end_with_epoch_bump
    monkeypatch.setattr(coordinator.transitions, "end_with_epoch_bump", end)


def the_end_of_the_last_epoch_names_the_old_producer_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(current: Transaction, now_ms: int) -> Transaction:
        return replace(original(current, now_ms), producer_id=current.producer_id)

    original = transitions.complete
    monkeypatch.setattr(coordinator.transitions, "complete", complete)


def the_last_epoch_is_followed_by_no_other_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transaction, "is_epoch_exhausted", False)


def one_marker_completes_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    def finished(self: TransactionShard, order: MarkerOrder, partition: TopicPartition) -> None:
        self.entries[order.transactional_id].awaited.clear()
        original(self, order, partition)

    original = TransactionShard._finished
    monkeypatch.setattr(TransactionShard, "_finished", finished)


def a_decision_is_told_before_it_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: TransactionCoordinator, shard: TransactionShard, outcome: Transaction) -> Any:
        made = original(self, shard, outcome)
        told: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        told.set_result(ErrorCode.NONE)
        return made._replace(settled=told)

    original = TransactionCoordinator._write
    monkeypatch.setattr(TransactionCoordinator, "_write", write)


def the_next_leader_does_not_carry_out_what_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(self: TransactionShard) -> None:
        self._serves = True

    monkeypatch.setattr(TransactionShard, "loaded", loaded)


def pending_offsets_are_forgotten_when_loading_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(self: Slot[Any]) -> None:
        await original(self)
        offsets = self.shard.open_transactions
        for producer_id in list(offsets._offsets):
            offsets.end(producer_id)

    original = Slot.load
    monkeypatch.setattr(Slot, "load", load)


def a_pending_offset_overwrites_a_newer_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PendingOffsets, "supersede", lambda self, key, value, offset: None)


def a_commit_is_confirmed_whatever_the_outcome_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(current: Transaction | None, producer: transitions.Producer, **asked: Any) -> transitions.Outcome:
        outcome = original(current, producer, **asked)
        is_over = current is not None and current.state.is_complete
        return ErrorCode.NONE if is_over and outcome is ErrorCode.INVALID_TXN_STATE else outcome

    original = transitions.end_with_same_epoch
    monkeypatch.setattr(coordinator.transitions, "end_with_same_epoch", end)


def requests_on_older_connections_are_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without epoch bump all transactions of a producer look the same to them, as in Kafka."""
    monkeypatch.setattr(coordinator, "_is_late", lambda known, producer, connection: False)


def a_fence_that_was_not_written_raises_the_epoch_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_back(self: TransactionShard, transactional_id: str) -> None:
        entry = self.entries.get(transactional_id)
        if entry is not None and entry.current is not None and entry.pending:
            entry.current = replace(entry.current, producer_epoch=entry.pending.producer_epoch)
        original(self, transactional_id)

    original = TransactionShard.take_back
    monkeypatch.setattr(TransactionShard, "take_back", take_back)


def ids_expire_while_a_transition_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def unused(self: TransactionShard, limit_ms: int) -> Iterator[list[str]]:
        yield [
            transactional_id
            for transactional_id, entry in self.entries.items()
            if entry.current is not None and entry.current.last_update_ms <= limit_ms
        ]

    monkeypatch.setattr(TransactionShard, "_unused", unused)


def ids_expire_while_their_markers_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def unused(self: TransactionShard, limit_ms: int) -> Iterator[list[str]]:
        yield from original(self, limit_ms)
        yield [
            transactional_id
            for transactional_id, entry in self.entries.items()
            if entry.current is not None
            and entry.current.state.is_prepared
            and entry.current.last_update_ms <= limit_ms
        ]

    original = TransactionShard._unused
    monkeypatch.setattr(TransactionShard, "_unused", unused)
