"""OffsetDelete (key 47): deletes a group's positions in topics it no longer reads.

v0 only, not flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, string


class OffsetDeleteRequest(Request, api_key=47, versions="0"):
    group_id: string
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteRequestTopic(Struct):
    name: string
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequestPartition(Struct):
    partition_index: int32


class OffsetDeleteResponse(Response, api_key=47, versions="0"):
    error_code: int16
    throttle_time_ms: int32
    topics: list[OffsetDeleteResponseTopic]


class OffsetDeleteResponseTopic(Struct):
    name: string
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponsePartition(Struct):
    partition_index: int32
    error_code: int16
