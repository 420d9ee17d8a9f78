"""DescribeUserScramCredentials (key 50): which SCRAM mechanisms users have, with their iterations; never a secret.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int8, int16, int32, string


class DescribeUserScramCredentialsRequest(Request, api_key=50, versions="0", flexible="0+"):
    users: list[UserName] | None


class UserName(Struct):
    name: string


class DescribeUserScramCredentialsResponse(Response, api_key=50, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    results: list[DescribeUserScramCredentialsResult]


class DescribeUserScramCredentialsResult(Struct):
    user: string
    error_code: int16
    error_message: string | None
    credential_infos: list[CredentialInfo]


class CredentialInfo(Struct):
    mechanism: int8
    iterations: int32
