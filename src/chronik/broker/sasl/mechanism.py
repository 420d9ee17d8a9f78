"""The broker's side of a SASL mechanism: a state machine for one login.

`step` takes a message of the client and returns a challenge, after which another message must follow, or an accepted
user. Otherwise it raises LoginRefused, and the login is over. Mechanisms do no I/O, do not wait, and never put a secret
into an error, a log line or a repr.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from chronik.broker.errors import BrokerError
from chronik.broker.session import Principal

INVALID_CREDENTIALS = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
)


class LoginRefused(BrokerError):
    """`message` is sent to the client, in Kafka's wording; `user` is the claimed user, "" if unknown.

    `reason` is for the log, and may contain more than the client may know.
    """

    def __init__(self, message: str, user: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message, self.user, self.reason = message, user, reason or message


class Challenge(NamedTuple):
    token: bytes


class Accepted(NamedTuple):
    token: bytes  # the broker's last message
    user: str
    expires_ms: int | None = None  # wall time at which the credential expires; None: never
    has_token: bool = False  # the credential is a delegation token; `user` is its owner


class ServerMechanism(Protocol):
    name: str

    @property
    def judged_by_metadata(self) -> Principal | None:
        """The principal, if the next message is judged by the metadata about this user or token."""

    def look_again(self) -> bool:
        """The metadata is newer than at the last step. False: the client's next message answers an outdated challenge,
        so it cannot be judged."""

    def step(self, message: bytes) -> Challenge | Accepted: ...
