"""GetTelemetrySubscriptions (key 71): the metrics that the broker wants from a client, and how often.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Request, api_key=71, versions="0", flexible="0+"):
    client_instance_id: uuid


class GetTelemetrySubscriptionsResponse(Response, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    client_instance_id: uuid
    subscription_id: int32
    accepted_compression_types: list[int8]
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: boolean
    requested_metrics: list[string]
