"""A consumer group: its members, its epochs, its target assignment, and the owner of each partition.

The log holds all of this state, and only replay changes it. A record's effect does not depend on when it is replayed.
The group epoch increases when the members, their subscriptions or their topics change. The target epoch follows when
the target has been computed for it. A member's epoch follows when the member has reached its target.

Invariants: a partition has one owner; no epoch falls while this node leads; a member that is removed owns nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, cast

from chronik.coordinator.groups.consumer import records
from chronik.coordinator.groups.consumer.member import (
    LEAVES,
    NAME_BYTES,
    NO_TARGET,
    NOTHING_OWNED,
    PARTITION_BYTES,
    Member,
    MemberState,
    Target,
    target_of,
)
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.group import NO_TIMESTAMP, Expiry
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.shard import CoordinatorRecord
from chronik.runtime.invariants import broken, check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from chronik.wire.messages.describe_groups import DescribedGroup
from chronik.wire.messages.offset_commit import OffsetCommitRequest
from chronik.wire.notation import ZERO_UUID

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"  # the target is from an older epoch
RECONCILING: Final = "Reconciling"  # a member has not reached its target yet
STABLE: Final = "Stable"

FIRST_EPOCH: Final = 1  # before any record: members join with 0
MEMBER_EPOCHS_SINCE: Final = 9  # the version of OffsetCommit with member epochs
UNDEFINED_EPOCH: Final = -1  # the target's epoch while the group is being removed


class Resolved(NamedTuple):
    """The topics of one image that match a regular expression."""

    topics: frozenset[str]
    version: int
    resolved_at_ms: int


class ConsumerGroup:
    type: Final = "consumer"
    protocol_type: Final = "consumer"
    is_stored: Final = True

    def __init__(self, group_id: str, memory: MemberMemory, topics: Topics) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = 0
        self.assigned_at_ms = 0  # time when the target was computed; 0: never
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Target] = {}
        self.static_members: dict[str, str] = {}  # group.instance.id to member id
        self.resolved: dict[str, Resolved] = {}  # by regular expression
        self.has_old_metadata = False  # whether the log holds a record that releases of Kafka before 4.1 wrote
        self.is_stale = True  # whether topics may have changed since the last comparison with the epoch
        self.is_loading = False  # while the log is replayed, records that compaction removed may be missing
        self._stored_epoch = 0  # the last recorded epoch; a converted group begins with its generation
        self._memory = memory
        self._topics = topics
        self._names: dict[str, int] = {}  # topic to the number of members that name it
        self._regexes: dict[str, int] = {}  # regular expression to the number of its subscribers
        self._owners: dict[bytes, dict[int, str]] = {}
        self._held_bytes: dict[str, int] = {}
        self._resolved_bytes = 0

    # --- replay

    def replay_epoch(self, value: ConsumerGroupMetadataValue) -> None:
        check(
            self.is_loading or value.epoch >= self._stored_epoch,
            "18 the epoch of a group never falls",
            group=self.group_id,
            before=self._stored_epoch,
            now=value.epoch,
        )
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        self._stored_epoch = value.epoch

    def replay_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
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

    def replay_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target_of(value.topic_partitions)
        self._count_bytes(member_id)

    def replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._put((before or Member(member_id)).with_metadata(value))
            return
        if before is None:
            return
        check(
            self.is_loading or not (before.assigned or before.revoking),
            "18 a member that is removed owns nothing",
            group=self.group_id,
            member=member_id,
        )
        self._give_up(before)
        self._count_subscription(before, -1)
        del self.members[member_id]
        if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
            del self.static_members[before.instance_id]
        self._count_bytes(member_id)

    def replay_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._put((before or Member(member_id)).with_assignment(value))
        elif before is not None:
            self._put(
                before._replace(
                    member_epoch=LEAVES, previous_epoch=LEAVES, assigned=NOTHING_OWNED, revoking=NOTHING_OWNED
                )
            )

    def replay_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        before = self.resolved.pop(regex, None)
        if value is not None:
            self.resolved[regex] = Resolved(frozenset(value.topics), value.version, value.timestamp)
        more_bytes = _size_bytes(self.resolved.get(regex)) - _size_bytes(before)
        self._resolved_bytes += more_bytes
        self._memory.change(more_bytes)

    def replay(self, record: CoordinatorRecord) -> None:
        """Replays a record with a value of this group, or the removal of one."""
        key, value = record.key, record.value
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self.replay_current(key.member_id, cast("ConsumerGroupCurrentMemberAssignmentValue | None", value))
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            self.replay_target(key.member_id, cast("ConsumerGroupTargetAssignmentMemberValue | None", value))
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self.replay_member(key.member_id, cast("ConsumerGroupMemberMetadataValue | None", value))
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            self.replay_target_epoch(cast("ConsumerGroupTargetAssignmentMetadataValue | None", value))
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            self.replay_regex(key.regular_expression, cast("ConsumerGroupRegularExpressionValue | None", value))
        elif isinstance(value, ConsumerGroupMetadataValue):
            self.replay_epoch(value)
        else:
            self.has_old_metadata = value is not None

    def _put(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._give_up(before)
            self._count_subscription(before, -1)
        self.members[member.member_id] = member
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                owners = self._owners.setdefault(topic_id, {})
                for partition in partitions:
                    if partition in owners and not self.is_loading:
                        broken(
                            "18 a partition has one owner",
                            group=self.group_id,
                            partition=partition,
                            owner=owners[partition],
                            member=member.member_id,
                        )
                    owners[partition] = member.member_id
        self._count_subscription(member, +1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count_bytes(member.member_id)

    def _give_up(self, member: Member) -> None:
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)

    def _count_subscription(self, member: Member, step: int) -> None:
        for counts, keys in ((self._names, member.topics), (self._regexes, (member.regex,) if member.regex else ())):
            for key in keys:
                count = counts.get(key, 0) + step
                if count > 0:
                    counts[key] = count
                else:
                    counts.pop(key, None)

    def _count_bytes(self, member_id: str) -> None:
        member = self.members.get(member_id)
        size_bytes = 0 if member is None else member.size_bytes
        size_bytes += PARTITION_BYTES * sum(map(len, self.targets.get(member_id, NO_TARGET).values()))
        self._memory.change(size_bytes - self._held_bytes.pop(member_id, 0))
        if size_bytes:
            self._held_bytes[member_id] = size_bytes

    def let_go(self) -> None:
        """The group was removed, or another coordinator has it: its members no longer count here."""
        self._memory.change(-sum(self._held_bytes.values()) - self._resolved_bytes)
        self._held_bytes.clear()
        self._resolved_bytes = 0

    # --- queries

    @property
    def state(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        reconciled = all(member.is_reconciled_to(self.target_epoch) for member in self.members.values())
        return STABLE if reconciled else RECONCILING

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_held(self, topic_id: bytes, partition: int) -> bool:
        return partition in self._owners.get(topic_id, ())

    def owner_of(self, topic_id: bytes, partition: int) -> str | None:
        return self._owners.get(topic_id, {}).get(partition)

    def waits_for_others(self, member: Member) -> bool:
        """Whether a partition that the member should get still belongs to another member."""
        return member.state is MemberState.UNRELEASED and any(
            partition not in member.assigned.get(topic_id, ()) and self.is_held(topic_id, partition)
            for topic_id, partitions in self.targets.get(member.member_id, NO_TARGET).items()
            for partition in partitions
        )

    @property
    def regexes(self) -> Mapping[str, int]:
        """Regular expressions with their numbers of subscribers."""
        return self._regexes

    def topics_of(self, member: Member) -> frozenset[str]:
        """The member's topics. An expression that has not been resolved yet matches nothing."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed(self) -> set[str]:
        return {*self._names, *(topic for each in self.resolved.values() for topic in each.topics)}

    def subscribes_to(self, topic: str) -> bool:
        return topic in self._names or any(topic in each.topics for each in self.resolved.values())

    def assignor(self, members: Collection[Member] | None = None) -> str | None:
        """The assignor that most members request; the first by name in a tie."""
        counts: dict[str, int] = {}
        for member in self.members.values() if members is None else members:
            if member.assignor is not None:
                counts[member.assignor] = counts.get(member.assignor, 0) + 1
        return min(counts, key=lambda name: (-counts[name], name), default=None)

    @property
    def classic_count(self) -> int:
        return sum(member.uses_classic_protocol for member in self.members.values())

    # --- interface of all kinds of groups

    def may_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        return self._may_commit(request, version, in_transaction=False)

    def may_commit_in_transaction(self, request: OffsetCommitRequest) -> ErrorCode:
        error = self._may_commit(request, MEMBER_EPOCHS_SINCE, in_transaction=True)
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    def _may_commit(self, request: OffsetCommitRequest, version: int, *, in_transaction: bool) -> ErrorCode:
        """A member may commit with its current epoch. For partitions that it has had since then, it may use an older
        epoch, so that a commit that was sent before an epoch change is not lost. While the group is empty, every client
        may commit."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        if in_transaction and epoch == -1 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not in_transaction and not member.uses_classic_protocol and version < MEMBER_EPOCHS_SINCE:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.member_epoch:
            return ErrorCode.NONE
        stale = _stale(member)
        if epoch > member.member_epoch:
            return stale
        for topic in request.topics:
            topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else self._topics.id_of(topic.name)
            for partition in topic.partitions:
                since = None if topic_id is None else member.epoch_of(topic_id, partition.partition_index)
                if since is None or epoch < since:
                    return stale
        return ErrorCode.NONE

    def may_fetch_offsets(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.member_epoch else _stale(member)

    def may_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def may_be_deleted(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def describe(self) -> DescribedGroup | None:
        return None  # ConsumerGroupDescribe returns it

    def expire(self) -> Expiry:
        return Expiry(offsets_may_go=True, since_ms=NO_TIMESTAMP, group_may_go=not self.members)

    def removal(self) -> list[CoordinatorRecord]:
        return records.group_removed(self.group_id, list(self.members), list(self.resolved))


def _size_bytes(resolved: Resolved | None) -> int:
    return 0 if resolved is None else sum(NAME_BYTES + len(topic) for topic in resolved.topics)


def _stale(member: Member) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
