"""SASL SCRAM (RFC 5802) for a broker: it checks a proof against the keys that the metadata holds for the user.

A user that does not exist is challenged like any other, with a salt and iterations that look like those of the others
and are always the same for this name, and fails where a wrong password fails. Kafka tells who exists: there an unknown
user fails one message earlier.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from chronik.broker.sasl.mechanism import INVALID_CREDENTIALS, Accepted, Challenge, LoginRefused
from chronik.metadata.image import ScramCredential
from chronik.wire.scram import (
    ITERATIONS_MIN,
    BadScramMessage,
    ClientFirst,
    Keys,
    ScramKind,
    is_proof,
    read_client_final,
    read_client_first,
    server_final,
    server_first,
    server_signature,
)

TOKEN_AUTH: Final = "tokenauth"  # noqa: S105 - an extension of Kafka's: the user is the id of a delegation token
SALT_BYTES: Final = 24
_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"  # what Kafka's own tools draw salts from


class Known(NamedTuple):
    """What the metadata says about a user. Made-up credentials for unknown users imitate `look`, some user's own."""

    credential: ScramCredential | None
    look: ScramCredential | None
    secret: bytes  # of the cluster: only its nodes can compute the salts of unknown users

    def __repr__(self) -> str:
        return "Known([hidden])"


Lookup = Callable[[str], Known]


class _Asked(NamedTuple):
    first: ClientFirst
    challenge: bytes
    credential: ScramCredential
    exists: bool


class ScramServer:
    def __init__(self, kind: ScramKind, lookup: Lookup, nonce: str) -> None:
        """`nonce` is fresh for each login."""
        self.name = kind.name
        self._kind, self._lookup, self._nonce = kind, lookup, nonce
        self._asked: _Asked | None = None  # from the first message on

    @property
    def judged_by_metadata(self) -> str | None:
        return None if self._asked is None else self._asked.first.user

    def look_again(self) -> None:
        """A user whose credential is gone or another one fails where a wrong password fails."""
        if self._asked is not None and self._lookup(self._asked.first.user).credential != self._asked.credential:
            self._asked = self._asked._replace(exists=False)

    def step(self, message: bytes) -> Challenge | Accepted:
        try:
            return self._challenge(message) if self._asked is None else self._accept(message, self._asked)
        except BadScramMessage:
            raise self._refusal() from None

    def _challenge(self, message: bytes) -> Challenge:
        asked = read_client_first(message)
        if asked.authzid not in ("", asked.user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username",
                asked.user,
            )
        if asked.extensions.get(TOKEN_AUTH, "").lower() == "true":
            raise self._refusal(asked.user)  # there are no delegation tokens
        known = self._lookup(asked.user)
        made_up = pretended(self._kind, asked.user, known)  # for everybody: it takes time
        credential = known.credential or made_up
        challenge = server_first(asked.nonce + self._nonce, credential.salt, credential.iterations)
        self._asked = _Asked(asked, challenge, credential, known.credential is not None)
        return Challenge(challenge)

    def _accept(self, message: bytes, asked: _Asked) -> Accepted:
        first, challenge, credential, exists = asked
        final = read_client_final(message)
        auth_message = b",".join((first.bare, challenge, final.bare))
        keys = Keys(credential.stored_key, credential.server_key)
        is_right = is_proof(self._kind, keys, auth_message, final.proof)
        if not (is_right and exists and final.nonce == first.nonce + self._nonce and final.binding == first.binding):
            raise self._refusal(first.user)
        return Accepted(server_final(server_signature(self._kind, keys, auth_message)), first.user)

    def _refusal(self, user: str = "") -> LoginRefused:
        return LoginRefused(INVALID_CREDENTIALS.format(mechanism=self.name), user)


def pretended(kind: ScramKind, user: str, known: Known) -> ScramCredential:
    """A credential for somebody who has none; no password fits it."""
    look = known.look
    drawn = hmac.digest(known.secret, f"{kind.name} {user}".encode(), "sha512")
    size_bytes = len(look.salt) if look is not None else SALT_BYTES
    salt = hashlib.shake_256(drawn).digest(size_bytes)
    if look is None or look.salt.isalnum():
        salt = bytes(_LETTERS[each % len(_LETTERS)] for each in salt)
    iterations = look.iterations if look is not None else ITERATIONS_MIN
    return ScramCredential(salt, drawn[: kind.size_bytes], drawn[: kind.size_bytes], iterations)
