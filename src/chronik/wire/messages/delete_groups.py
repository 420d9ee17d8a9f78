"""DeleteGroups (key 42): deletes groups that have no members.

v1 the client waits out throttling; v2 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, string


class DeleteGroupsRequest(Request, api_key=42, versions="0-2", flexible="2+"):
    groups_names: list[string]


class DeleteGroupsResponse(Response, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int32
    results: list[DeletableGroupResult]


class DeletableGroupResult(Struct):
    group_id: string
    error_code: int16
