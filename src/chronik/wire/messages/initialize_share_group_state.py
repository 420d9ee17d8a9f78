"""InitializeShareGroupState (key 83): a group coordinator makes the share coordinator start to keep state.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, int64, string, uuid


class InitializeShareGroupStateRequest(Request, api_key=83, versions="0", flexible="0+"):
    group_id: string
    topics: list[InitializeStateData]


class InitializeStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class PartitionData(Struct):
    partition: int32
    state_epoch: int32
    start_offset: int64


class InitializeShareGroupStateResponse(Response, api_key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult]


class InitializeStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = None
