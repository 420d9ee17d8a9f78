"""The known bugs of consumer groups, planted one by one: the test that is named beside each one notices it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from chronik.coordinator.groups.classic.group import ClassicGroup
from chronik.coordinator.groups.classic.protocol import ClassicProtocol
from chronik.coordinator.groups.consumer import heartbeats, protocol, regexes
from chronik.coordinator.groups.consumer import records as consumer_records
from chronik.coordinator.groups.consumer.assignors import ASSIGNORS, assign_range
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.member import Member
from chronik.coordinator.groups.consumer.protocol import ConsumerProtocol
from chronik.coordinator.groups.shard import GroupShard
from chronik.runtime.invariants import InvariantBroken
from chronik.wire.error_codes import ErrorCode
from tests.coordinator.consumer import test_assignors, test_heartbeats, test_migration
from tests.coordinator.consumer.world import World
from tests.coordinator.virtual import run_virtually

Patch = pytest.MonkeyPatch
WORLDS = 40


def revoked_partitions_are_free(patch: Patch) -> None:
    def owner_of(group: ConsumerGroup, topic: bytes, partition: int) -> str | None:
        owner = group._owners.get(topic, {}).get(partition)
        held = owner is not None and partition in group.members[owner].assigned.get(topic, ())
        return owner if held else None

    patch.setattr(ConsumerGroup, "owner_of", owner_of)


def any_expression_is_compiled(patch: Patch) -> None:
    patch.setattr(regexes, "compile_pattern", lambda pattern: re.compile(pattern).fullmatch)


def nothing_is_sticky(patch: Patch) -> None:
    patch.setattr(test_assignors, "assign_uniform", assign_range)


def records_are_replayed_at_commit(patch: Patch) -> None:
    late = {number: kind._replace(at_append=False) for number, kind in GroupShard.record_types.items()}
    patch.setattr(GroupShard, "record_types", late)


def a_late_classic_record_brings_the_group_back(patch: Patch) -> None:
    original = ClassicProtocol.replay

    def replay(self: ClassicProtocol, group_id: str, value: Any, *, has_offsets: bool) -> None:
        if value is not None and not isinstance(self._groups.get(group_id), ClassicGroup):
            self._groups.pop(group_id, None)
        original(self, group_id, value, has_offsets=has_offsets)

    patch.setattr(ClassicProtocol, "replay", replay)


def every_resolution_raises_the_epoch(patch: Patch) -> None:
    original = regexes.resolved

    def resolved(group: ConsumerGroup, *more: Any) -> Any:
        written = original(group, *more)
        return [*written, consumer_records.epoch_record(group.group_id, group.epoch + 1, group.metadata_hash)]

    patch.setattr(protocol.regexes, "resolved", resolved)


def a_static_member_comes_back_with_nothing(patch: Patch) -> None:
    original = heartbeats.find_member

    def found(group: ConsumerGroup, member_id: str, *more: Any, **named: Any) -> heartbeats.Found:
        known = original(group, member_id, *more, **named)
        return known if known.replaced is None else known._replace(member=Member(member_id))

    patch.setattr(heartbeats, "find_member", found)


def a_lost_answer_is_fatal(patch: Patch) -> None:
    patch.setattr(heartbeats, "is_part_of", lambda named, owned: False)


def a_silent_member_is_out_before_the_log_says_so(patch: Patch) -> None:
    original = ConsumerProtocol.fence

    def fence(self: ConsumerProtocol, group_id: str, member_id: str, reason: str) -> None:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup) and member_id in group.members:
            group.replay_current(member_id, None)
        original(self, group_id, member_id, reason)

    patch.setattr(ConsumerProtocol, "fence", fence)


def commits_of_former_owners_count(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "may_commit", lambda group, request, version: ErrorCode.NONE)


def some_world_notices() -> None:
    for seed in range(WORLDS):
        world = World(seed)
        run_virtually(world.run(500), world.clock)


PLANTED: dict[Callable[[Patch], None], Callable[[], None]] = {
    revoked_partitions_are_free: some_world_notices,
    any_expression_is_compiled: lambda: (
        test_heartbeats.test_only_expressions_that_are_matched_in_linear_time_are_accepted("(?=a)")
    ),
    nothing_is_sticky: test_assignors.test_uniform_moves_only_what_balance_asks_for,
    records_are_replayed_at_commit: test_heartbeats.test_two_heartbeats_on_their_way_are_both_in_the_target,
    a_late_classic_record_brings_the_group_back: (
        test_migration.test_an_assignment_on_its_way_does_not_bring_the_classic_group_back
    ),
    every_resolution_raises_the_epoch: test_heartbeats.test_resolving_again_without_a_change_leaves_the_epoch,
    a_static_member_comes_back_with_nothing: (
        test_heartbeats.test_static_members_keep_target_and_partitions_over_a_restart
    ),
    a_lost_answer_is_fatal: test_heartbeats.test_a_member_that_missed_an_answer_goes_on,
    a_silent_member_is_out_before_the_log_says_so: (
        test_heartbeats.test_partitions_of_a_member_whose_removal_is_not_in_the_log_stay_its_own
    ),
    commits_of_former_owners_count: (
        test_heartbeats.test_a_commit_with_an_older_epoch_counts_for_partitions_that_the_member_has_had_since
    ),
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_noticed(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """A test that does not notice the bug it is there for has not been tested."""
    plant(monkeypatch)
    with pytest.raises((AssertionError, InvariantBroken)):
        PLANTED[plant]()


def test_there_are_as_many_assignors_as_the_configuration_may_name() -> None:
    assert set(ASSIGNORS) == {"uniform", "range"}
