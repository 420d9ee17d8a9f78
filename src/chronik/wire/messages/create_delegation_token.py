"""CreateDelegationToken (key 38): creates a delegation token.

v1 the client waits out throttling; v2 flexible; v3 an owner other than the requester.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, binary, field, int16, int32, int64, string


class CreateDelegationTokenRequest(Request, api_key=38, versions="0-3", flexible="2+"):
    owner_principal_type: string | None = field("3+")
    owner_principal_name: string | None = field("3+")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: int64


class CreatableRenewers(Struct):
    principal_type: string
    principal_name: string


class CreateDelegationTokenResponse(Response, api_key=38, versions="0-3", flexible="2+"):
    error_code: int16
    principal_type: string
    principal_name: string
    token_requester_principal_type: string = field("3+")
    token_requester_principal_name: string = field("3+")
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64
    max_timestamp_ms: int64
    token_id: string
    hmac: binary
    throttle_time_ms: int32
