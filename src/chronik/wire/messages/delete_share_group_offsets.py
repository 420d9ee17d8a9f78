"""DeleteShareGroupOffsets (key 92): deletes a share group's start offsets in some topics.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, string, uuid


class DeleteShareGroupOffsetsRequest(Request, api_key=92, versions="0", flexible="0+"):
    group_id: string
    topics: list[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: string


class DeleteShareGroupOffsetsResponse(Response, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    error_code: int16
    error_message: string | None = None
