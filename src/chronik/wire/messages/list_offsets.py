"""ListOffsets (key 2): the offset at a position or a time, per partition.

v1 one offset, not a list; v2 isolation_level, throttle_time_ms; v3 the client waits out throttling; v4 leader epochs;
v5 OFFSET_NOT_AVAILABLE; v6 flexible; v7 timestamp -3; v8 timestamp -4; v9 timestamp -5; v10 timeout_ms; v11 timestamp
-6.

Timestamps: -1 end, -2 log start, -3 largest timestamp, -4 local log start, -5 last tiered, -6 first not yet tiered.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int8, int16, int32, int64, string


class ListOffsetsRequest(Request, api_key=2, versions="0-11", flexible="6+"):
    replica_id: int32  # -1 consumer, -2 debugging
    isolation_level: int8 = field("2+")  # 0 read uncommitted, 1 read committed
    topics: list[ListOffsetsTopic]
    timeout_ms: int32 = field("10+")


class ListOffsetsTopic(Struct):
    name: string
    partitions: list[ListOffsetsPartition]


class ListOffsetsPartition(Struct):
    partition_index: int32
    current_leader_epoch: int32 = field("4+", default=-1)
    timestamp: int64
    max_num_offsets: int32 = field("0", default=1)


class ListOffsetsResponse(Response, api_key=2, versions="0-11", flexible="6+"):
    throttle_time_ms: int32 = field("2+")
    topics: list[ListOffsetsTopicResponse]


class ListOffsetsTopicResponse(Struct):
    name: string
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    old_style_offsets: list[int64] = field("0")
    timestamp: int64 = field("1+", default=-1)
    offset: int64 = field("1+", default=-1)
    leader_epoch: int32 = field("4+", default=-1)
