"""CreateDelegationToken (key 38): creates a token. Its bearer can log in as the owner until it expires.

Checks, in Kafka's order: the connection, the permission to create tokens for another owner, the renewers, whether
tokens are enabled. Only a super user can create a token for a super user, and the owner must be a user; Kafka checks
neither. v3 an owner other than the requester.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from chronik.broker.api import api
from chronik.broker.authorizer import may_touch
from chronik.broker.delegation_tokens import may_ask
from chronik.broker.permissions import CREATE_TOKENS, USER
from chronik.broker.session import Principal
from chronik.broker.topics import refused_by
from chronik.metadata.commands.create_delegation_token import CreateDelegationToken
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context

log = logging.getLogger("chronik.broker.sasl")

NO_TIME_MS: Final = -1
USER_TYPE: Final = "User"


@api(
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    needs=(CREATE_TOKENS.on(USER, "for another owner"),),
)
async def create_delegation_token(
    request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    services, requester = context.services, context.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    if (denial := _denial(request, owner, context)) is not None:
        return _response(denial, owner, requester)
    if not services.tokens.is_enabled:
        return _response(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, owner, requester, time_ms=0)
    now_ms = services.runtime.clock.wall_ms()
    lifetime_ms = services.settings.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    command = CreateDelegationToken(
        owner=str(owner),
        requester=str(requester),
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_ms=now_ms,
        expiry_ms=now_ms + min(lifetime_ms, services.settings.delegation_token_expiry_time_ms),
        max_ms=now_ms + lifetime_ms,
    )
    try:
        reply = await services.store.submit(command)
    except MetadataError as fault:
        return _response(refused_by(fault)[0], owner, requester, time_ms=0)
    log.info("%s at %s created delegation token %s of %s", requester, context.client_host, reply.token_id, owner)
    response = _response(ErrorCode.NONE, owner, requester)
    response.issue_timestamp_ms, response.max_timestamp_ms = command.issue_ms, command.max_ms
    response.expiry_timestamp_ms = command.expiry_ms
    response.token_id, response.hmac = reply.token_id, services.tokens.hmac_of(reply.token_id)
    return response


def _denial(request: CreateDelegationTokenRequest, owner: Principal, context: Context) -> ErrorCode | None:
    if not may_ask(context.session):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != context.principal:
        policy = context.services.settings.access_policy
        is_spared = policy is not None and not may_touch(policy, context.principal, str(owner))
        if is_spared or not context.allows(CREATE_TOKENS, USER, str(owner)):
            return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if owner.type != USER_TYPE or any(each.principal_type != USER_TYPE for each in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return None


def _response(
    error: ErrorCode, owner: Principal, requester: Principal, time_ms: int = NO_TIME_MS
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )
