"""Users that log in with SCRAM: lists them, and sets and removes their credentials.

A password never leaves this process: brokers get the salted password.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chronik.client.errors import Refused, refuse
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from chronik.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from chronik.wire.scram import KIND_OF, ScramKind, salted_password

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.runtime.interfaces import Randomness

SALT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Credential:
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class SaltedPassword:
    """The salted form of a password, as sent and stored."""

    kind: ScramKind
    iterations: int
    salt: bytes = field(repr=False)
    salted: bytes = field(repr=False)


def salt_password(randomness: Randomness, kind: ScramKind, password: str, iterations: int) -> SaltedPassword:
    salt = randomness.bytes(SALT_BYTES)
    return SaltedPassword(kind, iterations, salt, salted_password(kind, password, salt, iterations))


async def describe(cluster: ClusterClient, names: Sequence[str] | None = None) -> dict[str, list[Credential] | Refused]:
    """The credentials of each user, or the error for it; None: all users."""
    users = None if names is None else [UserName(name=name) for name in names]
    connection = await cluster.to_any()
    response = await connection.ask(
        DescribeUserScramCredentialsRequest(users=users), DescribeUserScramCredentialsResponse
    )
    refuse(response.error_code, "cannot describe users", response.error_message)
    found: dict[str, list[Credential] | Refused] = {}
    for result in response.results:
        if result.error_code:
            error = ErrorCode.of(result.error_code)
            found[result.user] = Refused(error, f"user {result.user!r}", result.error_message)
        else:
            found[result.user] = [
                Credential(KIND_OF[info.mechanism].name if info.mechanism in KIND_OF else "?", info.iterations)
                for info in result.credential_infos
            ]
    return found


async def put(cluster: ClusterClient, name: str, password: SaltedPassword) -> None:
    """Sets the credential of one mechanism. Raises Refused."""
    upsertion = ScramCredentialUpsertion(
        name=name,
        mechanism=password.kind.number,
        iterations=password.iterations,
        salt=password.salt,
        salted_password=password.salted,
    )
    await _alter(cluster, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]), "set", name)


async def delete(cluster: ClusterClient, name: str, kinds: Sequence[ScramKind]) -> None:
    """Removes the credentials of these mechanisms. Raises Refused."""
    for kind in kinds:  # one at a time: Kafka refuses a user that is named twice
        deletion = ScramCredentialDeletion(name=name, mechanism=kind.number)
        request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
        await _alter(cluster, request, "remove", name)


async def _alter(cluster: ClusterClient, request: AlterUserScramCredentialsRequest, verb: str, name: str) -> None:
    connection = await cluster.to_controller()
    response = await connection.ask(request, AlterUserScramCredentialsResponse)
    for result in response.results:
        refuse(result.error_code, f"cannot {verb} the credential of user {name!r}", result.error_message)
