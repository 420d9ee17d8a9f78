"""StreamsGroupDescribe (key 89): state, topology and members of streams groups.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, int16, int32, int64, string, uint16


class StreamsGroupDescribeRequest(Request, api_key=89, versions="0", flexible="0+"):
    group_ids: list[string]
    include_authorized_operations: boolean


class StreamsGroupDescribeResponse(Response, api_key=89, versions="0", flexible="0+"):
    throttle_time_ms: int32
    groups: list[DescribedGroup]


class DescribedGroup(Struct):
    error_code: int16
    error_message: string | None = None
    group_id: string
    group_state: string
    group_epoch: int32
    assignment_epoch: int32
    topology: Topology | None = None
    members: list[Member]
    authorized_operations: int32 = -2147483648  # the default: not asked for


class Topology(Struct):
    epoch: int32
    subtopologies: list[Subtopology] | None = None


class Subtopology(Struct):
    subtopology_id: string
    source_topics: list[string]
    repartition_sink_topics: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


class TopicInfo(Struct):
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[KeyValue]


class KeyValue(Struct):
    key: string
    value: string


class Member(Struct):
    member_id: string
    member_epoch: int32
    instance_id: string | None = None
    rack_id: string | None = None
    client_id: string
    client_host: string
    topology_epoch: int32
    process_id: string
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: boolean


class Endpoint(Struct):
    host: string
    port: uint16


class TaskOffset(Struct):
    subtopology_id: string
    partition: int32
    offset: int64


class Assignment(Struct):
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class TaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]
