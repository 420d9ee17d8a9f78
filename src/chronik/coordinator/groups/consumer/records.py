"""The records of `__consumer_offsets` for consumer groups, as Kafka 4.3 writes them."""

from __future__ import annotations

from typing import Final

from chronik.coordinator.groups.consumer.member import Member, Target, stored_target
from chronik.coordinator.shard import CoordinatorRecord, RecordType
from chronik.wire.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

# Replayed at append: otherwise two concurrent heartbeats of a group would both be decided on the state before, and the
# second target would lack the first member.
RECORD_TYPES: Final = {
    key.record_type: RecordType(key, value, at_append=True)
    for key, value in (
        (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    )
}


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_record(group_id: str, member: Member) -> CoordinatorRecord:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, member.to_metadata())


def current_record(group_id: str, member: Member) -> CoordinatorRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, member.to_assignment())


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=stored_target(target)))


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_at_ms),
    )


def regex_record(group_id: str, regex: str, topics: frozenset[str], version: int, now_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=now_ms),
    )


def regex_removed(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def old_metadata_removed(group_id: str) -> CoordinatorRecord:
    """Kafka before 4.1 wrote a group's topics as records, which a hash replaces today."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_removed(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """In this order: a removed member has neither an assignment nor a target."""
    return [
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_removed(group_id: str, member_ids: list[str], regexes: list[str]) -> list[CoordinatorRecord]:
    currents = [ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each) for each in member_ids]
    targets = [ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each) for each in member_ids]
    members = [ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=each) for each in member_ids]
    patterns = [ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=each) for each in regexes]
    keys = [
        *currents,
        *targets,
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        *members,
        *patterns,
        ConsumerGroupPartitionMetadataKey(group_id=group_id),
        ConsumerGroupMetadataKey(group_id=group_id),
    ]
    return [CoordinatorRecord(key, None) for key in keys]
