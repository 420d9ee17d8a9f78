"""The client's side of SASL PLAIN and SCRAM. Pure: one object computes the messages of one login.

The creator of the mechanism computes SCRAM's slow step, the salted password: `derive` returns it, or a future of it.
The client verifies the broker's signature, so it detects a broker that does not know the password. It refuses more
than ITERATIONS_MAX iterations, because it does not know the broker yet. No repr and no error shows a secret.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from chronik.wire.oauthbearer import OAUTHBEARER
from chronik.wire.peer_errors import LoginFailed
from chronik.wire.sasl import Mechanism
from chronik.wire.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    KINDS,
    NO_BINDING,
    BadScramMessage,
    ScramKind,
    client_final_bare,
    client_first_bare,
    client_proof,
    read_server_final,
    read_server_first,
    salted_password,
    signature_by_salted,
    with_proof,
)

PLAIN: Final = "PLAIN"
BY_PASSWORD: Final = (PLAIN, *KINDS)
MECHANISMS: Final = (*BY_PASSWORD, OAUTHBEARER)
NONCE_CHARS: Final = 32  # 5 random bits each; Kafka uses 130 bits
_NONCE_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuv"  # a byte modulo 32 is unbiased


class Derivation(NamedTuple):
    """The inputs of a salted password."""

    kind: ScramKind
    password: str
    salt: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Derivation({self.kind.name}, [hidden])"

    def compute(self) -> bytes:
        return salted_password(*self)


Derive = Callable[[Derivation], bytes | Awaitable[bytes]]


class PlainLogin:
    """One message: no authorization id, the user, the password."""

    name = PLAIN

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password

    def first(self) -> bytes:
        return b"\0".join((b"", self._user.encode(), self._password.encode()))

    def answer(self, challenge: bytes) -> None:
        """With PLAIN, brokers send no challenge."""
        if challenge:
            raise LoginFailed("the broker answered PLAIN with a challenge, which PLAIN does not have")


class ScramLogin:
    def __init__(
        self,
        kind: ScramKind,
        user: str,
        password: str,
        nonce: str,
        derive: Derive = Derivation.compute,
        *,
        has_token: bool = False,
    ) -> None:
        """`nonce` is fresh for each login: see `nonce_of`. `has_token`: user and password are a delegation token's id
        and HMAC."""
        self.name = kind.name
        self._kind, self._user, self._password, self._nonce, self._derive = kind, user, password, nonce, derive
        self._first_bare = client_first_bare(user, nonce, has_token=has_token)
        self._signature: bytes | None = None  # the signature expected from the broker, after our proof

    def first(self) -> bytes:
        return NO_BINDING + self._first_bare

    def answer(self, challenge: bytes) -> bytes | Awaitable[bytes | None] | None:
        try:
            if self._signature is None:
                return self._prove(challenge)
            self._check(challenge, self._signature)
        except BadScramMessage as fault:
            raise LoginFailed(str(fault)) from None
        return None

    def _prove(self, challenge: bytes) -> bytes | Awaitable[bytes]:
        asked = read_server_first(challenge)
        if not asked.nonce.startswith(self._nonce) or len(asked.nonce) <= len(self._nonce):
            raise LoginFailed("the broker's nonce does not begin with ours, or adds nothing to it")
        if not ITERATIONS_MIN <= asked.iterations <= ITERATIONS_MAX:
            raise LoginFailed(
                f"the broker asks for {asked.iterations} iterations, allowed are {ITERATIONS_MIN} to {ITERATIONS_MAX}: "
                "set the user's credential again"
            )
        salted = self._derive(Derivation(self._kind, self._password, asked.salt, asked.iterations))
        if isinstance(salted, bytes):
            return self._proof(challenge, asked.nonce, salted)
        return self._proof_later(challenge, asked.nonce, salted)

    async def _proof_later(self, challenge: bytes, nonce: str, salted: Awaitable[bytes]) -> bytes:
        return self._proof(challenge, nonce, await salted)

    def _proof(self, challenge: bytes, nonce: str, salted: bytes) -> bytes:
        bare = client_final_bare(nonce)
        auth_message = b",".join((self._first_bare, challenge, bare))
        self._signature = signature_by_salted(self._kind, salted, auth_message)
        return with_proof(bare, client_proof(self._kind, salted, auth_message))

    def _check(self, challenge: bytes, expected: bytes) -> None:
        if not hmac.compare_digest(read_server_final(challenge), expected):
            raise LoginFailed("the broker could not prove that it knows the user: it may be somebody else")


def nonce_of(drawn: bytes) -> str:
    """A nonce from the first NONCE_CHARS random bytes."""
    return "".join(_NONCE_ALPHABET[each % len(_NONCE_ALPHABET)] for each in drawn[:NONCE_CHARS])


def mechanism_of(
    name: str,
    user: str,
    password: str,
    drawn: bytes,
    derive: Derive = Derivation.compute,
    *,
    has_token: bool = False,
) -> Mechanism:
    """The mechanism of this name, one of BY_PASSWORD, for one login; `drawn` are NONCE_CHARS random bytes."""
    if name == PLAIN:
        return PlainLogin(user, password)
    return ScramLogin(KINDS[name], user, password, nonce_of(drawn), derive, has_token=has_token)
