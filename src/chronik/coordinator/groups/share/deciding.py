"""What a change of one member means for its share group: records, and the member as it is afterwards.

As for consumer groups: the subscription is written if it changed; the group's epoch rises if its topics are others, or
if more or fewer partitions can be assigned; a target is computed for a new epoch, unless the last one is too young; the
member takes over its target. Members give up partitions without being asked: another one may have them already.

Nothing here changes a group, waits, or sets a timer.
"""

from __future__ import annotations

from typing import Final

from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.share import records
from chronik.coordinator.groups.share.assignor import Subscriber, assign
from chronik.coordinator.groups.share.group import ShareGroup
from chronik.coordinator.groups.share.member import NOTHING, Member, Partitions
from chronik.coordinator.shard import CoordinatorRecord

NEVER_ASSIGNED: Final = 0  # the time of the target of a group that has none


class Change:
    """One decision about one member of a group. `before` is the member as the group has it, or a new one."""

    def __init__(self, group: ShareGroup, topics: Topics, interval_ms: int, now_ms: int, before: Member) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        self.before = before
        self.member = before
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.awaits_assignment = False  # a target is due, and too early
        self._topics = topics
        self._interval_ms = interval_ms  # between two assignments
        self._now_ms = now_ms
        self._targets = group.targets

    def subscribe(self, member: Member) -> None:
        """The member says this about itself now."""
        self.member = member
        subscribes = member.topics != self.before.topics
        if member != self.before:
            self.records.append(records.member_record(self.group.group_id, member))
        is_settled = self.group.target_epoch >= self.group.epoch
        bump = subscribes or (is_settled and self.group.lacks_assignment(self._topics))
        if bump or self.group.is_stale:
            metadata_hash = self._topics.hash_of(self.subscribed())
            if bump or metadata_hash != self.group.metadata_hash:
                self.epoch += 1
                self.records.append(records.epoch_record(self.group.group_id, self.epoch, metadata_hash))
        self._assign()
        self._reconcile()

    def subscribed(self) -> set[str]:
        """The topics of the group with the member as it is now."""
        return {name for each in self.members() for name in each.topics}

    def members(self) -> list[Member]:
        others = (each for key, each in self.group.members.items() if key != self.member.member_id)
        return [*others, self.member]

    def _assign(self) -> None:
        if self.group.target_epoch >= self.epoch:
            return
        at_ms = self.group.assigned_at_ms
        # A target that gives nobody anything is no reason to wait: a new group has one until its partitions have state.
        # A time that is still to come was taken before the clock was set back: it says nothing.
        is_early = at_ms != NEVER_ASSIGNED and at_ms <= self._now_ms < at_ms + self._interval_ms
        if is_early and any(self.group.targets.values()):
            self.awaits_assignment = True
            return
        initialized = self.group.state_partitions.initialized
        subscribers = [
            Subscriber(
                each.member_id,
                self._topics.ids_of(each.topics),
                self.group.targets.get(each.member_id, NOTHING),
            )
            for each in self.members()
        ]
        self._targets = assign(subscribers, {key: each.partitions for key, each in initialized.items()})
        for member_id, target in self._targets.items():
            if target != self.group.targets.get(member_id):
                self.records.append(records.target_record(self.group.group_id, member_id, target))
        self.records.append(records.target_epoch_record(self.group.group_id, self.epoch, self._now_ms))
        self.target_epoch = self.epoch

    def _reconcile(self) -> None:
        """The member has what its target gives it, of the topics that it still subscribes to."""
        topic_ids = self._topics.ids_of(self.member.topics)
        target: Partitions = self._targets.get(self.member.member_id, NOTHING)
        assigned = {topic_id: parts for topic_id, parts in target.items() if topic_id in topic_ids}
        after = self.member._replace(assigned=assigned)
        if self.target_epoch != self.member.member_epoch:
            after = after._replace(member_epoch=self.target_epoch, previous_epoch=self.member.member_epoch)
        if after != self.member:
            self.records.append(records.current_record(self.group.group_id, after))
            self.member = after
