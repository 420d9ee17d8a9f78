"""A streams group: its topology, its members, its epochs, its targets, and which member has each task.

What the log says changes by replay alone. The group epoch rises when the members, the topics of the topology, or the
number of standby tasks change; the target epoch follows when tasks have been assigned for it; a member's epoch follows
when the member has what its target says. What follows from the log and the metadata, or lives only as long as its
members, is kept beside: `configured`, `shutdown_member_id` and `endpoint_epoch`.

Invariants: an active task has one owner; no epoch falls while this node leads; a member that is removed owns nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, cast

from chronik.coordinator.groups.group import NO_TIMESTAMP, Expiry
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.streams import records
from chronik.coordinator.groups.streams.member import LEAVES, Member, target_bytes, target_of
from chronik.coordinator.groups.streams.tasks import NOTHING, NOTHING_HELD, Tasks
from chronik.coordinator.groups.streams.topology import Configured, Topology
from chronik.coordinator.shard import CoordinatorRecord
from chronik.runtime.invariants import broken, check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_groups import DescribedGroup
from chronik.wire.messages.offset_commit import OffsetCommitRequest
from chronik.wire.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
)

EMPTY: Final = "Empty"
NOT_READY: Final = "NotReady"  # topics of the topology are missing, or have the wrong number of partitions
ASSIGNING: Final = "Assigning"  # the target is of an older epoch
RECONCILING: Final = "Reconciling"  # a member has not got its target yet
STABLE: Final = "Stable"

FIRST_EPOCH: Final = 1  # before any record: 0 is what members join with
MEMBER_EPOCHS_SINCE: Final = 9  # the version of OffsetCommit that knows them
UNDEFINED_EPOCH: Final = -1  # the target's, while the group is being removed


class StreamsGroup:
    type: Final = "streams"
    protocol_type: Final = "streams"
    is_stored: Final = True

    def __init__(self, group_id: str, memory: MemberMemory) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = -1  # -1: its topics are not as they must be
        self.standby_replicas = -1  # of the last epoch; -1: none has been recorded
        self.target_epoch = 0
        self.assigned_at_ms = 0  # when the target was computed; 0: never
        self.topology: Topology | None = None
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Tasks] = {}
        self.configured: Configured | None = None  # of the topology and the topics, while neither changes
        self.is_stale = True  # topics may have changed since the epoch was last compared with them
        self.is_loading = False  # the log is being replayed: it may lack what compaction took
        self.shutdown_member_id: str | None = None  # that asked for the end of the whole application
        self.endpoint_epoch = 0  # rises when a member with an endpoint gets other tasks
        self._memory = memory
        self._owners: dict[tuple[str, int], str] = {}  # of active tasks
        self._by_process: dict[str, Counter[tuple[str, int]]] = {}  # tasks in any role
        self._held_bytes: dict[str, int] = {}
        self._topology_bytes = 0

    # --- replay

    def replay(self, record: CoordinatorRecord) -> None:
        """Any record of the group but the one that removes it."""
        key, value = record.key, record.value
        if isinstance(key, StreamsGroupCurrentMemberAssignmentKey):
            self._replay_current(key.member_id, cast("StreamsGroupCurrentMemberAssignmentValue | None", value))
        elif isinstance(key, StreamsGroupTargetAssignmentMemberKey):
            target = cast("StreamsGroupTargetAssignmentMemberValue | None", value)
            if target is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = target_of(target)
            self._count_bytes(key.member_id)
        elif isinstance(key, StreamsGroupMemberMetadataKey):
            self._replay_member(key.member_id, cast("StreamsGroupMemberMetadataValue | None", value))
        elif isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
            self._replay_target_epoch(cast("StreamsGroupTargetAssignmentMetadataValue | None", value))
        elif isinstance(value, StreamsGroupMetadataValue):
            self._replay_epoch(value)
        else:
            self._replay_topology(cast("StreamsGroupTopologyValue | None", value))

    def _replay_epoch(self, value: StreamsGroupMetadataValue) -> None:
        check(
            self.is_loading or value.epoch >= self.epoch,
            "18 the epoch of a group never falls",
            group=self.group_id,
            before=self.epoch,
            now=value.epoch,
        )
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        self.validated_topology_epoch = value.validated_topology_epoch
        self.standby_replicas = records.standby_replicas_of(value)

    def _replay_topology(self, value: StreamsGroupTopologyValue | None) -> None:
        self.topology = None if value is None else Topology(value)
        self.configured, self.is_stale = None, True
        size_bytes = 0 if self.topology is None else self.topology.size_bytes
        self._memory.change(size_bytes - self._topology_bytes)
        self._topology_bytes = size_bytes

    def _replay_target_epoch(self, value: StreamsGroupTargetAssignmentMetadataValue | None) -> None:
        if value is None:
            self.target_epoch, self.assigned_at_ms = UNDEFINED_EPOCH, 0
            return
        check(
            self.is_loading or self.target_epoch <= value.assignment_epoch <= self.epoch,
            "18 a target follows the epoch of its group",
            group=self.group_id,
            epoch=self.epoch,
            before=self.target_epoch,
            now=value.assignment_epoch,
        )
        self.target_epoch, self.assigned_at_ms = value.assignment_epoch, value.assignment_timestamp

    def _replay_member(self, member_id: str, value: StreamsGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._put((before or Member(member_id)).with_metadata(value))
        elif before is not None:
            check(
                self.is_loading or not (before.assigned.size or before.revoking.size),
                "18 a member that is removed owns nothing",
                group=self.group_id,
                member=member_id,
            )
            self._give_up(before)
            del self.members[member_id]
            if not self.members:
                self.shutdown_member_id = None
            self._count_bytes(member_id)

    def _replay_current(self, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._put((before or Member(member_id)).with_assignment(value))
        elif before is not None:
            self._put(
                before._replace(
                    member_epoch=LEAVES, previous_epoch=LEAVES, assigned=NOTHING_HELD, revoking=NOTHING_HELD
                )
            )

    def _put(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._give_up(before)
        self.members[member.member_id] = member
        own = self._by_process.setdefault(member.process_id, Counter())
        own.update(_every_task(member))
        for task in _active_tasks(member):
            owner = self._owners.setdefault(task, member.member_id)
            if owner != member.member_id:
                if not self.is_loading:
                    broken(
                        "18 an active task has one owner",
                        group=self.group_id,
                        task=task,
                        owner=owner,
                        member=member.member_id,
                    )
                self._owners[task] = member.member_id
        self._count_bytes(member.member_id)

    def _give_up(self, member: Member) -> None:
        own = self._by_process.get(member.process_id, Counter())
        own.subtract(_every_task(member))
        remaining = +own
        if remaining:
            self._by_process[member.process_id] = remaining
        else:
            self._by_process.pop(member.process_id, None)
        for task in _active_tasks(member):
            if self._owners.get(task) == member.member_id:
                del self._owners[task]

    def _count_bytes(self, member_id: str) -> None:
        member = self.members.get(member_id)
        size_bytes = 0 if member is None else member.size_bytes
        size_bytes += target_bytes(self.targets.get(member_id, NOTHING))
        self._memory.change(size_bytes - self._held_bytes.pop(member_id, 0))
        if size_bytes:
            self._held_bytes[member_id] = size_bytes

    def let_go(self) -> None:
        """The group is gone, or another coordinator's: its members no longer count here."""
        self._memory.change(-sum(self._held_bytes.values()) - self._topology_bytes)
        self._held_bytes.clear()
        self._topology_bytes = 0

    # --- questions

    @property
    def state(self) -> str:
        if not self.members:
            return EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return NOT_READY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        reconciled = all(member.is_reconciled_to(self.target_epoch) for member in self.members.values())
        return STABLE if reconciled else RECONCILING

    def has_active(self, subtopology: str, partition: int) -> bool:
        return (subtopology, partition) in self._owners

    def process_has(self, process_id: str, subtopology: str, partition: int) -> bool:
        return (subtopology, partition) in self._by_process.get(process_id, ())

    def subscribes_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.reader_of

    # --- what every kind of group answers

    def may_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        return self._may_commit(request, version, in_transaction=False)

    def may_commit_in_transaction(self, request: OffsetCommitRequest) -> ErrorCode:
        error = self._may_commit(request, MEMBER_EPOCHS_SINCE, in_transaction=True)
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    def _may_commit(self, request: OffsetCommitRequest, version: int, *, in_transaction: bool) -> ErrorCode:
        """A member commits with its epoch, or with an older one for tasks that it has had since then. Anybody may
        while the group is empty."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if in_transaction and epoch == -1 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not in_transaction and version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.member_epoch:
            return ErrorCode.NONE
        if epoch > member.member_epoch or self.topology is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        for topic in request.topics:
            reader = self.topology.reader_of.get(topic.name)
            for partition in topic.partitions:
                since = None if reader is None else member.epoch_of(reader, partition.partition_index)
                if since is None or epoch < since:
                    return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def may_fetch_offsets(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.member_epoch else ErrorCode.STALE_MEMBER_EPOCH

    def may_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def may_be_deleted(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def describe(self) -> DescribedGroup | None:
        return None  # StreamsGroupDescribe does

    def expire(self) -> Expiry:
        return Expiry(offsets_may_go=True, since_ms=NO_TIMESTAMP, group_may_go=not self.members)

    def removal(self) -> list[CoordinatorRecord]:
        return records.group_removed(self.group_id, self.members)


def _active_tasks(member: Member) -> Iterator[tuple[str, int]]:
    for held in (member.assigned, member.revoking):
        for subtopology, partitions in held.active.items():
            for partition in partitions:
                yield subtopology, partition


def _every_task(member: Member) -> Iterator[tuple[str, int]]:
    yield from _active_tasks(member)
    for held in (member.assigned, member.revoking):
        for role in (held.standby, held.warmup):
            for subtopology, partitions in role.items():
                for partition in partitions:
                    yield subtopology, partition
