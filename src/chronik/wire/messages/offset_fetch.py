"""OffsetFetch (key 9): reads a group's stored positions.

v0 and v1 same bytes; v2 null topics requests all, error_code of the whole; v3 throttle_time_ms; v4 the client waits out
throttling; v5 committed_leader_epoch; v6 flexible; v7 require_stable; v8 many groups in one request; v9 member_id and
member_epoch; v10 topic ids instead of names.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int16, int32, int64, string, uuid


class OffsetFetchRequest(Request, api_key=9, versions="0-10", flexible="6+"):
    group_id: string = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: boolean = field("7+")


class OffsetFetchRequestTopic(Struct):
    name: string
    partition_indexes: list[int32]


class OffsetFetchRequestGroup(Struct):
    group_id: string
    member_id: string | None = field("9+", default=None)
    member_epoch: int32 = field("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None


class OffsetFetchRequestTopics(Struct):
    name: string = field("8-9")
    topic_id: uuid = field("10+")
    partition_indexes: list[int32]


class OffsetFetchResponse(Response, api_key=9, versions="0-10", flexible="6+"):
    throttle_time_ms: int32 = field("3+")
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: int16 = field("2-7")
    groups: list[OffsetFetchResponseGroup] = field("8+")


class OffsetFetchResponseTopic(Struct):
    name: string
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field("5-7", default=-1)
    metadata: string | None
    error_code: int16


class OffsetFetchResponseGroup(Struct):
    group_id: string
    topics: list[OffsetFetchResponseTopics]
    error_code: int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: string = field("8-9")
    topic_id: uuid = field("10+")
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponsePartitions(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = -1
    metadata: string | None
    error_code: int16
