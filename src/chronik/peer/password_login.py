"""The same user and password for every broker, by PLAIN or SCRAM: a `Login` for connections of clients and nodes.

SCRAM's salted password is computed on a lane, off the event loop, and cached: later logins with the same salt cost
nothing. No repr shows a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from chronik.wire.sasl_clients import NONCE_CHARS, Derivation, mechanism_of

if TYPE_CHECKING:
    from chronik.peer.addresses import Address
    from chronik.runtime.interfaces import Lane, Runtime
    from chronik.wire.sasl import Mechanism

KEPT_MAX: Final = 16  # salted passwords: one per mechanism, and new ones after password changes


class PasswordLogin:
    """Close it at the end. `mechanism` is one of wire.sasl_clients.BY_PASSWORD."""

    def __init__(self, runtime: Runtime, mechanism: str, user: str, password: str, *, has_token: bool = False) -> None:
        """`has_token`: user and password are a delegation token's id and HMAC."""
        self.mechanism, self.user = mechanism, user
        self._has_token = has_token
        self._password = password
        self._runtime = runtime
        self._lane: Lane | None = None  # created at the first computation
        self._kept: dict[tuple[bytes, int], asyncio.Future[bytes]] = {}  # (salt, iterations): salted password

    def __repr__(self) -> str:
        return f"PasswordLogin({self.mechanism}, {self.user!r})"

    def __call__(self, address: Address) -> Mechanism:
        drawn = self._runtime.randomness.bytes(NONCE_CHARS)
        return mechanism_of(self.mechanism, self.user, self._password, drawn, self._derive, has_token=self._has_token)

    def close(self) -> None:
        if self._lane is not None:
            self._lane.close()
            self._lane = None

    def _derive(self, derivation: Derivation) -> Awaitable[bytes]:
        key = derivation.salt, derivation.iterations
        kept = self._kept.get(key)
        if kept is None or kept.cancelled():
            if self._lane is None:
                self._lane = self._runtime.disk.lane("logins")
            kept = self._kept[key] = self._lane.run(derivation.compute)
            if len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
        return asyncio.shield(kept)  # an abandoned connection must not cancel it for others
