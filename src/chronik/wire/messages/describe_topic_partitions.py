"""DescribeTopicPartitions (key 75): topics and their partitions, in pages.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, int16, int32, string, uuid


class DescribeTopicPartitionsRequest(Request, api_key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest]
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


class TopicRequest(Struct):
    name: string


class Cursor(Struct):
    topic_name: string
    partition_index: int32


class DescribeTopicPartitionsResponse(Response, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: int32
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16
    name: string | None
    topic_id: uuid
    is_internal: boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int32 = -2147483648  # the default: not asked for


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = -1
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    eligible_leader_replicas: list[int32] | None = None
    last_known_elr: list[int32] | None = None
    offline_replicas: list[int32]
