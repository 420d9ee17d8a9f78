"""StreamsGroupHeartbeat (key 88): a member of a streams group joins, reports, gets its tasks and leaves.

v0 only, flexible.

In the request, null and -1 mean unchanged.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, int8, int16, int32, int64, string, uint16


class StreamsGroupHeartbeatRequest(Request, api_key=88, versions="0", flexible="0+"):
    group_id: string
    member_id: string
    member_epoch: int32  # 0 join, -1 leave, -2 leave for a while (static)
    endpoint_information_epoch: int32
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: string | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: boolean = False


class Topology(Struct):
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
    topic_configs: list[KeyValue]


class KeyValue(Struct):
    key: string
    value: string


class CopartitionGroup(Struct):
    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


class TaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]


class Endpoint(Struct):
    host: string
    port: uint16


class TaskOffset(Struct):
    subtopology_id: string
    partition: int32
    offset: int64


class StreamsGroupHeartbeatResponse(Response, api_key=88, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = None
    member_id: string
    member_epoch: int32
    heartbeat_interval_ms: int32
    acceptable_recovery_lag: int32
    task_offset_interval_ms: int32
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


class Status(Struct):
    status_code: int8
    status_detail: string


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


class TopicPartition(Struct):
    topic: string
    partitions: list[int32]
