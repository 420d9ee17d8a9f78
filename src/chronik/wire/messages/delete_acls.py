"""DeleteAcls (key 31): deletes the ACLs that match filters, and lists them.

v1 pattern types, the client waits out throttling; v2 flexible; v3 resource type user.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int8, int16, int32, string


class DeleteAclsRequest(Request, api_key=31, versions="0-3", flexible="2+"):
    filters: list[DeleteAclsFilter]


class DeleteAclsFilter(Struct):
    resource_type_filter: int8
    resource_name_filter: string | None
    pattern_type_filter: int8 = field("1+", default=3)  # 1 any, 2 match, 3 literal, 4 prefixed
    principal_filter: string | None
    host_filter: string | None
    operation: int8
    permission_type: int8


class DeleteAclsResponse(Response, api_key=31, versions="0-3", flexible="2+"):
    throttle_time_ms: int32
    filter_results: list[DeleteAclsFilterResult]


class DeleteAclsFilterResult(Struct):
    error_code: int16
    error_message: string | None
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsMatchingAcl(Struct):
    error_code: int16
    error_message: string | None
    resource_type: int8
    resource_name: string
    pattern_type: int8 = field("1+", default=3)  # 3 literal, 4 prefixed
    principal: string
    host: string
    operation: int8
    permission_type: int8
