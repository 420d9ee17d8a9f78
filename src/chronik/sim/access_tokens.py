"""Delegation tokens in a cluster with logins: users create, renew and remove them, and clients log in with any token
that ever existed. Logins are recorded with the token used. Nothing is judged here."""

from __future__ import annotations

import base64
from random import Random
from typing import Final, NamedTuple

from chronik.client.addresses import Address
from chronik.client.errors import ClientError, Refused
from chronik.peer.connection import Connection, connect
from chronik.sim.access_users import CONNECT_MS, PORT, derived
from chronik.sim.checkers.access import LOG_IN, TriedToken
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, REFUSED, UNKNOWN, History
from chronik.sim.programs import host_of
from chronik.sim.wire_clients import PATIENCE_MS, WireClient
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from chronik.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from chronik.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from chronik.wire.sasl_clients import NONCE_CHARS, mechanism_of
from chronik.wire.scram import SHA_256

KEY: Final = "the key of this world"  # delegation.token.secret.key
LIFETIMES_MS: Final = (4_000, 30_000)  # some expire while nodes are isolated
TOKENS_KEPT: Final = 6
LOGIN_TOKEN_SETTINGS: Final = {
    "delegation_token_secret_key": KEY,
    "delegation_token_expiry_check_interval_ms": 2_000,
}


class Token(NamedTuple):
    token_id: str
    secret: bytes
    owner: str


class TokenSessions:
    def __init__(self, cluster: SimCluster, history: History, client: WireClient) -> None:
        self._cluster, self._history, self._client = cluster, history, client
        self._random = cluster.world.random(client.name)
        self.tokens: list[Token] = []  # including removed ones

    async def change(self, connection: Connection, user: str, random: Random) -> None:
        """On a connection of this user: creates a token, or changes the expiry of an own one. Raises ClientError."""
        own = [each for each in self.tokens if each.owner == user]
        if not own or random.random() < 0.4:
            create = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=random.choice(LIFETIMES_MS))
            made = await connection.ask(create, CreateDelegationTokenResponse, timeout_ms=PATIENCE_MS)
            if not made.error_code:
                self.tokens = [*self.tokens, Token(made.token_id, bytes(made.hmac), user)][-TOKENS_KEPT:]
            return
        token = random.choice(own)
        if random.random() < 0.3:
            renew = RenewDelegationTokenRequest(hmac=token.secret, renew_period_ms=random.choice(LIFETIMES_MS))
            await connection.ask(renew, RenewDelegationTokenResponse, timeout_ms=PATIENCE_MS)
            return
        expire = ExpireDelegationTokenRequest(hmac=token.secret, expiry_time_period_ms=random.choice((-1, -1, 1000)))
        await connection.ask(expire, ExpireDelegationTokenResponse, timeout_ms=PATIENCE_MS)

    async def log_in(self, node_id: int, token: Token) -> None:
        tried = TriedToken(token.token_id)
        noted = self._history.invoke(self._client.name, host_of(node_id), LOG_IN, token.owner, tried)
        password = base64.b64encode(token.secret).decode()
        drawn = self._random.randbytes(NONCE_CHARS)
        mechanism = mechanism_of(SHA_256.name, token.token_id, password, drawn, derived, has_token=True)
        try:
            connection = await connect(
                self._client.network,
                Address(host_of(node_id), PORT),
                client_id=self._client.name,
                timeout_ms=CONNECT_MS,
                mechanism=mechanism,
            )
        except ClientError as error:
            is_refused = isinstance(error, Refused) and error.kafka_error is ErrorCode.SASL_AUTHENTICATION_FAILED
            self._history.complete(noted, REFUSED if is_refused else UNKNOWN, type(error).__name__)
            return
        self._history.complete(noted, OK)
        connection.close()
