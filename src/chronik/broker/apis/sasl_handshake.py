"""SaslHandshake (key 17): chooses the SASL mechanism of a login.

A mechanism that the listener does not have is answered with those that it has; then the connection ends. On a listener
without logins, and on a connection whose login does not end, Kafka answers ILLEGAL_SASL_STATE and no mechanisms.
Versions: after v0 tokens follow as bare frames, after v1 in SaslAuthenticate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import NOTHING
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.broker.sasl.login import Login


@api(SaslHandshakeRequest, SaslHandshakeResponse, needs=NOTHING)
def sasl_handshake(
    request: SaslHandshakeRequest, context: Context
) -> SaslHandshakeResponse | Awaitable[SaslHandshakeResponse]:
    login = context.session.login
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    now_ns = context.services.runtime.clock.monotonic_ns()
    error = login.begin(request.mechanism, now_ns, is_bare=context.version == 0)
    if error is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        context.connection.end_with_answer("its login asks for a mechanism that is not enabled")
        return _refused(login)
    mechanisms = [] if error else list(login.mechanisms)
    return SaslHandshakeResponse(error_code=error, mechanisms=mechanisms)


async def _refused(login: Login) -> SaslHandshakeResponse:
    """Held back like every failed login, so that guessing takes time."""
    await asyncio.sleep(login.refusal_delay_s)
    return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(login.mechanisms))
