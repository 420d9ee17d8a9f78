"""RenewDelegationToken (key 39): extends the life of a delegation token.

v1 the client waits out throttling; v2 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, binary, int16, int32, int64


class RenewDelegationTokenRequest(Request, api_key=39, versions="0-2", flexible="2+"):
    hmac: binary
    renew_period_ms: int64


class RenewDelegationTokenResponse(Response, api_key=39, versions="0-2", flexible="2+"):
    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32
