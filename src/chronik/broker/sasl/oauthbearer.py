"""SASL OAUTHBEARER (RFC 7628) for a broker: one message with a token, which the listener's keys verify.

The responses are Kafka's. A refused token gets {"status":"invalid_token"} without the reason, which is only logged. The
client acknowledges this, and then the login fails with the same message. The login ends when the token expires.
Extensions are parsed and ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from chronik.broker.sasl.mechanism import INVALID_CREDENTIALS, Accepted, Challenge, LoginRefused
from chronik.security.errors import SecurityError
from chronik.wire.errors import Malformed
from chronik.wire.oauthbearer import OAUTHBEARER, REFUSAL_HEARD, read_bearer_first, refusal

if TYPE_CHECKING:
    from chronik.security.bearer_tokens import BearerToken

INVALID_TOKEN: Final = refusal("invalid_token")


class OAuthBearerServer:
    name = OAUTHBEARER
    judged_by_metadata = None  # the identity provider's keys decide

    def __init__(self, verify: Callable[[str], BearerToken]) -> None:
        """`verify` raises a SecurityError for a refused token."""
        self._verify = verify
        self._refused = ""  # why the token was refused, once the client was told

    def look_again(self) -> bool:
        """The metadata is not used."""
        return True

    def step(self, message: bytes) -> Challenge | Accepted:
        if self._refused and message == REFUSAL_HEARD:
            raise LoginRefused(INVALID_TOKEN.decode(), reason=self._refused)
        self._refused = ""
        try:
            first = read_bearer_first(message)
        except Malformed as fault:
            raise LoginRefused(INVALID_CREDENTIALS.format(mechanism=self.name), reason=str(fault)) from None
        try:
            token = self._verify(first.token)
        except SecurityError as fault:
            self._refused = str(fault)
            return Challenge(INVALID_TOKEN)
        if first.authzid not in ("", token.subject):
            raise LoginRefused(
                f"Authentication failed: Client requested an authorization id ({first.authzid}) that is different from "
                f"the token's principal name ({token.subject})",
                token.subject,
            )
        return Accepted(b"", token.subject, token.expires_ms)
