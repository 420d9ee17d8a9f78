"""The records of `__consumer_offsets` for share groups, as Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from chronik.coordinator.groups.share.member import Member, Partitions, stored_target
from chronik.coordinator.groups.share.state_partitions import StatePartitions, to_record
from chronik.coordinator.shard import CoordinatorRecord, RecordType
from chronik.wire.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

# Replayed at append, as those of consumer groups, and for the same reason.
RECORD_TYPES: Final = {
    key.record_type: RecordType(key, value, at_append=True)
    for key, value in (
        (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
        (ShareGroupMetadataKey, ShareGroupMetadataValue),
        (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
        (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
        (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
        (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    )
}
KEYS: Final = tuple(kind.key for kind in RECORD_TYPES.values())


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupMetadataKey(group_id=group_id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def member_record(group_id: str, member: Member) -> CoordinatorRecord:
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, member.to_metadata())


def current_record(group_id: str, member: Member) -> CoordinatorRecord:
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, member.to_assignment())


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, ShareGroupTargetAssignmentMemberValue(topic_partitions=stored_target(target)))


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_at_ms),
    )


def state_partitions_record(group_id: str, kept: StatePartitions) -> CoordinatorRecord:
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), to_record(kept))


def member_removed(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_removed(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    written = [record for each in member_ids for record in member_removed(group_id, each)]
    keys = (
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupMetadataKey(group_id=group_id),
    )
    return [*written, *(CoordinatorRecord(key, None) for key in keys)]
