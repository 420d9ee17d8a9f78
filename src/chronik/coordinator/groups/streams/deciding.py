"""What a heartbeat of one member means for its streams group: records, and the member as it is afterwards.

What the member says about itself is written if it changed. A new topology is written, and compared with the topics that
there are. If anything changed that tasks depend on, the epoch of the group rises. If the target is of an older epoch,
and neither the first rebalance of the group nor the assignment interval has to be waited for, a new target is computed.
Last, the member goes a step towards its target.

Nothing here changes a group, waits, or sets a timer.
"""

from __future__ import annotations

from typing import Final

from chronik.coordinator.groups.consumer.requests import refuse
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.streams import records
from chronik.coordinator.groups.streams.assignor import Work, Worker, assign
from chronik.coordinator.groups.streams.group import StreamsGroup
from chronik.coordinator.groups.streams.member import Member
from chronik.coordinator.groups.streams.reconciling import reconcile
from chronik.coordinator.groups.streams.requests import require_tasks
from chronik.coordinator.groups.streams.settings import StreamsGroupSettings
from chronik.coordinator.groups.streams.tasks import NOTHING, Tasks
from chronik.coordinator.groups.streams.topology import (
    Configured,
    Status,
    StatusCode,
    Topology,
    Unresolvable,
    configure,
)
from chronik.coordinator.shard import CoordinatorRecord
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode

NEVER_ASSIGNED: Final = 0  # the time of the target of a group that has none


class Change:
    """One decision about a group and, unless time brings it about, one member: `before` as the group has it, or new."""

    def __init__(
        self,
        group: StreamsGroup,
        topics: Topics,
        settings: StreamsGroupSettings,
        now_ms: int,
        written: list[CoordinatorRecord],
        before: Member | None,
    ) -> None:
        self.group = group
        self.records = written
        self.before = before
        self.member = before
        self.topology = group.topology
        self.configured = group.configured
        self.epoch = group.epoch
        self.target_epoch = group.target_epoch
        self.statuses: list[Status] = []
        self.is_refreshed = False  # the group was compared with its topics
        self._topics = topics
        self._settings = settings
        self._now_ms = now_ms
        self._bump = False
        self._metadata_hash = group.metadata_hash
        self._targets: dict[str, Tasks] | None = None

    # --- what the group is about

    def tell(self, member: Member, sent: Topology | None) -> None:
        """The member says this about itself and its application now."""
        if member != self.before:
            self.records.append(records.member_record(self.group.group_id, member))
            self._bump = True
        self.member = member
        if sent is not None:
            self._settle_topology(sent)
        if self.topology is None:
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {self.group.group_id} has no topology")
        if self.group.topology is not None and member.topology_epoch < self.topology.epoch:
            detail = (
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{self.topology.epoch}."
            )
            self.statuses.append(Status(StatusCode.STALE_TOPOLOGY, detail))

    def _settle_topology(self, sent: Topology) -> None:
        if self.topology is None:
            self.records.append(records.topology_record(self.group.group_id, sent.value))
            self.topology = sent
        elif self.topology.epoch <= sent.epoch and not self.topology.is_same(sent):
            refuse(ErrorCode.INVALID_REQUEST, "the topology of a streams group cannot be changed")

    def refresh(self) -> Configured:
        """Compares the topology with its topics, if either may have changed."""
        if self.topology is None:
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {self.group.group_id} has no topology")
        if self.configured is None or self.group.is_stale:
            self._metadata_hash = self._topics.hash_of(self.topology.topics)
            is_other = self._metadata_hash != self.group.metadata_hash
            self._bump = self._bump or is_other
            if is_other or self.configured is None:
                try:
                    self.configured = configure(self.topology, self.partitions_of)
                except Unresolvable as reason:
                    refuse(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(reason))
            self.is_refreshed = True
        return self.configured

    def partitions_of(self, name: str) -> int | None:
        topic = self._topics.image.topic_named(name)
        return None if topic is None else len(topic.partitions)

    def raise_epoch(self, configured: Configured, named: Tasks | None) -> None:
        """If something changed that the tasks depend on."""
        validated = -1
        if configured.is_ready and self.topology is not None:
            validated = self.topology.epoch
            require_tasks(configured.parts, named)
        replicas = self._settings.standby_replicas
        is_other = validated != self.group.validated_topology_epoch or replicas != self.group.standby_replicas
        if self._bump or is_other:
            self.epoch += 1
            group_id = self.group.group_id
            self.records.append(records.epoch_record(group_id, self.epoch, self._metadata_hash, validated, replicas))

    # --- the target

    def assign(self, configured: Configured, *, is_delayed: bool) -> None:
        """Computes the target of the group's epoch, unless there is one already or it has to wait."""
        if is_delayed:
            self._delay("Assignment delayed due to the configured initial rebalance delay.")
            self._targets = {}
            return
        if self.group.target_epoch >= self.epoch:
            return
        at_ms, interval_ms = self.group.assigned_at_ms, self._settings.assignment_interval_ms
        # A time that is still to come was taken before the clock was set back: it says nothing.
        if at_ms != NEVER_ASSIGNED and at_ms <= self._now_ms < at_ms + interval_ms:
            self._delay("Assignment delayed due to the configured assignment interval.")
            return
        members = dict(self.group.members)
        if self.member is not None:
            members[self.member.member_id] = self.member
        self._targets = dict.fromkeys(members, NOTHING)
        if configured.is_ready:
            self._targets = assign(
                [
                    Worker(key, each.process_id, self.group.targets.get(key, NOTHING))
                    for key, each in sorted(members.items())
                ],
                {name: Work(part.task_count, part.is_stateful) for name, part in configured.parts.items()},
                self._settings.standby_replicas,
            )
        for member_id, target in self._targets.items():
            if target != self.group.targets.get(member_id):
                self.records.append(records.target_record(self.group.group_id, member_id, target))
        self.records.append(records.target_epoch_record(self.group.group_id, self.epoch, self._now_ms))
        self.target_epoch = self.epoch

    def _delay(self, detail: str) -> None:
        self.statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))

    # --- the member's own tasks

    def reconcile(self, member: Member, named: Tasks | None) -> Member:
        if member.is_reconciled_to(self.target_epoch):
            return member
        targets = self.group.targets if self._targets is None else self._targets
        target = targets.get(member.member_id, NOTHING)
        after = reconcile(member, self.target_epoch, target, self.group, named)
        if after != member:
            check(
                after.member_epoch >= member.member_epoch,
                "18 the epoch of a member never falls",
                group=self.group.group_id,
                member=after.member_id,
                before=member.member_epoch,
                now=after.member_epoch,
            )
            self.records.append(records.current_record(self.group.group_id, after))
            self.member = after
        return after
