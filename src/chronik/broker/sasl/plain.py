"""SASL PLAIN (RFC 4616) for a broker: one message with authorization id, user and password, checked against a table.

An unknown user takes as much time as a wrong password, and gets the same response.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from chronik.broker.sasl.mechanism import Accepted, LoginRefused

TOKENS: Final = 3
TOKENS_COUNTED: Final = 4  # as in Kafka
UNKNOWN_USER: Final = "Authentication failed: Invalid username or password"


class PlainServer:
    name = "PLAIN"
    judged_by_metadata = None  # passwords are in the configuration

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def look_again(self) -> bool:
        """The metadata is not used."""
        return True

    def step(self, message: bytes) -> Accepted:
        try:
            tokens = message.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginRefused("Invalid SASL/PLAIN response: not UTF-8") from None
        if len(tokens) != TOKENS:
            count = min(len(tokens), TOKENS_COUNTED)
            raise LoginRefused(f"Invalid SASL/PLAIN response: expected {TOKENS} tokens, got {count}")
        authorization_id, user, password = tokens
        if not user:
            raise LoginRefused("Authentication failed: username not specified")
        if not password:
            raise LoginRefused("Authentication failed: password not specified", user)
        if not self._is_password(user, password):
            raise LoginRefused(UNKNOWN_USER, user)
        if authorization_id not in ("", user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username", user
            )
        return Accepted(b"", user)

    def _is_password(self, user: str, password: str) -> bool:
        """Compares passwords for unknown users too, so that the time depends only on the client's message."""
        expected = self._passwords.get(user)
        is_equal = hmac.compare_digest(password.encode(), (expected or password + ".").encode())
        return expected is not None and is_equal
