"""The caller of a connection, and the APIs that are served at each stage of its login.

The stages of a connection, and what is served in each. A listener without logins begins with AUTHENTICATED.

    stage             served                              frames up to    then
    FRESH             ApiVersions, SaslHandshake          512 KiB         GREETED, IN_HANDSHAKE, BARE_TOKENS
    GREETED           SaslHandshake                       512 KiB         IN_HANDSHAKE, BARE_TOKENS
    IN_HANDSHAKE      SaslAuthenticate                    512 KiB         AUTHENTICATED
    BARE_TOKENS       frames that are tokens, no requests 512 KiB         AUTHENTICATED
    AUTHENTICATED     all; a handshake begins a new login socket.request  IN_HANDSHAKE, BARE_TOKENS, EXPIRED
    EXPIRED           SaslHandshake                       512 KiB         IN_HANDSHAKE, BARE_TOKENS

A request that is not served in its stage costs the connection. Pure: no I/O, and the time is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from chronik.broker.errors import OutOfTurn, Unanswerable

if TYPE_CHECKING:
    from chronik.broker.sasl.login import Login

if TYPE_CHECKING:
    from chronik.broker.authorizer import Kept

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
FRAME_BYTES_MAX_BEFORE_LOGIN = 512 * 1024  # the default of sasl.server.max.receive.size
NEVER_NS = 1 << 62
_numbers = count(1)


class Stage(Enum):
    FRESH = "before anything was asked"
    GREETED = "after ApiVersions"
    IN_HANDSHAKE = "in the SASL handshake"
    BARE_TOKENS = "in a SASL handshake of version 0"
    AUTHENTICATED = "logged in"
    EXPIRED = "after the end of its login"


# None: every API.
SERVED: Mapping[Stage, frozenset[int] | None] = {
    Stage.FRESH: frozenset({API_VERSIONS, SASL_HANDSHAKE}),
    Stage.GREETED: frozenset({SASL_HANDSHAKE}),
    Stage.IN_HANDSHAKE: frozenset({SASL_AUTHENTICATE}),
    Stage.BARE_TOKENS: frozenset(),
    Stage.AUTHENTICATED: None,
    Stage.EXPIRED: frozenset({SASL_HANDSHAKE}),
}


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


class Session:
    """`needs_login` says that the listener has logins. `client_software` is what ApiVersions v3 and later told.

    `on_frame_limit` hears the size that a frame may have, whenever the stage changes.
    """

    __slots__ = (
        "_frame_bytes_max",
        "_frame_bytes_max_before_login",
        "_on_frame_limit",
        "client_software",
        "has_token",
        "host",
        "kept",
        "listener",
        "login",
        "muted_until_ns",
        "number",
        "open_until_ns",
        "principal",
        "stage",
    )

    def __init__(
        self,
        listener: str,
        frame_bytes_max: int,
        *,
        needs_login: bool = False,
        frame_bytes_max_before_login: int = FRAME_BYTES_MAX_BEFORE_LOGIN,
        on_frame_limit: Callable[[int], None] = lambda size_bytes: None,
    ) -> None:
        self.number = next(_numbers)  # later connections have higher ones
        self.listener = listener  # its name: which addresses Metadata advertises to this client
        self.host = "?"
        self.client_software: tuple[str, str] | None = None
        self.principal = ANONYMOUS
        self.login: Login | None = None  # where its listener has logins
        self.kept: Kept | None = None  # what the authorizer has allowed to this principal
        self.has_token = False  # it has logged in with a delegation token
        self.stage = Stage.FRESH if needs_login else Stage.AUTHENTICATED
        self.open_until_ns = 0 if needs_login else NEVER_NS  # until then every API is served
        self.muted_until_ns = 0  # by a quota: until then nothing of it is read
        self._frame_bytes_max = frame_bytes_max
        self._frame_bytes_max_before_login = frame_bytes_max_before_login
        self._on_frame_limit = on_frame_limit

    @property
    def frame_bytes_max(self) -> int:
        if self.stage is Stage.AUTHENTICATED:
            return self._frame_bytes_max
        return min(self._frame_bytes_max, self._frame_bytes_max_before_login)

    def require_served(self, api_key: int, now_ns: int) -> None:
        """Raises Unanswerable for a request that has no place in this stage; ApiVersions ends the first one.

        During a handshake that is OutOfTurn: Kafka answers before it closes the connection.
        """
        if self.stage is Stage.AUTHENTICATED and now_ns >= self.open_until_ns:
            self._enter(Stage.EXPIRED)
        served = SERVED[self.stage]
        if served is not None and api_key not in served:
            refusal = OutOfTurn if self.stage is Stage.IN_HANDSHAKE else Unanswerable
            raise refusal(f"API key {api_key} is not served {self.stage.value} on {self.listener}")
        if self.stage is Stage.FRESH and api_key == API_VERSIONS:
            self._enter(Stage.GREETED)

    def begin_handshake(self, *, is_bare: bool = False) -> None:
        """A mechanism was chosen. The principal stays: a login that is renewed may not change it.

        `is_bare` is for SaslHandshake v0: the tokens that follow are frames of their own, without headers.
        """
        self.open_until_ns = 0
        self._enter(Stage.BARE_TOKENS if is_bare else Stage.IN_HANDSHAKE)

    def logged_in(self, principal: Principal, until_ns: int = NEVER_NS, *, has_token: bool = False) -> None:
        self.principal, self.open_until_ns, self.has_token = principal, until_ns, has_token
        self._enter(Stage.AUTHENTICATED)

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self._on_frame_limit(self.frame_bytes_max)
