"""DeleteTopics (key 20): deletes topics.

v1 throttle_time_ms; v2 the client waits out throttling; v3 TOPIC_DELETION_DISABLED; v4 flexible; v5 error_message,
THROTTLING_QUOTA_EXCEEDED; v6 by name or by id.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, string, uuid


class DeleteTopicsRequest(Request, api_key=20, versions="0-6", flexible="4+"):
    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[string] = field("0-5")
    timeout_ms: int32


class DeleteTopicState(Struct):
    name: string | None = None
    topic_id: uuid


class DeleteTopicsResponse(Response, api_key=20, versions="0-6", flexible="4+"):
    throttle_time_ms: int32 = field("1+")
    responses: list[DeletableTopicResult]


class DeletableTopicResult(Struct):
    name: string | None = field(nullable="6+")
    topic_id: uuid = field("6+")
    error_code: int16
    error_message: string | None = field("5+", default=None)
