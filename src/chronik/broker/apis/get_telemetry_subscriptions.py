"""GetTelemetrySubscriptions (key 71): which of its metrics a client is asked for, and how often.

Kafka advertises this API only with a plugin that receives metrics. Chronik shows them on the admin listener's
/metrics, so it is always served. Clients that match no subscription are asked for nothing and ask again later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import NOTHING
from chronik.broker.telemetry.clients import ACCEPTED_CODECS
from chronik.broker.telemetry.subscriptions import Wanted
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, needs=NOTHING)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: Context
) -> GetTelemetrySubscriptionsResponse:
    services = context.services
    instance_id, wanted = services.telemetry.subscription(request.client_instance_id, context)
    if isinstance(wanted, ErrorCode):
        return _answer(ZERO_UUID, Wanted((), 0, 0), error=wanted)
    answer = _answer(instance_id, wanted)
    answer.accepted_compression_types = list(ACCEPTED_CODECS)
    answer.telemetry_max_bytes = services.settings.telemetry_max_bytes
    answer.delta_temporality = True
    return answer


def _answer(instance_id: bytes, wanted: Wanted, error: ErrorCode = ErrorCode.NONE) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms=0,
        error_code=error,
        client_instance_id=instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=[],
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=0,
        delta_temporality=False,
        requested_metrics=list(wanted.metrics),
    )
