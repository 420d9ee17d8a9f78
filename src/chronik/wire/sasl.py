"""SASL as a client of Kafka sees it: the steps of a login, without a mechanism of its own.

A login is SaslHandshake, which names the mechanism, then SaslAuthenticate requests that carry the mechanism's messages
until the mechanism is satisfied. `Peer` drives the steps; a `Mechanism` computes the messages and never sees a socket.
One mechanism object serves one login.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol

# The longest mechanism in use, SCRAM, has two. A broker that goes on asking is not one we can log in to.
LOGIN_STEPS_MAX: Final = 16


class Mechanism(Protocol):
    """For example SCRAM: `first` is the client-first message; `answer` gets server-first, then server-final."""

    name: str  # as in sasl.enabled.mechanisms: "PLAIN", "SCRAM-SHA-512"

    def first(self) -> bytes | Awaitable[bytes]:
        """The client's first message. One that has to be fetched is awaitable, as a reply may be."""

    def answer(self, challenge: bytes) -> bytes | Awaitable[bytes | None] | None:
        """The reply to the broker's message; None if the login is complete. Raises LoginFailed if the message is wrong.

        It is called with b"" if the broker had nothing to say. A reply that takes long to compute is awaitable, and is
        computed elsewhere meanwhile: the driver awaits it and calls `Peer.computed`.
        """
