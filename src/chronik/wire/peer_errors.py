"""Errors of a connection to a broker. The whole tree:

    PeerError
      Unreachable        no connection, or it ended, or no response arrived in time; retrying may help
      Refused            the broker answered with a Kafka error code, `kafka_error`
      Unsupported        the broker serves no version of an API that this side knows
      BadAnswer          the response cannot be read, or does not match the request
      LoginFailed        the broker's part of the SASL exchange is invalid
      InFlightFull       caller error: the bound on requests in flight was reached
      Closed             the connection was used after it was closed

Every message names the broker's address, the operation, and what to do. Packages above extend this tree; callers need
to catch only PeerError.
"""

from __future__ import annotations

from chronik.wire.error_codes import ErrorCode


class PeerError(Exception):
    """Base of all errors about a connection to a broker."""

    retriable = False  # whether the same call may succeed later


class Unreachable(PeerError):
    """No answer. A request that was sent may still have been applied."""

    retriable = True


class Refused(PeerError):
    """The broker refused. `what` is the request, `detail` the broker's own message."""

    def __init__(self, kafka_error: ErrorCode, what: str, detail: str | None = None) -> None:
        super().__init__(kafka_error, what, detail)
        self.kafka_error = kafka_error
        self.what = what
        self.detail = detail
        self.retriable = kafka_error.retriable

    def __str__(self) -> str:
        return f"{self.what}: {self.kafka_error.name} ({self.detail or self.kafka_error.message})"


class Unsupported(PeerError):
    """The broker is too old, or too new, for the request."""


class BadAnswer(PeerError):
    """The peer violates the protocol; its connection is closed."""


class LoginFailed(PeerError):
    """A mechanism rejected the broker's messages, or the login did not end."""


class InFlightFull(PeerError):
    """The connection has no room for the request; wait until it has."""


class Closed(PeerError):
    """A caller bug: the object was already closed."""


def refuse(code: int, what: str, detail: str | None = None) -> None:
    """Raises Refused unless `code` is 0."""
    if code:
        raise Refused(ErrorCode.of(code), what, detail)
