"""OffsetCommit (key 8): stores a group's positions.

v1 generation, member and commit_timestamp; v2 retention_time_ms instead of commit_timestamp; v3 throttle_time_ms;
v4 the client waits out throttling; v5 no retention_time_ms; v6 committed_leader_epoch; v7 static members; v8 flexible;
v9 for consumer groups of the new protocol too; v10 topic ids instead of names.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, int64, string, uuid


class OffsetCommitRequest(Request, api_key=8, versions="0-10", flexible="8+"):
    group_id: string
    generation_id_or_member_epoch: int32 = field("1+", default=-1)  # -1: no member
    member_id: string = field("1+")
    group_instance_id: string | None = field("7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitRequestTopic(Struct):
    name: string = field("0-9")
    topic_id: uuid = field("10+")
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64
    commit_timestamp: int64 = field("1", default=-1)
    committed_leader_epoch: int32 = field("6+", default=-1)
    committed_metadata: string | None


class OffsetCommitResponse(Response, api_key=8, versions="0-10", flexible="8+"):
    throttle_time_ms: int32 = field("3+")
    topics: list[OffsetCommitResponseTopic]


class OffsetCommitResponseTopic(Struct):
    name: string = field("0-9")
    topic_id: uuid = field("10+")
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16
