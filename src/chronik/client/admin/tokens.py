"""Delegation tokens: creating, listing, renewing and expiring them.

A token's HMAC is its password: it allows logging in as the owner. No repr shows it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chronik.client.errors import refuse
from chronik.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from chronik.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from chronik.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from chronik.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

AT_ONCE_MS: Final = -1  # as the period of `expire`: removes the token


@dataclass(frozen=True, slots=True)
class Token:
    token_id: str
    owner: str  # principals are written as User:alice
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The password for SCRAM logins with the token; the user name is the token id."""
        return base64.b64encode(self.hmac).decode()


async def create(cluster: ClusterClient, owner: str | None, renewers: Sequence[str], lifetime_ms: int | None) -> Token:
    """Creates a token for the caller, or for another owner. Raises Refused."""
    kind, _, name = owner.partition(":") if owner is not None else (None, "", None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in renewers)
        ],
        max_lifetime_ms=-1 if lifetime_ms is None else lifetime_ms,
    )
    connection = await cluster.to_any()
    response = await connection.ask(request, CreateDelegationTokenResponse)
    refuse(response.error_code, "cannot create a delegation token")
    return Token(
        response.token_id,
        f"{response.principal_type}:{response.principal_name}",
        f"{response.token_requester_principal_type}:{response.token_requester_principal_name}",
        tuple(renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
        bytes(response.hmac),
    )


async def describe(cluster: ClusterClient, owners: Sequence[str] | None = None) -> list[Token]:
    """The tokens of these owners, or all, that the caller may see, sorted by id. Raises Refused."""
    asked = None
    if owners is not None:
        parts = [each.partition(":") for each in owners]
        asked = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, _, name in parts]
    connection = await cluster.to_any()
    response = await connection.ask(DescribeDelegationTokenRequest(owners=asked), DescribeDelegationTokenResponse)
    refuse(response.error_code, "cannot list delegation tokens")
    found = [
        Token(
            each.token_id,
            f"{each.principal_type}:{each.principal_name}",
            f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
            tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
            bytes(each.hmac),
        )
        for each in response.tokens
    ]
    return sorted(found, key=lambda token: token.token_id)


async def renew(cluster: ClusterClient, token: Token, period_ms: int | None) -> int:
    """The new expiry, as wall time in ms. None: the cluster's configured period. Raises Refused."""
    request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1 if period_ms is None else period_ms)
    connection = await cluster.to_any()
    response = await connection.ask(request, RenewDelegationTokenResponse)
    refuse(response.error_code, f"cannot renew delegation token {token.token_id}")
    return response.expiry_timestamp_ms


async def expire(cluster: ClusterClient, token: Token, period_ms: int = AT_ONCE_MS) -> int:
    """The new expiry, as wall time in ms. Raises Refused."""
    request = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms)
    connection = await cluster.to_any()
    response = await connection.ask(request, ExpireDelegationTokenResponse)
    refuse(response.error_code, f"cannot expire delegation token {token.token_id}")
    return response.expiry_timestamp_ms
