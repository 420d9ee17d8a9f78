"""Bugs in transactions: in the coordinator's decisions, in markers, in offsets, in what partitions believe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chronik.broker.transaction_markers import TransactionMarkers
from chronik.broker.transaction_partitions import TransactionPartitions
from chronik.coordinator.transactions import coordinator, transitions
from chronik.coordinator.transactions.shard import TransactionShard
from chronik.coordinator.transactions.transaction import State, Transaction
from chronik.wire.error_codes import ErrorCode


def markers_count_when_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction is called complete although a leader may have lost its marker."""

    async def send(self: TransactionMarkers, leader: int, markers: list[Any]) -> list[Any]:
        for marker in markers:
            marker.finished(marker.partition)
        await original(self, leader, markers)
        return []

    original = TransactionMarkers._send
    monkeypatch.setattr(TransactionMarkers, "_send", send)


def timeouts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionShard, "_timed_out", lambda self, transactional_id: None)


def a_new_producer_fences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def initialize(current: Transaction | None, *args: Any, **kwargs: Any) -> Any:
        made = original(current, *args, **kwargs)
        if current is not None and isinstance(made, Transaction) and made.state is State.EMPTY:
            return replace(made, producer_epoch=current.producer_epoch)
        return made

    original = transitions.initialize
    monkeypatch.setattr(coordinator.transitions, "initialize", initialize)


def a_late_request_ends_the_next_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before epochs rose with every transaction."""

    def end(current: Transaction | None, producer: transitions.Producer, **kwargs: Any) -> Any:
        if current is not None and current.state is State.ONGOING and producer.epoch == current.producer_epoch - 1:
            producer = producer._replace(epoch=current.producer_epoch)
        return original(current, producer, **kwargs)

    original = transitions.end_with_epoch_bump
    monkeypatch.setattr(coordinator.transitions, "end_with_epoch_bump", end)


def some_partitions_get_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of two partitions ends on one of them."""

    def write(self: TransactionMarkers, state_partition: int, order: Any, partition: Any, finished: Any) -> None:
        if partition[1] == 1 and order.producer_epoch % 3 == 0:
            finished(partition)
        else:
            original(self, state_partition, order, partition, finished)

    original = TransactionMarkers.write
    monkeypatch.setattr(TransactionMarkers, "write", write)


def partitions_do_not_ask_whether_a_transaction_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was delayed begins a transaction of which no coordinator knows."""

    async def ask(
        self: Any, transactional_id: str, producer_id: int, epoch: int, partitions: Any, **_: Any
    ) -> dict[Any, ErrorCode]:
        return dict.fromkeys(partitions, ErrorCode.NONE)

    monkeypatch.setattr(TransactionPartitions, "ask", ask)
