"""Who is on the other side of a connection, and what it may ask for at this stage.

The stages of a connection, and what is served in each. A listener without logins begins with AUTHENTICATED.

    stage             served                              frames up to    then
    FRESH             ApiVersions, SaslHandshake          512 KiB         GREETED, IN_HANDSHAKE
    GREETED           SaslHandshake                       512 KiB         IN_HANDSHAKE
    IN_HANDSHAKE      SaslAuthenticate                    512 KiB         AUTHENTICATED
    AUTHENTICATED     all; a handshake begins a new login socket.request  IN_HANDSHAKE, EXPIRED
    EXPIRED           SaslHandshake, SaslAuthenticate     512 KiB         IN_HANDSHAKE

A request that is not served in its stage costs the connection. Pure: no I/O, and the time is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from chronik.broker.errors import Unanswerable

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
FRAME_BYTES_MAX_BEFORE_LOGIN = 512 * 1024  # sasl.server.max.receive.size
NEVER_NS = 1 << 62


class Stage(Enum):
    FRESH = "before anything was asked"
    GREETED = "after ApiVersions"
    IN_HANDSHAKE = "in the SASL handshake"
    AUTHENTICATED = "logged in"
    EXPIRED = "after the end of its login"


# None: every API.
SERVED: Mapping[Stage, frozenset[int] | None] = {
    Stage.FRESH: frozenset({API_VERSIONS, SASL_HANDSHAKE}),
    Stage.GREETED: frozenset({SASL_HANDSHAKE}),
    Stage.IN_HANDSHAKE: frozenset({SASL_AUTHENTICATE}),
    Stage.AUTHENTICATED: None,
    Stage.EXPIRED: frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE}),
}


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


class Session:
    """`needs_login` says that the listener has logins. `client_software` is what ApiVersions v3 and later told."""

    __slots__ = (
        "_frame_bytes_max",
        "client_software",
        "host",
        "listener",
        "muted_until_ns",
        "open_until_ns",
        "principal",
        "stage",
    )

    def __init__(self, listener: str, frame_bytes_max: int, *, needs_login: bool = False) -> None:
        self.listener = listener  # its name: which addresses Metadata advertises to this client
        self.host = "?"
        self.client_software: tuple[str, str] | None = None
        self.principal = ANONYMOUS
        self.stage = Stage.FRESH if needs_login else Stage.AUTHENTICATED
        self.open_until_ns = 0 if needs_login else NEVER_NS  # until then every API is served
        self.muted_until_ns = 0  # by a quota: until then nothing of it is read
        self._frame_bytes_max = frame_bytes_max

    @property
    def frame_bytes_max(self) -> int:
        if self.stage is Stage.AUTHENTICATED:
            return self._frame_bytes_max
        return min(self._frame_bytes_max, FRAME_BYTES_MAX_BEFORE_LOGIN)

    def require_served(self, api_key: int, now_ns: int) -> None:
        """Raises Unanswerable for a request that has no place in this stage; ApiVersions ends the first one."""
        if self.stage is Stage.AUTHENTICATED and now_ns >= self.open_until_ns:
            self.stage = Stage.EXPIRED
        served = SERVED[self.stage]
        if served is not None and api_key not in served:
            raise Unanswerable(f"API key {api_key} is not served {self.stage.value} on {self.listener}")
        if self.stage is Stage.FRESH and api_key == API_VERSIONS:
            self.stage = Stage.GREETED

    def begin_handshake(self) -> None:
        """A mechanism was chosen. The principal stays: a login that is renewed may not change it."""
        self.stage, self.open_until_ns = Stage.IN_HANDSHAKE, 0

    def logged_in(self, principal: Principal, until_ns: int = NEVER_NS) -> None:
        self.stage, self.principal, self.open_until_ns = Stage.AUTHENTICATED, principal, until_ns
