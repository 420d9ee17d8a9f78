"""A share group: its members, its epochs, its targets, and which of its partitions have state.

All of it is what the log says, and changes by replay alone. The group epoch rises when the members, what they subscribe
to, or the partitions that can be assigned change; a target follows, and members take it over one by one.

Invariants: no epoch falls while this node leads; a group exists as long as it has an epoch or state in the log.
"""

from __future__ import annotations

from typing import Final, cast

from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.group import NO_TIMESTAMP, Expiry
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.share import records
from chronik.coordinator.groups.share.member import (
    LEAVES,
    NOTHING,
    PARTITION_BYTES,
    Member,
    Partitions,
    count,
    partitions_of,
)
from chronik.coordinator.groups.share.state_partitions import StatePartitions, from_record
from chronik.coordinator.shard import CoordinatorRecord
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_groups import DescribedGroup
from chronik.wire.messages.offset_commit import OffsetCommitRequest
from chronik.wire.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

EMPTY: Final = "Empty"
STABLE: Final = "Stable"
FIRST_EPOCH: Final = 1  # before any record: 0 is what members join with
UNDEFINED_EPOCH: Final = -1  # the target's, while the group is being removed


class ShareGroup:
    type: Final = "share"
    protocol_type: Final = "share"
    is_stored: Final = True

    def __init__(self, group_id: str, memory: MemberMemory) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH  # a group without members has nothing to assign
        self.assigned_at_ms = 0  # when the target was computed; 0: never
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Partitions] = {}
        self.state_partitions = StatePartitions()
        self.is_stale = True  # topics, or what can be assigned, may have changed since the epoch rose
        self.is_loading = False  # the log is being replayed: it may lack what compaction took
        self._memory = memory
        self._names: dict[str, int] = {}  # topic to the number of members that name it
        self._held_bytes: dict[str, int] = {}

    # --- replay

    def replay(self, record: CoordinatorRecord) -> None:
        """Any record of the group but the one that removes it."""
        key, value = record.key, record.value
        if isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            self._replay_current(key.member_id, cast("ShareGroupCurrentMemberAssignmentValue | None", value))
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            target = cast("ShareGroupTargetAssignmentMemberValue | None", value)
            if target is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = partitions_of(target.topic_partitions)
            self._count_bytes(key.member_id)
        elif isinstance(key, ShareGroupMemberMetadataKey):
            self._replay_member(key.member_id, cast("ShareGroupMemberMetadataValue | None", value))
        elif isinstance(key, ShareGroupTargetAssignmentMetadataKey):
            self._replay_target_epoch(cast("ShareGroupTargetAssignmentMetadataValue | None", value))
        elif isinstance(key, ShareGroupStatePartitionMetadataKey):
            kept = cast("ShareGroupStatePartitionMetadataValue | None", value)
            self.state_partitions = StatePartitions() if kept is None else from_record(kept)
            self.is_stale = True
        else:
            self._replay_epoch(cast("ShareGroupMetadataValue", value))

    def _replay_epoch(self, value: ShareGroupMetadataValue) -> None:
        check(
            self.is_loading or value.epoch >= self.epoch,
            "18 the epoch of a group never falls",
            group=self.group_id,
            before=self.epoch,
            now=value.epoch,
        )
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_target_epoch(self, value: ShareGroupTargetAssignmentMetadataValue | None) -> None:
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

    def _replay_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count_names(before, -1)
        if value is not None:
            member = (before or Member(member_id)).with_metadata(value)
            self.members[member_id] = member
            self._count_names(member, +1)
        elif before is not None:
            del self.members[member_id]
        self._count_bytes(member_id)

    def _replay_current(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            if before is None:
                self.members[member_id] = before = Member(member_id)
            self.members[member_id] = before.with_assignment(value)
        elif before is not None:
            self.members[member_id] = before._replace(member_epoch=LEAVES, previous_epoch=LEAVES, assigned=NOTHING)
        self._count_bytes(member_id)

    def _count_names(self, member: Member, step: int) -> None:
        for name in member.topics:
            number = self._names.get(name, 0) + step
            if number > 0:
                self._names[name] = number
            else:
                self._names.pop(name, None)

    def _count_bytes(self, member_id: str) -> None:
        member = self.members.get(member_id)
        size_bytes = 0 if member is None else member.size_bytes
        size_bytes += PARTITION_BYTES * count(self.targets.get(member_id, NOTHING))
        self._memory.change(size_bytes - self._held_bytes.pop(member_id, 0))
        if size_bytes:
            self._held_bytes[member_id] = size_bytes

    def let_go(self) -> None:
        """The group is gone, or another coordinator's: its members no longer count here."""
        self._memory.change(-sum(self._held_bytes.values()))
        self._held_bytes.clear()

    # --- questions

    @property
    def state(self) -> str:
        return STABLE if self.members else EMPTY

    @property
    def subscribed(self) -> set[str]:
        return set(self._names)

    def subscribes_to(self, topic: str) -> bool:
        return topic in self._names

    def lacks_assignment(self, topics: Topics) -> bool:
        """Whether partitions of subscribed topics can be assigned, and differ from those that the targets name."""
        targeted: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic_id, parts in target.items():
                targeted.setdefault(topic_id, set()).update(parts)
        return bool(self.members) and any(
            each.name in self._names
            and topics.name_of(topic_id) is not None
            and targeted.get(topic_id, set()) != each.partitions
            for topic_id, each in self.state_partitions.initialized.items()
        )

    # --- what every kind of group answers: share groups commit no offsets, and keep none

    def may_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def may_commit_in_transaction(self, request: OffsetCommitRequest) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def may_fetch_offsets(self, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def may_delete_offsets(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def may_be_deleted(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def describe(self) -> DescribedGroup | None:
        return None

    def expire(self) -> Expiry:
        """A share group stays until somebody deletes it: where it has got to is not stored with a date."""
        return Expiry(offsets_may_go=False, since_ms=NO_TIMESTAMP, group_may_go=False)

    def removal(self) -> list[CoordinatorRecord]:
        return records.group_removed(self.group_id, self.members)
