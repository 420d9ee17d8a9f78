"""ExpireDelegationToken (key 40): expires a delegation token, or changes its expiry time. Allowed for its owner and
renewers.

Checks, in Kafka's order: the connection, whether tokens are enabled, the token, the caller, its expiry. A negative
period removes a token at once, even if it has expired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import NOTHING
from chronik.broker.token_changes import change_token
from chronik.runtime.units import DAY_MS
from chronik.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context

PERIOD_MS_MAX = 36_500 * DAY_MS  # a hundred years: longer than any token, and without overflow


@api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, needs=NOTHING)
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    period_ms = min(request.expiry_time_period_ms, PERIOD_MS_MAX)
    error, expiry_ms = await change_token(context, bytes(request.hmac), period_ms, renews=False)
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expiry_ms, throttle_time_ms=0)
