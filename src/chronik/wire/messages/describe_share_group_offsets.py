"""DescribeShareGroupOffsets (key 90): where share groups start to read.

v1 lag. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, int64, string, uuid


class DescribeShareGroupOffsetsRequest(Request, api_key=90, versions="0-1", flexible="0+"):
    groups: list[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: string
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: string
    partitions: list[int32]


class DescribeShareGroupOffsetsResponse(Response, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    groups: list[DescribeShareGroupOffsetsResponseGroup]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: string
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: int16
    error_message: string | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32
    start_offset: int64
    leader_epoch: int32
    lag: int64 = field("1+", default=-1)
    error_code: int16
    error_message: string | None = None
