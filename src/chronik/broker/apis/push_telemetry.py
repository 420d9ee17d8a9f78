"""PushTelemetry (key 72): metrics of a client as OTLP, which appear on the admin listener's /metrics.

Gauges and sums are shown; histograms and summaries, which no client of Kafka sends, are skipped. A client that
terminates may push at any time, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import NOTHING
from chronik.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(PushTelemetryRequest, PushTelemetryResponse, needs=NOTHING)
async def push_telemetry(request: PushTelemetryRequest, context: Context) -> PushTelemetryResponse:
    services = context.services
    error = await services.telemetry.push(request, context, services.settings.telemetry_max_bytes)
    return PushTelemetryResponse(throttle_time_ms=0, error_code=error)
