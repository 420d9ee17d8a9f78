"""The records of `__consumer_offsets` for streams groups, as Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from chronik.coordinator.groups.streams.member import Member, stored_target
from chronik.coordinator.groups.streams.tasks import Tasks
from chronik.coordinator.shard import CoordinatorRecord, RecordType
from chronik.wire.messages.streams_group_records import (
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

# Replayed at append, for the same reason as those of consumer groups.
RECORD_TYPES: Final = {
    key.record_type: RecordType(key, value, at_append=True)
    for key, value in (
        (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
        (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
        (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
        (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
        (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
        (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
    )
}
KEYS: Final = tuple(each.key for each in RECORD_TYPES.values())


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, standby_replicas: int
) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[]
            if standby_replicas < 0
            else [LastAssignmentConfig(key=STANDBY_REPLICAS, value=str(standby_replicas))],
        ),
    )


STANDBY_REPLICAS: Final = "num.standby.replicas"


def standby_replicas_of(value: StreamsGroupMetadataValue) -> int:
    """With which the last assignment was made; -1 if the record does not say."""
    for each in value.last_assignment_configs or ():
        if each.key == STANDBY_REPLICAS and each.value.isdecimal():
            return int(each.value)
    return -1


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def member_record(group_id: str, member: Member) -> CoordinatorRecord:
    key = StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, member.to_metadata())


def current_record(group_id: str, member: Member) -> CoordinatorRecord:
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, member.to_assignment())


def target_record(group_id: str, member_id: str, target: Tasks) -> CoordinatorRecord:
    key = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, stored_target(target))


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_at_ms),
    )


def member_removed(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """In this order: a member that is removed has neither tasks nor a target."""
    return [
        CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_removed(group_id: str, member_ids: Collection[str]) -> list[CoordinatorRecord]:
    keys = [
        *(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each) for each in member_ids),
        *(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each) for each in member_ids),
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        *(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=each) for each in member_ids),
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupTopologyKey(group_id=group_id),
    ]
    return [CoordinatorRecord(key, None) for key in keys]
