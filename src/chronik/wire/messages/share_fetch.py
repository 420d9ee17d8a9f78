"""ShareFetch (key 78): acquires records for a member of a share group, and carries its acknowledgements.

v0 early access; v1 stable, max_records and batch_size instead of partition_max_bytes, acquisition_lock_timeout_ms;
v2 share_acquire_mode, is_renew_ack. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import (
    INT32_MAX,
    Request,
    Response,
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    uuid,
)


class ShareFetchRequest(Request, api_key=78, versions="0-2", flexible="0+"):
    group_id: string | None = None
    member_id: string | None
    share_session_epoch: int32  # 0 opens, -1 closes the session
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = INT32_MAX
    max_records: int32 = field("1+")
    batch_size: int32 = field("1+")
    share_acquire_mode: int8 = field("2+")  # 0 batch optimized, 1 record limit
    is_renew_ack: boolean = field("2+")
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class FetchTopic(Struct):
    topic_id: uuid
    partitions: list[FetchPartition]


class FetchPartition(Struct):
    partition_index: int32
    partition_max_bytes: int32 = field("0")
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgementBatch(Struct):
    first_offset: int64
    last_offset: int64
    acknowledge_types: list[int8]  # 0 gap, 1 accept, 2 release, 3 reject, 4 renew


class ForgottenTopic(Struct):
    topic_id: uuid
    partitions: list[int32]


class ShareFetchResponse(Response, api_key=78, versions="0-2", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field("1+")
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]


class ShareFetchableTopicResponse(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class PartitionData(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = None
    acknowledge_error_code: int16
    acknowledge_error_message: string | None = None
    current_leader: LeaderIdAndEpoch
    records: records | None = field(nullable="0")
    acquired_records: list[AcquiredRecords]


class LeaderIdAndEpoch(Struct):
    leader_id: int32
    leader_epoch: int32


class AcquiredRecords(Struct):
    first_offset: int64
    last_offset: int64
    delivery_count: int16


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = None
