"""TxnOffsetCommit (key 28): stores a group's positions as part of a transaction.

v1 the client waits out throttling; v2 committed_leader_epoch; v3 flexible, generation and member;
v4 TRANSACTION_ABORTABLE; v5 also adds the group to the transaction.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, int64, string


class TxnOffsetCommitRequest(Request, api_key=28, versions="0-5", flexible="3+"):
    transactional_id: string
    group_id: string
    producer_id: int64
    producer_epoch: int16
    generation_id: int32 = field("3+", default=-1)
    member_id: string = field("3+")
    group_instance_id: string | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitRequestTopic(Struct):
    name: string
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field("2+", default=-1)
    committed_metadata: string | None


class TxnOffsetCommitResponse(Response, api_key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: int32
    topics: list[TxnOffsetCommitResponseTopic]


class TxnOffsetCommitResponseTopic(Struct):
    name: string
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16
