"""What a SASL mechanism is on the side of a broker: a state machine for one login.

`step` takes a message of the client and returns what comes of it: a challenge, after which another message is due, or
an accepted user. It raises LoginRefused otherwise; then the login is over. Mechanisms do no I/O, wait for nothing and
never put a secret into an error, a log line or a repr.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from chronik.broker.errors import BrokerError
from chronik.broker.session import Principal

INVALID_CREDENTIALS = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
)


class LoginRefused(BrokerError):
    """`message` is what the client is told, in Kafka's words; `user` is who it said it was, "" if it did not.

    `reason` is for the log, where it says more than the client may know.
    """

    def __init__(self, message: str, user: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message, self.user, self.reason = message, user, reason or message


class Challenge(NamedTuple):
    token: bytes


class Accepted(NamedTuple):
    token: bytes  # the broker's last message
    user: str
    expires_ms: int | None = None  # wall time at which the credential expires; None: it does not
    has_token: bool = False  # the credential is a delegation token; `user` is its owner


class ServerMechanism(Protocol):
    name: str

    @property
    def judged_by_metadata(self) -> Principal | None:
        """Who logs in, if the next message is judged by what the metadata says about this user or token."""

    def look_again(self) -> bool:
        """The metadata is newer than it was at the last step. False: the client's next message answers a challenge that
        is out of date, so nothing can be said about it."""

    def step(self, message: bytes) -> Challenge | Accepted: ...
