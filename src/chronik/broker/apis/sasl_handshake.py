"""SaslHandshake (key 17): which SASL mechanisms this listener speaks. None are configured, so none is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import NOTHING
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(SaslHandshakeRequest, SaslHandshakeResponse, needs=NOTHING)
def sasl_handshake(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    """On a listener without SASL Kafka answers ILLEGAL_SASL_STATE and no mechanisms."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
