"""ShareAcknowledge (key 79): acknowledges records that a share group's member acquired.

v0 early access, same bytes as v1; v1 stable; v2 is_renew_ack, acquisition_lock_timeout_ms. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int8, int16, int32, int64, string, uuid


class ShareAcknowledgeRequest(Request, api_key=79, versions="0-2", flexible="0+"):
    group_id: string | None = None
    member_id: string | None
    share_session_epoch: int32  # 0 opens, -1 closes the session
    is_renew_ack: boolean = field("2+")
    topics: list[AcknowledgeTopic]


class AcknowledgeTopic(Struct):
    topic_id: uuid
    partitions: list[AcknowledgePartition]


class AcknowledgePartition(Struct):
    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgementBatch(Struct):
    first_offset: int64
    last_offset: int64
    acknowledge_types: list[int8]  # 0 gap, 1 accept, 2 release, 3 reject, 4 renew


class ShareAcknowledgeResponse(Response, api_key=79, versions="0-2", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field("2+")
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class PartitionData(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = None
    current_leader: LeaderIdAndEpoch


class LeaderIdAndEpoch(Struct):
    leader_id: int32
    leader_epoch: int32


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = None
