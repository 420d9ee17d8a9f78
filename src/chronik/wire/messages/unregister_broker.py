"""UnregisterBroker (key 64): removes a broker that will not come back.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, int16, int32, string


class UnregisterBrokerRequest(Request, api_key=64, versions="0", flexible="0+"):
    broker_id: int32


class UnregisterBrokerResponse(Response, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
