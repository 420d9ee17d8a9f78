"""Known bugs of share groups, planted one by one: the test that is named beside each one notices it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chronik.coordinator.groups.share import administration
from chronik.coordinator.groups.share.protocol import ShareProtocol
from chronik.coordinator.share import state
from chronik.coordinator.share.persister import StateBatch
from chronik.coordinator.share.shard import ShareShard
from chronik.coordinator.share.state import Kept
from chronik.runtime.invariants import InvariantBroken
from chronik.wire.error_codes import ErrorCode
from tests.coordinator.share import test_coordinator, test_groups

Patch = pytest.MonkeyPatch


def a_read_raises_no_epoch(patch: Patch) -> None:
    """S2: the old leader writes on."""
    original = ShareShard.read

    def read(self: ShareShard, key: Any, leader_epoch: int, reply: Any) -> None:
        original(self, key, self._leader_epochs.get(key, leader_epoch), reply)

    patch.setattr(ShareShard, "read", read)


def counts_are_not_stored(patch: Patch) -> None:
    """S4: the limit of deliveries is never reached."""
    original = state._written

    def written(batches: Sequence[StateBatch]) -> Any:
        return original([each._replace(delivery_count=1) for each in batches])

    patch.setattr(state, "_written", written)


def altering_leaves_the_state_epoch(patch: Patch) -> None:
    """S11: acknowledgements of members of before count."""
    original = ShareShard.initialize

    def initialize(self: ShareShard, key: Any, state_epoch: int, start_offset: int, reply: Any) -> None:
        kept = self.states.get(key)
        original(self, key, state_epoch if kept is None else kept.state_epoch, start_offset, reply)

    patch.setattr(ShareShard, "initialize", initialize)


def state_is_replayed_at_commit(patch: Patch) -> None:
    """Two writes in flight, and a snapshot that lacks the first."""
    late = {number: kind._replace(at_append=False) for number, kind in ShareShard.record_types.items()}
    patch.setattr(ShareShard, "record_types", late)


def the_later_report_wins(patch: Patch) -> None:
    def with_report(self: Kept, start_offset: int, delivery_complete_count: int, batches: Any) -> Kept:
        return self._replace(
            start_offset=start_offset, delivery_complete_count=delivery_complete_count, batches=list(batches)
        )

    patch.setattr(Kept, "with_report", with_report)


def everything_is_assigned(patch: Patch) -> None:
    original = ShareProtocol._beat

    def beat(self: ShareProtocol, request: Any, caller: Any, reply: Any) -> None:
        group = self.find(request.group_id)
        if group is not None:
            kept = group.state_partitions
            group.state_partitions = kept.end(kept.initializing)
        original(self, request, caller, reply)

    patch.setattr(ShareProtocol, "_beat", beat)


def an_old_coordinator_writes_on(patch: Patch) -> None:
    original = ShareProtocol.unloaded

    def unloaded(self: ShareProtocol) -> None:
        original(self)
        self.is_over = False

    patch.setattr(ShareProtocol, "unloaded", unloaded)


def sessions_are_forgotten_at_a_failover(patch: Patch) -> None:
    def loaded(self: ShareProtocol) -> None:
        self._is_loading = False
        for group in self._all():
            group.is_loading = False

    patch.setattr(ShareProtocol, "loaded", loaded)


def groups_are_deleted_without_their_state(patch: Patch) -> None:
    async def nothing(share: ShareProtocol, group_id: str) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(administration, "delete_all_state", nothing)


PLANTED: dict[Callable[[Patch], None], Callable[[], None]] = {
    a_read_raises_no_epoch: test_coordinator.test_a_read_is_written_down_before_it_is_answered,
    counts_are_not_stored: test_coordinator.test_counts_and_states_survive,
    altering_leaves_the_state_epoch: test_coordinator.test_a_state_that_begins_again_fences_its_leader_of_before,
    state_is_replayed_at_commit: test_coordinator.test_a_read_is_written_down_before_it_is_answered,
    the_later_report_wins: test_coordinator.test_a_report_that_was_held_up_does_not_move_the_start_back,
    everything_is_assigned: test_groups.test_only_partitions_with_state_are_assigned,
    an_old_coordinator_writes_on: test_groups.test_a_failover_in_the_middle_of_an_initialization,
    sessions_are_forgotten_at_a_failover: test_groups.test_a_silent_member_goes_after_its_session,
    groups_are_deleted_without_their_state: test_groups.test_a_group_whose_state_cannot_be_deleted_stays,
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_noticed(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """A test that does not notice the bug it is there for has not been tested."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, InvariantBroken)):
        PLANTED[plant]()
