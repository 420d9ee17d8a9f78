"""DescribeProducers (key 61): the producers with state in partitions.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, int64, string


class DescribeProducersRequest(Request, api_key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest]


class TopicRequest(Struct):
    name: string
    partition_indexes: list[int32]


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: int32
    topics: list[TopicResponse]


class TopicResponse(Struct):
    name: string
    partitions: list[PartitionResponse]


class PartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = None
    active_producers: list[ProducerState]


class ProducerState(Struct):
    producer_id: int64
    producer_epoch: int32
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32
    current_txn_start_offset: int64 = -1
