"""The effect of one member's change on its group: the records, and the member's new state.

Every change takes the same steps. If the member's subscription changed, it is written. If the group's set of topics or
these topics have changed, the group epoch is bumped. If the target assignment is from an older epoch, and is old
enough, a new one is computed. Last, the member moves a step towards its target.

Nothing here changes a group, waits, or sets a timer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.consumer import records
from chronik.coordinator.groups.consumer.assignors import ASSIGNORS, Subscriber
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.member import NO_TARGET, Member, Target
from chronik.coordinator.groups.consumer.reconciling import Named, reconcile
from chronik.coordinator.groups.consumer.settings import ConsumerGroupSettings
from chronik.coordinator.groups.consumer.topics import Shape, Topics
from chronik.coordinator.shard import CoordinatorRecord
from chronik.runtime.invariants import check

NEVER_ASSIGNED: Final = 0  # the time of the target in a group that has none


class Change:
    """One decision about one member of a group.

    `before` is the group's current member, or a new one. `replaced` is the id of the static member that it replaces.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        topics: Topics,
        config: GroupsConfig,
        settings: ConsumerGroupSettings,
        now_ms: int,
        written: list[CoordinatorRecord],
        before: Member,
        replaced: str | None = None,
    ) -> None:
        self.group = group
        self.records = written
        self.before = before
        self.member = before
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.is_refreshed = False  # whether the group's epoch was compared with its topics
        self.has_moved = replaced is not None  # whether the member's own assignment has changed
        self.awaits_assignment = False  # a target is due, but it is too early to compute it
        self._topics = topics
        self._config = config
        self._settings = settings
        self._now_ms = now_ms
        self._replaced = replaced
        self._target: Target | None = None

    def subscribe(self, member: Member) -> bool:
        """Sets the member's new description. Returns whether it subscribes to other topic names."""
        self.member = member
        if member == self.before:
            return False
        self.records.append(records.member_record(self.group.group_id, member))
        return member.topics != self.before.topics

    def refresh(self, *, bump: bool, names: set[str] | None = None) -> None:
        """Raises the group epoch if `bump` is set, or if the group's topics have changed since its last epoch."""
        metadata_hash = self._topics.hash_of(self.subscribed() if names is None else names)
        if bump or metadata_hash != self.group.metadata_hash:
            self.epoch = self.group.epoch + 1
            self.records.append(records.epoch_record(self.group.group_id, self.epoch, metadata_hash))
        if self.group.has_old_metadata:
            self.records.append(records.old_metadata_removed(self.group.group_id))
        self.is_refreshed = True

    def subscribed(self) -> set[str]:
        """The topics of the group, with this member's new state."""
        names: set[str] = set()
        regexes: set[str] = set()
        for each in self.members():
            names |= each.topics
            if each.regex:
                regexes.add(each.regex)
        for regex in regexes & self.group.resolved.keys():
            names |= self.group.resolved[regex].topics
        return names

    def members(self) -> list[Member]:
        gone = (self.member.member_id, self._replaced)
        return [*(each for key, each in self.group.members.items() if key not in gone), self.member]

    # --- target assignment

    def assign(self) -> None:
        """Computes the target for the group's epoch, unless there is one already, or the last one is too recent."""
        if self.group.target_epoch >= self.epoch:
            return
        at_ms, interval_ms = self.group.assigned_at_ms, self._settings.assignment_interval_ms
        # A time in the future is from before the clock was set back, so it is ignored.
        if at_ms != NEVER_ASSIGNED and at_ms <= self._now_ms < at_ms + interval_ms:
            self.awaits_assignment = True
            return
        targets = self._targets()
        self._target = targets.get(self.member.member_id, NO_TARGET)
        for member_id, target in targets.items():
            if target != self._target_before(member_id):
                self.records.append(records.target_record(self.group.group_id, member_id, target))
        self.records.append(records.target_epoch_record(self.group.group_id, self.epoch, self._now_ms))
        self.target_epoch = self.epoch

    def _targets(self) -> dict[str, Target]:
        return targets_of(self.group, self.members(), self._topics, self._config, self._target_before)

    def _target_before(self, member_id: str) -> Target | None:
        if member_id == self.member.member_id and self._replaced is not None:
            member_id = self._replaced
        return self.group.targets.get(member_id)

    # --- the member's assignment

    def reconcile(self, named: Named, *, subscription_changed: bool) -> None:
        if not subscription_changed and self.member.is_reconciled_to(self.target_epoch):
            return
        target = self._target
        if target is None:
            target = self._target_before(self.member.member_id) or NO_TARGET
        after = reconcile(
            self.member,
            self.target_epoch,
            target,
            subscribed=lambda: self._topics.ids_of(self.group.topics_of(self.member)),
            is_held=self._is_held,
            named=named,
            subscription_changed=subscription_changed,
        )
        if after != self.member:
            check(
                after.member_epoch >= self.member.member_epoch,
                "18 the epoch of a member never falls",
                group=self.group.group_id,
                member=after.member_id,
                before=self.member.member_epoch,
                now=after.member_epoch,
            )
            self.records.append(records.current_record(self.group.group_id, after))
            self.member = after
            self.has_moved = True

    def _is_held(self, topic_id: bytes, partition: int) -> bool:
        owner = self.group.owner_of(topic_id, partition)
        return owner is not None and owner != self._replaced


def targets_of(
    group: ConsumerGroup,
    members: Iterable[Member],
    topics: Topics,
    config: GroupsConfig,
    target_before: object = None,
) -> dict[str, Target]:
    """The target of each member, computed by the assignor that most of them request."""
    everybody = list(members)
    before = target_before if callable(target_before) else group.targets.get
    subscribers = [
        Subscriber(
            each.member_id,
            each.instance_id,
            each.rack_id,
            topics.ids_of(group.topics_of(each)),
            before(each.member_id) or NO_TARGET,
        )
        for each in everybody
    ]
    if not subscribers:
        return {}
    shapes: dict[bytes, Shape] = {}
    for topic_id in sorted({topic_id for each in subscribers for topic_id in each.topic_ids}):
        shape = topics.shape_of(topic_id)
        if shape is not None:
            shapes[topic_id] = shape
    name = group.assignor(everybody) or config.consumer_assignors[0]
    return ASSIGNORS.get(name, ASSIGNORS["uniform"])(subscribers, shapes)
