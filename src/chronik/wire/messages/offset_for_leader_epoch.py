"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, so that followers and consumers find where logs diverge.

v1 leader_epoch in the answer; v2 current_leader_epoch, throttle_time_ms; v3 replica_id; v4 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, int64, string


class OffsetForLeaderEpochRequest(Request, api_key=23, versions="0-4", flexible="4+"):
    replica_id: int32 = field("3+", default=-2)  # -1 consumer, -2 debugging
    topics: list[OffsetForLeaderTopic]


class OffsetForLeaderTopic(Struct):
    topic: string
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderPartition(Struct):
    partition: int32
    current_leader_epoch: int32 = field("2+", default=-1)
    leader_epoch: int32


class OffsetForLeaderEpochResponse(Response, api_key=23, versions="0-4", flexible="4+"):
    throttle_time_ms: int32 = field("2+")
    topics: list[OffsetForLeaderTopicResult]


class OffsetForLeaderTopicResult(Struct):
    topic: string
    partitions: list[EpochEndOffset]


class EpochEndOffset(Struct):
    error_code: int16
    partition: int32
    leader_epoch: int32 = field("1+", default=-1)
    end_offset: int64 = -1
