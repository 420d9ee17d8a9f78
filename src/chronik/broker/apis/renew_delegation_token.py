"""RenewDelegationToken (key 39): extends a delegation token. Allowed for its owner and renewers.

Checks, in Kafka's order: the connection, whether tokens are enabled, the token, its expiry, the caller.
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
    """A period that is not positive means delegation.token.expiry.time.ms, which is also the maximum."""
    period_ms = context.services.settings.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    error, expiry_ms = await change_token(context, bytes(request.hmac), period_ms, renews=True)
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expiry_ms, throttle_time_ms=0)
