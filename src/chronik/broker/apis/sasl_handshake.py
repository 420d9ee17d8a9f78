"""SaslHandshake (key 17): chooses the SASL mechanism of a login.

For an unsupported mechanism, the response lists the supported ones; then the connection is closed. On a listener
without logins, and on a connection whose login does not expire, the result is ILLEGAL_SASL_STATE without mechanisms, as
in Kafka.
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
    """Delayed like every failed login, so that guessing takes time."""
    await asyncio.sleep(login.refusal_delay_s)
    return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(login.mechanisms))
