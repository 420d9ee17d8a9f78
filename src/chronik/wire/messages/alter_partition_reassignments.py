"""AlterPartitionReassignments (key 45): moves replicas of partitions to other brokers, or cancels such a move.

v1 allow_replication_factor_change. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int16, int32, string


class AlterPartitionReassignmentsRequest(Request, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: boolean = field("1+", default=True)
    topics: list[ReassignableTopic]


class ReassignableTopic(Struct):
    name: string
    partitions: list[ReassignablePartition]


class ReassignablePartition(Struct):
    partition_index: int32
    replicas: list[int32] | None = None  # null cancels the move


class AlterPartitionReassignmentsResponse(Response, api_key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    allow_replication_factor_change: boolean = field("1+", default=True)
    error_code: int16
    error_message: string | None
    responses: list[ReassignableTopicResponse]


class ReassignableTopicResponse(Struct):
    name: string
    partitions: list[ReassignablePartitionResponse]


class ReassignablePartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None
