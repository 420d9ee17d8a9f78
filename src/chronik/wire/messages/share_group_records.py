"""Records of __consumer_offsets for share groups: epochs, members, assignments, and which partitions have state.

All v0, values flexible. A null value removes what the key names.
"""

from __future__ import annotations

from chronik.wire.notation import InternalRecord, Struct, field, int8, int32, int64, string, uuid


class ShareGroupMemberMetadataKey(InternalRecord, record_type=10, versions="0"):
    group_id: string
    member_id: string


class ShareGroupMemberMetadataValue(InternalRecord, record_type=10, versions="0", flexible="0+"):
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]


class ShareGroupMetadataKey(InternalRecord, record_type=11, versions="0"):
    group_id: string


class ShareGroupMetadataValue(InternalRecord, record_type=11, versions="0", flexible="0+"):
    epoch: int32
    metadata_hash: int64


class ShareGroupTargetAssignmentMetadataKey(InternalRecord, record_type=12, versions="0"):
    group_id: string


class ShareGroupTargetAssignmentMetadataValue(InternalRecord, record_type=12, versions="0", flexible="0+"):
    assignment_epoch: int32
    assignment_timestamp: int64 = field(tag=0)


class ShareGroupTargetAssignmentMemberKey(InternalRecord, record_type=13, versions="0"):
    group_id: string
    member_id: string


class ShareGroupTargetAssignmentMemberValue(InternalRecord, record_type=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition]


class TopicPartition(Struct):
    topic_id: uuid
    partitions: list[int32]


class ShareGroupCurrentMemberAssignmentKey(InternalRecord, record_type=14, versions="0"):
    group_id: string
    member_id: string


class ShareGroupCurrentMemberAssignmentValue(InternalRecord, record_type=14, versions="0", flexible="0+"):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]


class ShareGroupStatePartitionMetadataKey(InternalRecord, record_type=15, versions="0"):
    group_id: string


class ShareGroupStatePartitionMetadataValue(InternalRecord, record_type=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]


class TopicPartitionsInfo(Struct):
    topic_id: uuid
    topic_name: string
    partitions: list[int32]


class TopicInfo(Struct):
    topic_id: uuid
    topic_name: string
