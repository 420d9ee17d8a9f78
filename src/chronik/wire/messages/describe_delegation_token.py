"""DescribeDelegationToken (key 41): the delegation tokens of some owners.

v1 the client waits out throttling; v2 flexible; v3 the requester.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, binary, field, int16, int32, int64, string


class DescribeDelegationTokenRequest(Request, api_key=41, versions="0-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None


class DescribeDelegationTokenOwner(Struct):
    principal_type: string
    principal_name: string


class DescribeDelegationTokenResponse(Response, api_key=41, versions="0-3", flexible="2+"):
    error_code: int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: int32


class DescribedDelegationToken(Struct):
    principal_type: string
    principal_name: string
    token_requester_principal_type: string = field("3+")
    token_requester_principal_name: string = field("3+")
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: string
    hmac: binary
    renewers: list[DescribedDelegationTokenRenewer]


class DescribedDelegationTokenRenewer(Struct):
    principal_type: string
    principal_name: string
