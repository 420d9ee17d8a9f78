"""ExpireDelegationToken (key 40): ends a delegation token, or changes when it ends. Its owner and renewers may do so.

Checks, in Kafka's order: the connection, whether tokens are turned on, the token, who asks, its expiry. A token can be
removed at once (by a negative period) even if it has expired.
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

PERIOD_MS_MAX = 36_500 * DAY_MS  # a hundred years: beyond any token, and a time that still can be counted


@api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, needs=NOTHING)
async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    period_ms = min(request.expiry_time_period_ms, PERIOD_MS_MAX)
    error, expiry_ms = await change_token(context, bytes(request.hmac), period_ms, renews=False)
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expiry_ms, throttle_time_ms=0)
