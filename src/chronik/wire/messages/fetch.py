"""Fetch (key 1): reads record batches, for consumers and for followers.

v1 throttle_time_ms; v2 magic 1; v3 max_bytes, partitions are served in the order asked; v4 isolation_level, magic 2;
v5 log_start_offset; v6 KAFKA_STORAGE_ERROR; v7 incremental sessions; v8 the client waits out throttling;
v9 current_leader_epoch; v10 zstd; v11 rack_id, preferred_read_replica; v12 flexible, last_fetched_epoch and
diverging_epoch; v13 topic ids instead of names; v14 OFFSET_MOVED_TO_TIERED_STORAGE; v15 replica_state instead of
replica_id; v16 node_endpoints; v17 replica_directory_id; v18 high_watermark of the follower.
"""

from __future__ import annotations

from chronik.wire.notation import (
    INT32_MAX,
    INT64_MAX,
    Request,
    Response,
    Struct,
    field,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    uuid,
)


class FetchRequest(Request, api_key=1, versions="0-18", flexible="12+"):
    cluster_id: string | None = field("12+", default=None, tag=0)
    replica_id: int32 = field("0-14", default=-1)  # -1 consumer
    replica_state: ReplicaState = field("15+", tag=1)
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field("3+", default=INT32_MAX)
    isolation_level: int8 = field("4+")  # 0 read uncommitted, 1 read committed
    session_id: int32 = field("7+")
    session_epoch: int32 = field("7+", default=-1)  # -1 no session, 0 a new one
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: string = field("11+")


class ReplicaState(Struct):
    replica_id: int32 = -1
    replica_epoch: int64 = -1


class FetchTopic(Struct):
    topic: string = field("0-12")
    topic_id: uuid = field("13+")
    partitions: list[FetchPartition]


class FetchPartition(Struct):
    partition: int32
    current_leader_epoch: int32 = field("9+", default=-1)
    fetch_offset: int64
    last_fetched_epoch: int32 = field("12+", default=-1)  # -1 none: the leader does not look for a divergence
    log_start_offset: int64 = field("5+", default=-1)
    partition_max_bytes: int32
    replica_directory_id: uuid = field("17+", tag=0)
    high_watermark: int64 = field("18+", default=INT64_MAX, tag=1)


class ForgottenTopic(Struct):
    topic: string = field("7-12")
    topic_id: uuid = field("13+")
    partitions: list[int32]


class FetchResponse(Response, api_key=1, versions="0-18", flexible="12+"):
    throttle_time_ms: int32 = field("1+")
    error_code: int16 = field("7+")
    session_id: int32 = field("7+")
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)


class FetchableTopicResponse(Struct):
    topic: string = field("0-12")
    topic_id: uuid = field("13+")
    partitions: list[PartitionData]


class PartitionData(Struct):
    partition_index: int32
    error_code: int16
    high_watermark: int64
    last_stable_offset: int64 = field("4+", default=-1)
    log_start_offset: int64 = field("5+", default=-1)
    diverging_epoch: EpochEndOffset = field("12+", tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", tag=1)
    snapshot_id: SnapshotId = field("12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field("4+")
    preferred_read_replica: int32 = field("11+", default=-1)
    records: records | None


class EpochEndOffset(Struct):
    epoch: int32 = -1
    end_offset: int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class SnapshotId(Struct):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Struct):
    producer_id: int64
    first_offset: int64


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = None
