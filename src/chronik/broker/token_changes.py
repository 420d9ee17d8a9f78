"""Shared by renewing and expiring delegation tokens: finds the token by its HMAC, and submits the command."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from chronik.broker.delegation_tokens import may_ask
from chronik.broker.errors import Unanswerable
from chronik.broker.topics import refused_by
from chronik.metadata.commands.change_delegation_token import ChangeDelegationToken
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.context import Context

log = logging.getLogger("chronik.broker.sasl")

NO_TIME_MS: Final = -1


async def change_token(context: Context, secret: bytes, period_ms: int, *, renews: bool) -> tuple[ErrorCode, int]:
    """The error, and the new expiry time of the token with this HMAC."""
    services = context.services
    if not may_ask(context.session):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME_MS
    if not services.tokens.is_enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0
    token_id = services.tokens.id_of(secret)
    if token_id is None:  # perhaps it was just created through another node
        try:
            await services.store.read()
        except MetadataError as fault:
            raise Unanswerable(f"cannot confirm metadata: {fault}") from fault
        token_id = services.tokens.id_of(secret)
    if token_id is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0
    command = ChangeDelegationToken(
        token_id=token_id,
        requester=str(context.principal),
        now_ms=services.runtime.clock.wall_ms(),
        period_ms=period_ms,
        renews=renews,
    )
    try:
        reply = await services.store.submit(command)
    except MetadataError as fault:
        return refused_by(fault)[0], 0
    verb = "renewed" if renews else "expired" if period_ms < 0 else "set the expiry of"
    log.info("%s at %s %s delegation token %s", context.principal, context.client_host, verb, token_id)
    return ErrorCode.NONE, reply.expiry_ms
