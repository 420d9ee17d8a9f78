"""DeleteRecords (key 21): moves the log start offset of partitions forward.

v1 the client waits out throttling; v2 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, int64, string


class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic]
    timeout_ms: int32


class DeleteRecordsTopic(Struct):
    name: string
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsPartition(Struct):
    partition_index: int32
    offset: int64


class DeleteRecordsResponse(Response, api_key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int32
    topics: list[DeleteRecordsTopicResult]


class DeleteRecordsTopicResult(Struct):
    name: string
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsPartitionResult(Struct):
    partition_index: int32
    low_watermark: int64
    error_code: int16
