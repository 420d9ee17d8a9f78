"""DeleteShareGroupState (key 86): a group coordinator makes the share coordinator delete state.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, string, uuid


class DeleteShareGroupStateRequest(Request, api_key=86, versions="0", flexible="0+"):
    group_id: string
    topics: list[DeleteStateData]


class DeleteStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class PartitionData(Struct):
    partition: int32


class DeleteShareGroupStateResponse(Response, api_key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult]


class DeleteStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = None
