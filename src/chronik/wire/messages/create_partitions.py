"""CreatePartitions (key 37): adds partitions to topics.

v1 the client waits out throttling; v2 flexible; v3 THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, int16, int32, string


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic]
    timeout_ms: int32
    validate_only: boolean


class CreatePartitionsTopic(Struct):
    name: string
    count: int32
    assignments: list[CreatePartitionsAssignment] | None


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int32]


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int32
    results: list[CreatePartitionsTopicResult]


class CreatePartitionsTopicResult(Struct):
    name: string
    error_code: int16
    error_message: string | None = None
