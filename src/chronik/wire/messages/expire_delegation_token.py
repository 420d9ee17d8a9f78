"""ExpireDelegationToken (key 40): ends a delegation token, or changes when it ends.

v1 the client waits out throttling; v2 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, binary, int16, int32, int64


class ExpireDelegationTokenRequest(Request, api_key=40, versions="0-2", flexible="2+"):
    hmac: binary
    expiry_time_period_ms: int64


class ExpireDelegationTokenResponse(Response, api_key=40, versions="0-2", flexible="2+"):
    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32
