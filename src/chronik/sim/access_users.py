"""Users of a cluster with logins, and an operator that changes their passwords and quotas.

A user's client connects to one node, logs in with one of the user's current or former passwords, sends a few requests
and disconnects. It records the login, every answer, and how long each produce was throttled. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from random import Random
from typing import Final, NamedTuple

from chronik.broker.first_users import credential_of
from chronik.client.addresses import Address
from chronik.client.errors import ClientError, Refused
from chronik.metadata.commands.alter_client_quotas import PRODUCER_BYTE_RATE
from chronik.peer.connection import Connection, connect
from chronik.sim.checkers.access import LOG_IN, Tried
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, REFUSED, UNKNOWN, History
from chronik.sim.programs import host_of
from chronik.sim.wire_clients import PATIENCE_MS, WireClient
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from chronik.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from chronik.wire.sasl_clients import NONCE_CHARS, Derivation, mechanism_of
from chronik.wire.scram import ITERATIONS_MIN, SHA_256, salted_password

USERS: Final = ("ann", "ben")
PASSWORDS: Final = ("first", "second", "third")
LISTENER, PORT = "LOGIN", 9094
CONNECT_MS: Final = 2000
QUESTIONS_MAX: Final = 4  # per connection
# Far below what one batch needs, and far above what all clients send together.
RATES: Final = (1.0, 1e12)


class Known(NamedTuple):
    """The stored key for one password of one user: constant, so that a checker recognizes it."""

    salt: bytes
    salted: bytes
    stored_key: bytes


@cache  # deriving takes milliseconds, and every run of this process uses the same passwords
def known(user: str, password: str) -> Known:
    salt = f"salt of {user} for {password}".encode()
    salted = salted_password(SHA_256, password, salt, ITERATIONS_MIN)
    return Known(salt, salted, credential_of(user, SHA_256, salt, ITERATIONS_MIN, salted).stored_key)


@cache
def derived(derivation: Derivation) -> bytes:
    return derivation.compute()


class UserSessions:
    """One client that logs in as all users in turn."""

    def __init__(self, cluster: SimCluster, history: History, client: WireClient) -> None:
        self._cluster, self._history, self._client = cluster, history, client
        self._random = cluster.world.random(client.name)

    async def once(self, node_id: int, ask: Callable[[Connection, str], Awaitable[bool]]) -> None:
        """One login. `ask` sends one request as this principal; False: do not reuse the connection."""
        random = self._random
        user, password = random.choice(USERS), random.choice(PASSWORDS)
        connection = await self.log_in(node_id, user, password)
        if connection is None:
            return
        try:
            for _ in range(random.randint(1, QUESTIONS_MAX)):
                if not await ask(connection, f"User:{user}"):
                    return
        finally:
            connection.close()

    async def log_in(self, node_id: int, user: str, password: str) -> Connection | None:
        """None: the login was refused, or the node did not answer."""
        tried = Tried(user, password, known(user, password).stored_key)
        noted = self._history.invoke(self._client.name, host_of(node_id), LOG_IN, user, tried)
        drawn = self._random.randbytes(NONCE_CHARS)
        mechanism = mechanism_of(SHA_256.name, user, password, drawn, derived)
        address = Address(host_of(node_id), PORT)
        try:
            connection = await connect(
                self._client.network, address, client_id=self._client.name, timeout_ms=CONNECT_MS, mechanism=mechanism
            )
        except ClientError as error:
            is_refused = isinstance(error, Refused) and error.kafka_error is ErrorCode.SASL_AUTHENTICATION_FAILED
            self._history.complete(noted, REFUSED if is_refused else UNKNOWN, type(error).__name__)
            return None
        self._history.complete(noted, OK)
        return connection


async def set_first_users(connection: Connection) -> None:
    for user in USERS:
        await _put(connection, user, PASSWORDS[0])


async def change_user_or_quota(connection: Connection, random: Random) -> None:
    """Sets or removes a password, or the quota of one user or of all others."""
    user = random.choice(USERS)
    match random.choice(("password", "password", "delete", "quota", "quota", "no quota")):
        case "password":
            await _put(connection, user, random.choice(PASSWORDS))
        case "delete":
            deletion = ScramCredentialDeletion(name=user, mechanism=SHA_256.number)
            request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
            await connection.ask(request, AlterUserScramCredentialsResponse, timeout_ms=PATIENCE_MS)
        case "quota":
            await _limit(connection, random.choice((*USERS, None)), random.choice(RATES))
        case _:
            await _limit(connection, random.choice((*USERS, None)), None)


async def _put(connection: Connection, user: str, password: str) -> None:
    stored = known(user, password)
    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=SHA_256.number,
        iterations=ITERATIONS_MIN,
        salt=stored.salt,
        salted_password=stored.salted,
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    await connection.ask(request, AlterUserScramCredentialsResponse, timeout_ms=PATIENCE_MS)


async def _limit(connection: Connection, user: str | None, rate: float | None) -> None:
    """None as the user: all users without their own quota. None as the rate: no quota."""
    entity = EntityData(entity_type="user", entity_name=user)
    change = OpData(key=PRODUCER_BYTE_RATE, value=rate or 0.0, remove=rate is None)
    entry = AlterClientQuotasRequestEntry(entity=[entity], ops=[change])
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    await connection.ask(request, AlterClientQuotasResponse, timeout_ms=PATIENCE_MS)


async def pause(random: Random) -> None:
    """Long enough that some passwords outlive the time that a node may be out of date."""
    await asyncio.sleep(
        random.choice((random.randint(50, 400), random.randint(50, 800), random.randint(1000, 7000))) / 1000
    )
