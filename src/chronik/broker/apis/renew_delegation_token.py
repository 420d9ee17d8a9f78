"""RenewDelegationToken (key 39): makes a delegation token last longer. Its owner and its renewers may do so.

Checks, in Kafka's order: the connection, whether tokens are turned on, the token, its expiry, who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import NOTHING
from chronik.broker.token_changes import change_token
from chronik.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(RenewDelegationTokenRequest, RenewDelegationTokenResponse, needs=NOTHING)
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse:
    """No positive period stands for delegation.token.expiry.time.ms, which no period exceeds."""
    period_ms = context.services.settings.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    error, expiry_ms = await change_token(context, bytes(request.hmac), period_ms, renews=True)
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expiry_ms, throttle_time_ms=0)
