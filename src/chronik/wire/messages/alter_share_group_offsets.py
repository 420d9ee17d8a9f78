"""AlterShareGroupOffsets (key 91): sets where a share group without members starts to read.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, int64, string, uuid


class AlterShareGroupOffsetsRequest(Request, api_key=91, versions="0", flexible="0+"):
    group_id: string
    topics: list[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: string
    partitions: list[AlterShareGroupOffsetsRequestPartition]


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int32
    start_offset: int64


class AlterShareGroupOffsetsResponse(Response, api_key=91, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = None
