"""Records of __consumer_offsets for consumer groups: epochs, members, target and current assignments.

All v0, values flexible. A null value removes what the key names.
"""

from __future__ import annotations

from chronik.wire.notation import InternalRecord, Struct, binary, field, int8, int32, int64, string, uuid


class ConsumerGroupMetadataKey(InternalRecord, record_type=3, versions="0"):
    group_id: string


class ConsumerGroupMetadataValue(InternalRecord, record_type=3, versions="0", flexible="0+"):
    epoch: int32
    metadata_hash: int64 = field(tag=0)


class ConsumerGroupPartitionMetadataKey(InternalRecord, record_type=4, versions="0"):
    group_id: string


class ConsumerGroupPartitionMetadataValue(InternalRecord, record_type=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata]


class TopicMetadata(Struct):
    topic_id: uuid
    topic_name: string
    num_partitions: int32
    partition_metadata: list[PartitionMetadata]


class PartitionMetadata(Struct):
    partition: int32
    racks: list[string]


class ConsumerGroupMemberMetadataKey(InternalRecord, record_type=5, versions="0"):
    group_id: string
    member_id: string


class ConsumerGroupMemberMetadataValue(InternalRecord, record_type=5, versions="0", flexible="0+"):
    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None
    rebalance_timeout_ms: int32 = -1
    server_assignor: string | None
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32
    supported_protocols: list[ClassicProtocol]


class ClassicProtocol(Struct):
    name: string
    metadata: binary


class ConsumerGroupTargetAssignmentMetadataKey(InternalRecord, record_type=6, versions="0"):
    group_id: string


class ConsumerGroupTargetAssignmentMetadataValue(InternalRecord, record_type=6, versions="0", flexible="0+"):
    assignment_epoch: int32
    assignment_timestamp: int64 = field(tag=0)


class ConsumerGroupTargetAssignmentMemberKey(InternalRecord, record_type=7, versions="0"):
    group_id: string
    member_id: string


class ConsumerGroupTargetAssignmentMemberValue(InternalRecord, record_type=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition]


class TopicPartition(Struct):
    topic_id: uuid
    partitions: list[int32]


class ConsumerGroupCurrentMemberAssignmentKey(InternalRecord, record_type=8, versions="0"):
    group_id: string
    member_id: string


class ConsumerGroupCurrentMemberAssignmentValue(InternalRecord, record_type=8, versions="0", flexible="0+"):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]
    assignment_epochs: list[int32] | None = field(tag=0)


class ConsumerGroupRegularExpressionKey(InternalRecord, record_type=16, versions="0"):
    group_id: string
    regular_expression: string


class ConsumerGroupRegularExpressionValue(InternalRecord, record_type=16, versions="0", flexible="0+"):
    topics: list[string]
    version: int64
    timestamp: int64
