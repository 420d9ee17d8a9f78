"""Bugs of brokers and coordinators, beside those of replication in tests/replication/planted_bugs.py."""

from __future__ import annotations

import logging

import pytest

from chronik.broker.node import Node
from chronik.coordinator.runtime import _Slot
from chronik.replication.replica import CoordinatorPartition


def offset_commit_acknowledged_before_it_is_replicated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoordinatorPartition, "when_committed", lambda self, offset: None)


def coordinator_serves_before_it_has_loaded(patch: pytest.MonkeyPatch) -> None:
    """A group that failed over looks as if it had never committed anything."""

    async def load(self: _Slot) -> None:
        return None

    patch.setattr(_Slot, "load", load)


def node_goes_on_after_a_failed_fsync(patch: pytest.MonkeyPatch) -> None:
    """It says so in its log, and serves on."""
    patch.setattr(Node, "stop_broken", lambda self, cause: logging.getLogger("chronik").error("failed: %s", cause))
