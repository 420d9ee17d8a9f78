"""Bugs of consumer groups (KIP-848)."""

from __future__ import annotations

import pytest

from chronik.coordinator.groups.consumer import group
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.shard import GroupShard


def partitions_that_are_given_up_are_free_at_once(patch: pytest.MonkeyPatch) -> None:
    """The next owner reads while the last one has not heard yet; and the check that would notice is gone, too."""

    def owner_of(self: ConsumerGroup, topic_id: bytes, partition: int) -> str | None:
        owner = self._owners.get(topic_id, {}).get(partition)
        has = owner is not None and partition in self.members[owner].assigned.get(topic_id, ())
        return owner if has else None

    patch.setattr(ConsumerGroup, "owner_of", owner_of)
    patch.setattr(group, "broken", lambda promise, **values: None)


def heartbeats_are_decided_on_committed_state(patch: pytest.MonkeyPatch) -> None:
    """Two heartbeats on their way are both decided on the state before the first."""
    late = {number: kind._replace(at_append=False) for number, kind in GroupShard.record_types.items()}
    patch.setattr(GroupShard, "record_types", late)
