"""Bugs of brokers and coordinators, beside those of replication in tests/replication/planted_bugs.py."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from chronik.broker.node_base import NodeBase
from chronik.coordinator.groups.classic.group import ClassicGroup
from chronik.coordinator.slot import Slot
from chronik.metadata import replay
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.image import Partition, Topic
from chronik.replication.coordinator_partition import CoordinatorPartition
from chronik.replication.fetcher import Fetchers
from chronik.replication.follower import Follower, Outcome
from chronik.replication.progress import Key
from chronik.replication.replica import EPOCH_UNKNOWN, Replica
from chronik.runtime.interfaces import Disk
from chronik.storage import compaction, recovery, verification
from chronik.storage.log import Log
from chronik.wire.messages.fetch import PartitionData


def offset_commit_acknowledged_before_it_is_replicated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CoordinatorPartition, "when_committed", lambda self, offset: None)


def coordinator_serves_before_it_has_loaded(patch: pytest.MonkeyPatch) -> None:
    """A group that failed over looks as if it had never committed anything."""

    async def load(self: Slot) -> None:
        return None

    patch.setattr(Slot, "load", load)


def node_goes_on_after_a_failed_fsync(patch: pytest.MonkeyPatch) -> None:
    """It says so in its log, and serves on."""
    patch.setattr(NodeBase, "stop_broken", lambda self, cause: logging.getLogger("chronik").error("failed: %s", cause))


def group_generation_lost_on_failover(patch: pytest.MonkeyPatch) -> None:
    """The new coordinator knows the members, and counts their generations from the beginning."""
    restore = ClassicGroup.restore

    def forgetful(self: ClassicGroup) -> None:
        restore(self)
        self.generation = 0

    patch.setattr(ClassicGroup, "restore", forgetful)


def stale_leader_accepts_produces_after_fencing(patch: pytest.MonkeyPatch) -> None:
    """A former leader continues to accept records from clients with outdated metadata, and to serve its own disk."""
    begin, require, committed = Replica._begin_epoch, Replica.require_leader, Replica.when_committed
    led: set[tuple[str, int]] = set()

    def remember(self: Replica) -> None:
        if self.is_leader:
            led.add((self.name, self.node_id))
        begin(self)

    def lax(self: Replica, epoch: int = EPOCH_UNKNOWN) -> None:
        if (self.name, self.node_id) not in led:
            require(self, epoch)

    def by_itself(self: Replica, offset: int, timeout_ms: int | None = None) -> asyncio.Future[None] | None:
        return committed(self, offset, timeout_ms) if self.is_leader else self.log.when_durable(offset)

    patch.setattr(Replica, "_begin_epoch", remember)
    patch.setattr(Replica, "require_leader", lax)
    patch.setattr(Replica, "when_committed", by_itself)


def controller_uses_an_epoch_again(patch: pytest.MonkeyPatch) -> None:
    """A new leader leads in the epoch of the one before it."""
    decide = Elections._after

    def same(self: Elections, topic: Topic, before: Partition, *args: Any, **more: Any) -> Partition:
        after = decide(self, topic, before, *args, **more)
        return before if after is before else after._replace(leader_epoch=before.leader_epoch)

    patch.setattr(Elections, "_after", same)
    patch.setattr(replay, "check", lambda holds, why, **subject: None)


def follower_applies_a_fetch_of_an_old_epoch(patch: pytest.MonkeyPatch) -> None:
    """Whatever a leader of the past still answers is taken over, though another one is followed by now."""
    apply, follow = Follower.apply, Fetchers.follow

    def lax(self: Follower, answer: PartitionData, request_number: int) -> Outcome:
        epoch, replica = self.leader_epoch, self._opened(self.key)
        if replica is not None:
            self.leader_epoch = replica.leader_epoch
        try:
            return apply(self, answer, request_number)
        finally:
            self.leader_epoch = epoch

    def follow_both(self: Fetchers, key: Key, leader_id: int, leader_epoch: int, *, when_invited: bool) -> None:
        if self.leader_of.get(key) != (leader_id, leader_epoch):
            self.leader_of.pop(key, None)  # the fetcher of the previous leader is not told
        follow(self, key, leader_id, leader_epoch, when_invited=when_invited)

    patch.setattr(Follower, "apply", lax)
    patch.setattr(Fetchers, "follow", follow_both)


def damage_is_taken_for_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    """Recovery truncates incomplete batches even below the durable mark."""
    restore = recovery.restore

    def careless(log: Log, known: recovery.KnownLog, disk: Disk) -> None:
        known.durable = (0, 0, 0)
        restore(log, known, disk)

    patch.setattr(recovery, "restore", careless)


def batches_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """Neither when a node starts nor when it reads what an earlier process wrote."""
    patch.setattr(recovery, "crc_holds", lambda batch: True)
    patch.setattr(verification, "crc_holds", lambda batch: True)


def compaction_mistakes_keys_for_each_other(patch: pytest.MonkeyPatch) -> None:
    """A compact representation of keys must not confuse two keys."""
    patch.setattr(compaction, "_held", lambda key: key[:-1])


def swap_in_progress_is_forgotten_at_recovery(patch: pytest.MonkeyPatch) -> None:
    """A pass that was cut short between two of its renames leaves both kinds of files."""
    patch.setattr(recovery, "finish_swaps", lambda directory, disk: None)
