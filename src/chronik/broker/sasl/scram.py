"""SASL SCRAM (RFC 5802) for a broker: it checks a proof against the user's keys in the metadata or, with
tokenauth=true, against those of a delegation token. In that case the user is the id of the token, and the login is that
of its owner.

An unknown user gets a challenge like any other, with a plausible salt and iteration count that are always the same for
this name, and fails where a wrong password fails. Kafka reveals which users exist: there, an unknown user fails one
message earlier.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from chronik.broker.delegation_tokens import KnownToken
from chronik.broker.sasl.mechanism import INVALID_CREDENTIALS, Accepted, Challenge, LoginRefused
from chronik.broker.session import Principal
from chronik.metadata.image import ScramCredential
from chronik.wire.scram import (
    ITERATIONS_MIN,
    TOKEN_AUTH,
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

SALT_BYTES: Final = 24
_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"  # Kafka's tools draw salts from these


class Known(NamedTuple):
    """The metadata about a user. Made-up credentials for unknown users imitate `look`, the credential of an existing
    user."""

    credential: ScramCredential | None
    look: ScramCredential | None
    secret: bytes  # of the cluster: only its nodes can compute the salts of unknown users

    def __repr__(self) -> str:
        return "Known([hidden])"


Lookup = Callable[[str], Known]
TokenLookup = Callable[[str], KnownToken]


class _Asked(NamedTuple):
    first: ClientFirst
    challenge: bytes
    credential: ScramCredential
    exists: bool
    is_token: bool


class ScramServer:
    def __init__(self, kind: ScramKind, lookup: Lookup, nonce: str, token_lookup: TokenLookup | None = None) -> None:
        """`nonce` is new for each login. Without `token_lookup` there are no delegation tokens."""
        self.name = kind.name
        self._kind, self._lookup, self._nonce, self._token_lookup = kind, lookup, nonce, token_lookup
        self._asked: _Asked | None = None  # set by the first message

    @property
    def judged_by_metadata(self) -> Principal | None:
        """A token needs current metadata even if its owner is a super user, because tokens are made to be revoked."""
        if self._asked is None:
            return None
        return Principal("Token" if self._asked.is_token else "User", self._asked.first.user)

    def look_again(self) -> bool:
        """Looks up the credential again. A user that was removed fails where a wrong password fails. A user with a new
        credential must begin again: the client has the old salt, so even the right password gives a wrong proof. A
        token is always looked up again: its challenge does not depend on its existence, so a token that has just
        arrived here is accepted."""
        if self._asked is None or self._asked.is_token:
            return True
        credential = self._lookup(self._asked.first.user).credential
        if credential is None:
            self._asked = self._asked._replace(exists=False)
        return credential in (None, self._asked.credential)

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
            if self._token_lookup is None:
                raise self._refusal(asked.user)
            credential, token = self._token_lookup(asked.user)
            return self._ask(asked, credential, exists=token is not None, is_token=True)
        known = self._lookup(asked.user)
        made_up = pretended(self._kind, asked.user, known)  # computed for every user, because it takes time
        credential = known.credential or made_up
        return self._ask(asked, credential, exists=known.credential is not None, is_token=False)

    def _ask(self, asked: ClientFirst, credential: ScramCredential, *, exists: bool, is_token: bool) -> Challenge:
        challenge = server_first(asked.nonce + self._nonce, credential.salt, credential.iterations)
        self._asked = _Asked(asked, challenge, credential, exists, is_token)
        return Challenge(challenge)

    def _accept(self, message: bytes, asked: _Asked) -> Accepted:
        first, challenge, credential, exists, is_token = asked
        token = None
        if is_token and self._token_lookup is not None:
            credential, token = self._token_lookup(first.user)
            exists = token is not None
        final = read_client_final(message)
        auth_message = b",".join((first.bare, challenge, final.bare))
        keys = Keys(credential.stored_key, credential.server_key)
        is_right = is_proof(self._kind, keys, auth_message, final.proof)
        if not (is_right and exists and final.nonce == first.nonce + self._nonce and final.binding == first.binding):
            raise self._refusal(first.user)
        last = server_final(server_signature(self._kind, keys, auth_message))
        if token is None:
            return Accepted(last, first.user)
        return Accepted(last, token.owner.partition(":")[2], min(token.expiry_ms, token.max_ms), has_token=True)

    def _refusal(self, user: str = "") -> LoginRefused:
        return LoginRefused(INVALID_CREDENTIALS.format(mechanism=self.name), user)


def pretended(kind: ScramKind, user: str, known: Known) -> ScramCredential:
    """A credential for an unknown user; no password matches it."""
    look = known.look
    drawn = hmac.digest(known.secret, f"{kind.name} {user}".encode(), "sha512")
    size_bytes = len(look.salt) if look is not None else SALT_BYTES
    salt = hashlib.shake_256(drawn).digest(size_bytes)
    if look is None or look.salt.isalnum():
        salt = bytes(_LETTERS[each % len(_LETTERS)] for each in salt)
    iterations = look.iterations if look is not None else ITERATIONS_MIN
    return ScramCredential(salt, drawn[: kind.size_bytes], drawn[: kind.size_bytes], iterations)
