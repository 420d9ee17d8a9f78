"""The steps of a SASL login from a client's view, independent of the mechanism.

A login is SaslHandshake, which names the mechanism, then SaslAuthenticate requests that carry the mechanism's messages
until it is complete. `Peer` executes the steps; a `Mechanism` computes the messages and does no I/O. One mechanism
object serves one login.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol

# The longest mechanism in use, SCRAM, has two. A broker that keeps sending challenges is faulty.
LOGIN_STEPS_MAX: Final = 16


class Mechanism(Protocol):
    """For example SCRAM: `first` is the client-first message; `answer` gets server-first, then server-final."""

    name: str  # as in sasl.enabled.mechanisms: "PLAIN", "SCRAM-SHA-512"

    def first(self) -> bytes | Awaitable[bytes]:
        """The client's first message. It is awaitable if it must be fetched; so may a reply be."""

    def answer(self, challenge: bytes) -> bytes | Awaitable[bytes | None] | None:
        """The reply to the broker's message; None if the login is complete. Raises LoginFailed if the message is wrong.

        It gets b"" if the broker's message is empty. A reply that is slow to compute is awaitable, and computed
        elsewhere: the driver awaits it and calls `Peer.computed`.
        """
