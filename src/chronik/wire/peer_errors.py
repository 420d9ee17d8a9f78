"""What can go wrong on a connection to a broker. The whole tree:

    PeerError
      Unreachable        no connection, or it ended, or no response arrived in time; trying again may help
      Refused            the broker answered with an error code of Kafka's, which is `kafka_error`
      Unsupported        the broker serves no version of an API that this side knows
      BadAnswer          the broker's bytes cannot be read, or contradict what was asked
      LoginFailed        this side does not accept what the broker sent during SASL
      InFlightFull       the caller's mistake: it sent although the bound on requests in flight was reached
      Closed             the connection was used after it was closed

Every message names the broker's address, what was being done, and what to do about it. Packages above add classes of
their own to this tree; whoever talks to brokers needs to catch only PeerError.
"""

from __future__ import annotations

from chronik.wire.error_codes import ErrorCode


class PeerError(Exception):
    """Base of all errors about a connection to a broker."""

    retriable = False  # whether the same call may succeed a little later


class Unreachable(PeerError):
    """Nobody answered. A request that was sent may have been applied all the same."""

    retriable = True


class Refused(PeerError):
    """The broker said no. `what` is what was asked for, `detail` the broker's own words."""

    def __init__(self, kafka_error: ErrorCode, what: str, detail: str | None = None) -> None:
        super().__init__(kafka_error, what, detail)
        self.kafka_error = kafka_error
        self.what = what
        self.detail = detail
        self.retriable = kafka_error.retriable

    def __str__(self) -> str:
        return f"{self.what}: {self.kafka_error.name} ({self.detail or self.kafka_error.message})"


class Unsupported(PeerError):
    """The broker is too old, or too new, for what was asked."""


class BadAnswer(PeerError):
    """The peer does not keep to the protocol; its connection is closed."""


class LoginFailed(PeerError):
    """A mechanism found the broker's part of the login wrong, or the login did not come to an end."""


class InFlightFull(PeerError):
    """A request was given to a connection that has no room for it; wait until it has."""


class Closed(PeerError):
    """A bug of the caller: the object was closed before."""


def refuse(code: int, what: str, detail: str | None = None) -> None:
    """Raises Refused unless `code` is 0."""
    if code:
        raise Refused(ErrorCode.of(code), what, detail)
