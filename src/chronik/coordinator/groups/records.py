"""The records of `__consumer_offsets` for classic groups and offsets, in the versions that Kafka 4.3 writes."""

from __future__ import annotations

from typing import Final

from chronik.coordinator.shard import CoordinatorRecord, RecordType
from chronik.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_VERSION: Final = 4
OFFSET_VERSION_WITH_EXPIRY: Final = 1  # the only version with an expiry time for each offset
GROUP_VERSION: Final = 3

RECORD_TYPES: Final = {
    # Keys of type 0 and 1 have one layout, and Kafka reads the values of both as those of type 1.
    LegacyOffsetCommitKey.record_type: RecordType(OffsetCommitKey, OffsetCommitValue),
    OffsetCommitKey.record_type: RecordType(OffsetCommitKey, OffsetCommitValue),
    GroupMetadataKey.record_type: RecordType(GroupMetadataKey, GroupMetadataValue),
}


def offset_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> CoordinatorRecord:
    version = OFFSET_VERSION if value.expire_timestamp == -1 else OFFSET_VERSION_WITH_EXPIRY
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def offset_removed(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_VERSION)


def group_removed(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)
