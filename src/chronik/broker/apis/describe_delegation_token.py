"""DescribeDelegationToken (key 41): the delegation tokens that the caller may see, with their HMACs.

Owners, requesters and renewers see their tokens. Others need DESCRIBE on the token, or DESCRIBE_TOKENS on its owner. A
list of owners selects tokens that one of them owns, has requested or may renew; an empty list selects none, and null
all. As in Kafka, expired tokens that are not removed yet are included. v3 the requester.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.delegation_tokens import may_ask
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import DELEGATION_TOKEN, DESCRIBE, DESCRIBE_TOKENS, USER
from chronik.runtime.pieces import Work, in_order
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import DelegationToken


@api(
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    needs=(DESCRIBE.on(DELEGATION_TOKEN, "of others"), DESCRIBE_TOKENS.on(USER, "instead")),
)
@reads_metadata
def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: Context
) -> Work[DescribeDelegationTokenResponse]:
    if not may_ask(context.session):
        return _response(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
    if not context.services.tokens.is_enabled:
        return _response(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, [])
    tokens = context.services.store.image.tokens
    wanted = (
        None if request.owners is None else {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    )
    shown = []
    for token_id in (yield from in_order(tokens if wanted is None or wanted else ())):
        token = tokens[token_id]
        if _concerns(token, wanted) and _may_see(context, token_id, token):
            shown.append(_described(context, token_id, token))
        yield 1
    return _response(ErrorCode.NONE, shown)


def _concerns(token: DelegationToken, wanted: set[str] | None) -> bool:
    return wanted is None or not wanted.isdisjoint((token.owner, token.requester, *token.renewers))


def _may_see(context: Context, token_id: str, token: DelegationToken) -> bool:
    caller = str(context.principal)
    return (
        token.belongs_to(caller)
        or caller == token.requester
        or context.allows(DESCRIBE, DELEGATION_TOKEN, token_id, Notes.NONE)
        or context.allows(DESCRIBE_TOKENS, USER, token.owner, Notes.NONE)
    )


def _described(context: Context, token_id: str, token: DelegationToken) -> DescribedDelegationToken:
    owner, requester = token.owner.partition(":"), token.requester.partition(":")
    renewers = [each.partition(":") for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner[0],
        principal_name=owner[2],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[2],
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token_id,
        hmac=context.services.tokens.hmac_of(token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers
        ],
    )


def _response(error: ErrorCode, tokens: list[DescribedDelegationToken]) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=error, tokens=tokens, throttle_time_ms=0)
