"""CreateAcls (key 30): creates ACLs.

v1 pattern types, the client waits out throttling; v2 flexible; v3 resource type user.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int8, int16, int32, string


class CreateAclsRequest(Request, api_key=30, versions="0-3", flexible="2+"):
    creations: list[AclCreation]


class AclCreation(Struct):
    resource_type: int8
    resource_name: string
    resource_pattern_type: int8 = field("1+", default=3)  # 3 literal, 4 prefixed
    principal: string
    host: string
    operation: int8
    permission_type: int8


class CreateAclsResponse(Response, api_key=30, versions="0-3", flexible="2+"):
    throttle_time_ms: int32
    results: list[AclCreationResult]


class AclCreationResult(Struct):
    error_code: int16
    error_message: string | None
