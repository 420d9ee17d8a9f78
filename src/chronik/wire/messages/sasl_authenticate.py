"""SaslAuthenticate (key 36): one step of a SASL exchange.

v1 session_lifetime_ms; v2 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, binary, field, int16, int64, string


class SaslAuthenticateRequest(Request, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: binary


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    error_code: int16
    error_message: string | None
    auth_bytes: binary
    session_lifetime_ms: int64 = field("1+")
