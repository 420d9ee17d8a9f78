"""DescribeLogDirs (key 35): the contents of a broker's log directories.

v1 the client waits out throttling; v2 flexible; v3 error_code of the whole; v4 total_bytes and usable_bytes;
v5 is_cordoned.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int16, int32, int64, string


class DescribeLogDirsRequest(Request, api_key=35, versions="0-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None


class DescribableLogDirTopic(Struct):
    topic: string
    partitions: list[int32]


class DescribeLogDirsResponse(Response, api_key=35, versions="0-5", flexible="2+"):
    throttle_time_ms: int32
    error_code: int16 = field("3+")
    results: list[DescribeLogDirsResult]


class DescribeLogDirsResult(Struct):
    error_code: int16
    log_dir: string
    topics: list[DescribeLogDirsTopic]
    total_bytes: int64 = field("4+", default=-1)
    usable_bytes: int64 = field("4+", default=-1)
    is_cordoned: boolean = field("5+")


class DescribeLogDirsTopic(Struct):
    name: string
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsPartition(Struct):
    partition_index: int32
    partition_size: int64
    offset_lag: int64
    is_future_key: boolean
