"""Bugs that transactions had in Kafka, Redpanda or here, as patches of the broker: markers, and hanging transactions.

Each patch breaks one rule through pytest's monkeypatch. test_transaction_traps.py names the test that fails because of
each of them.
"""

from __future__ import annotations

import asyncio

import pytest

from chronik.broker.apis import write_txn_markers
from chronik.broker.hanging_transactions import HangingTransactions
from chronik.broker.producer_connections import ProducerConnections
from chronik.broker.transaction_markers import TransactionMarkers
from chronik.replication.replica import Replica
from tests.storage.planted_transaction_bugs import markers_of_former_coordinators_are_taken


def markers_are_acknowledged_when_they_are_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator forgets a transaction whose marker goes with its leader."""

    def append(replica: Replica, batch: bytes, transaction_version: int, now_ms: int) -> asyncio.Future[None] | None:
        original(replica, batch, transaction_version, now_ms)
        return None

    original = write_txn_markers._append
    monkeypatch.setattr(write_txn_markers, "_append", append)


def a_former_coordinator_goes_on_sending_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionMarkers, "forget", lambda self, state_partition: None)


def former_coordinators_end_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They continue to send markers, and no partition refuses them."""
    a_former_coordinator_goes_on_sending_markers(monkeypatch)
    markers_of_former_coordinators_are_taken(monkeypatch)


def hanging_transactions_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(self: HangingTransactions) -> None:
        pass

    monkeypatch.setattr(HangingTransactions, "look", look)


def commits_on_older_connections_are_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without epoch bump, a delayed commit of offsets becomes part of a later transaction, as in Kafka."""
    monkeypatch.setattr(ProducerConnections, "admits", lambda self, producer_id, connection: True)
