"""WriteShareGroupState (key 85): a partition leader stores the state of share partitions at the share coordinator.

v1 delivery_complete_count. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int8, int16, int32, int64, string, uuid


class WriteShareGroupStateRequest(Request, api_key=85, versions="0-1", flexible="0+"):
    group_id: string
    topics: list[WriteStateData]


class WriteStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class PartitionData(Struct):
    partition: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field("1+", default=-1)
    state_batches: list[StateBatch]


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class WriteShareGroupStateResponse(Response, api_key=85, versions="0-1", flexible="0+"):
    results: list[WriteStateResult]


class WriteStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = None
