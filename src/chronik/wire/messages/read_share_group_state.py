"""ReadShareGroupState (key 84): a partition leader reads the state of share partitions from the share coordinator.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int8, int16, int32, int64, string, uuid


class ReadShareGroupStateRequest(Request, api_key=84, versions="0", flexible="0+"):
    group_id: string
    topics: list[ReadStateData]


class ReadStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadShareGroupStateResponse(Response, api_key=84, versions="0", flexible="0+"):
    results: list[ReadStateResult]


class ReadStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = None
    state_epoch: int32
    start_offset: int64
    state_batches: list[StateBatch]


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16
