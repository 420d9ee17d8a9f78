"""SaslAuthenticate (key 36): one message of a login, by the mechanism that SaslHandshake chose.

The response to a failed login is sent after connection.failed.authentication.delay.ms; then the connection is closed.
Versions: v1 session_lifetime_ms, within which the client must log in again; v2 flexible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import NOTHING
from chronik.broker.sasl.mechanism import LoginRefused
from chronik.broker.session import Stage
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context

TOO_LATE = "SaslAuthenticate request received after successful authentication"


@api(SaslAuthenticateRequest, SaslAuthenticateResponse, needs=NOTHING)
def sasl_authenticate(
    request: SaslAuthenticateRequest, context: Context
) -> SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse]:
    login = context.session.login
    if login is None or context.session.stage is not Stage.IN_HANDSHAKE:
        return _response(ErrorCode.ILLEGAL_SASL_STATE, TOO_LATE)
    try:
        step = login.step(bytes(request.auth_bytes), context.services.runtime.clock.monotonic_ns())
    except LoginRefused as refusal:
        context.connection.end_with_answer("its login failed")
        return _refused(refusal, login.refusal_delay_s)
    return SaslAuthenticateResponse(
        error_code=0, error_message="", auth_bytes=step.token, session_lifetime_ms=step.lifetime_ms
    )


async def _refused(refusal: LoginRefused, delay_s: float) -> SaslAuthenticateResponse:
    await asyncio.sleep(delay_s)
    return _response(ErrorCode.SASL_AUTHENTICATION_FAILED, refusal.message)


def _response(error: ErrorCode, message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error, error_message=message, auth_bytes=b"", session_lifetime_ms=0)
