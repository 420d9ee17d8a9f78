"""Delegation tokens on one node: their secrets, which no record and no log contains, and who may request tokens.

The secret of a token is HMAC-SHA512 of its id with delegation.token.secret.key. Its base64 text is the password for
SCRAM logins with the id as the user. Salts are derived from the id as well, even for unknown ids, so that responses do
not reveal which ids exist. Ids are random, so only someone who has seen a token knows its id.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.broker.session import ANONYMOUS
from chronik.metadata.image import DelegationToken, Image, ScramCredential
from chronik.wire.scram import ITERATIONS_MIN, ScramKind, keys_of, salted_password

if TYPE_CHECKING:
    from chronik.broker.session import Session

_LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"  # Kafka draws salts from these
SALT_BYTES: Final = 25


class KnownToken(NamedTuple):
    """The data of a token that a login needs. `token` is None if it does not exist or has expired."""

    credential: ScramCredential
    token: DelegationToken | None


class DelegationTokens:
    def __init__(self, key: bytes, image: Callable[[], Image], wall_ms: Callable[[], int]) -> None:
        self._key, self._image, self._wall_ms = key, image, wall_ms
        self._seen: Mapping[str, DelegationToken] | None = None  # the tokens for which the secrets below were computed
        self._hmacs: dict[str, bytes] = {}  # by id
        self._ids: dict[bytes, str] = {}  # by HMAC
        self._credentials: dict[tuple[str, str], ScramCredential] = {}  # by mechanism and id

    @property
    def is_enabled(self) -> bool:
        return bool(self._key)

    def hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self._key, token_id.encode(), "sha512")

    def id_of(self, secret: bytes) -> str | None:
        """The id of the token with this HMAC."""
        self._look()
        return self._ids.get(secret)

    def known(self, kind: ScramKind, token_id: str) -> KnownToken:
        token = self._image().tokens.get(token_id)
        drawn = hmac.digest(self._key, f"{kind.name} {token_id}".encode(), "sha512")
        if token is None or token.is_expired(self._wall_ms()):
            made_up = drawn[: kind.size_bytes]  # no password matches it
            return KnownToken(ScramCredential(_salt(drawn), made_up, made_up, ITERATIONS_MIN), None)
        self._look()
        credential = self._credentials.get((kind.name, token_id))
        if credential is None:  # once for each token and mechanism, because it takes milliseconds
            password = base64.b64encode(self.hmac_of(token_id)).decode()
            keys = keys_of(kind, salted_password(kind, password, _salt(drawn), ITERATIONS_MIN))
            credential = ScramCredential(_salt(drawn), keys.stored_key, keys.server_key, ITERATIONS_MIN)
            self._credentials[kind.name, token_id] = credential
        return KnownToken(credential, token)

    def _look(self) -> None:
        """Computes the secrets of new tokens and removes those of old ones."""
        tokens = self._image().tokens
        if tokens is self._seen:
            return
        for token_id in [each for each in self._hmacs if each not in tokens]:
            del self._ids[self._hmacs.pop(token_id)]
        self._credentials = {key: each for key, each in self._credentials.items() if key[1] in tokens}
        for token_id in tokens:
            if token_id not in self._hmacs:
                self._hmacs[token_id] = secret = self.hmac_of(token_id)
                self._ids[secret] = token_id
        self._seen = tokens


def _salt(drawn: bytes) -> bytes:
    return bytes(_LETTERS[each % len(_LETTERS)] for each in drawn[-SALT_BYTES:])


def may_ask(session: Session) -> bool:
    """Whether this connection may request tokens: its caller must be authenticated, and not by a token."""
    is_known = session.login is not None or session.principal != ANONYMOUS
    return is_known and not session.has_token
