"""Records of __consumer_offsets for streams groups: epochs, members, tasks and the topology.

All v0, values flexible. A null value removes what the key names.
"""

from __future__ import annotations

from chronik.wire.notation import InternalRecord, Struct, field, int8, int16, int32, int64, string, uint16


class StreamsGroupMetadataKey(InternalRecord, record_type=17, versions="0"):
    group_id: string


class StreamsGroupMetadataValue(InternalRecord, record_type=17, versions="0", flexible="0+"):
    epoch: int32
    metadata_hash: int64
    validated_topology_epoch: int32 = field(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(tag=1)


class LastAssignmentConfig(Struct):
    key: string
    value: string


class StreamsGroupMemberMetadataKey(InternalRecord, record_type=19, versions="0"):
    group_id: string
    member_id: string


class StreamsGroupMemberMetadataValue(InternalRecord, record_type=19, versions="0", flexible="0+"):
    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32
    process_id: string
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]


class Endpoint(Struct):
    host: string
    port: uint16


class KeyValue(Struct):
    key: string
    value: string


class StreamsGroupTargetAssignmentMetadataKey(InternalRecord, record_type=20, versions="0"):
    group_id: string


class StreamsGroupTargetAssignmentMetadataValue(InternalRecord, record_type=20, versions="0", flexible="0+"):
    assignment_epoch: int32
    assignment_timestamp: int64 = field(tag=0)


class StreamsGroupTargetAssignmentMemberKey(InternalRecord, record_type=21, versions="0"):
    group_id: string
    member_id: string


class StreamsGroupTargetAssignmentMemberValue(InternalRecord, record_type=21, versions="0", flexible="0+"):
    active_tasks: list[TargetTaskIds]
    standby_tasks: list[TargetTaskIds]
    warmup_tasks: list[TargetTaskIds]


class TargetTaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]


class StreamsGroupCurrentMemberAssignmentKey(InternalRecord, record_type=22, versions="0"):
    group_id: string
    member_id: string


class StreamsGroupCurrentMemberAssignmentValue(InternalRecord, record_type=22, versions="0", flexible="0+"):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    active_tasks: list[CurrentTaskIds]
    standby_tasks: list[CurrentTaskIds]
    warmup_tasks: list[CurrentTaskIds]
    active_tasks_pending_revocation: list[CurrentTaskIds]
    standby_tasks_pending_revocation: list[CurrentTaskIds]
    warmup_tasks_pending_revocation: list[CurrentTaskIds]


class CurrentTaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]
    assignment_epochs: list[int32] | None = field(tag=0)


class StreamsGroupTopologyKey(InternalRecord, record_type=23, versions="0"):
    group_id: string


class StreamsGroupTopologyValue(InternalRecord, record_type=23, versions="0", flexible="0+"):
    epoch: int32
    subtopologies: list[Subtopology]


class Subtopology(Struct):
    subtopology_id: string
    source_topics: list[string]
    source_topic_regex: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[string]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class TopicInfo(Struct):
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[TopicConfig]


class TopicConfig(Struct):
    key: string
    value: string


class CopartitionGroup(Struct):
    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]
