"""PushTelemetry (key 72): metrics of a client, as OTLP.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, binary, boolean, int8, int16, int32, uuid


class PushTelemetryRequest(Request, api_key=72, versions="0", flexible="0+"):
    client_instance_id: uuid
    subscription_id: int32
    terminating: boolean
    compression_type: int8
    metrics: binary


class PushTelemetryResponse(Response, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
