"""Produce (key 0): appends record batches to partitions.

v1 throttle_time_ms; v2 log_append_time_ms, magic 1; v3 transactional_id, magic 2 only; v4 KAFKA_STORAGE_ERROR;
v5 log_start_offset; v6 the client waits out throttling; v7 zstd; v8 record_errors and error_message; v9 flexible;
v10 the new leader and its address; v11 TRANSACTION_ABORTABLE; v12 also adds the partitions to the transaction;
v13 topic ids instead of names.

With acks 0 there is no response.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, int64, records, string, uuid


class ProduceRequest(Request, api_key=0, versions="0-13", flexible="9+"):
    transactional_id: string | None = field("3+", default=None)
    acks: int16  # -1 all in sync, 0 no response, 1 the leader
    timeout_ms: int32
    topic_data: list[TopicProduceData]


class TopicProduceData(Struct):
    name: string = field("0-12")
    topic_id: uuid = field("13+")
    partition_data: list[PartitionProduceData]


class PartitionProduceData(Struct):
    index: int32
    records: records | None


class ProduceResponse(Response, api_key=0, versions="0-13", flexible="9+"):
    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field("1+")
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)


class TopicProduceResponse(Struct):
    name: string = field("0-12")
    topic_id: uuid = field("13+")
    partition_responses: list[PartitionProduceResponse]


class PartitionProduceResponse(Struct):
    index: int32
    error_code: int16
    base_offset: int64
    log_append_time_ms: int64 = field("2+", default=-1)
    log_start_offset: int64 = field("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+")
    error_message: string | None = field("8+", default=None)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32
    batch_index_error_message: string | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = None
