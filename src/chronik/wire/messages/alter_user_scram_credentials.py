"""AlterUserScramCredentials (key 51): sets and removes SCRAM credentials.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, binary, int8, int16, int32, string


class AlterUserScramCredentialsRequest(Request, api_key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class ScramCredentialDeletion(Struct):
    name: string
    mechanism: int8


class ScramCredentialUpsertion(Struct):
    name: string
    mechanism: int8  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: int32
    salt: binary
    salted_password: binary


class AlterUserScramCredentialsResponse(Response, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: int32
    results: list[AlterUserScramCredentialsResult]


class AlterUserScramCredentialsResult(Struct):
    user: string
    error_code: int16
    error_message: string | None
