"""ReadShareGroupStateSummary (key 87): where share partitions start, without the state of their records.

v1 delivery_complete_count. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, int64, string, uuid


class ReadShareGroupStateSummaryRequest(Request, api_key=87, versions="0-1", flexible="0+"):
    group_id: string
    topics: list[ReadStateSummaryData]


class ReadStateSummaryData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadShareGroupStateSummaryResponse(Response, api_key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult]


class ReadStateSummaryResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = None
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field("1+", default=-1)
