"""Connections by address and purpose: opened on demand, one for each pair.

Responses arrive in the order of requests, so requests that a broker delays need a separate connection: use a purpose
for that. `login` supplies credentials: it is called for a mechanism before each connection is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.peer.connection import CONNECT_TIMEOUT_MS, Connection, connect
from chronik.wire.framing import make_scratch
from chronik.wire.peer_errors import Closed, PeerError

if TYPE_CHECKING:
    from chronik.peer.addresses import Address
    from chronik.runtime.interfaces import Network
    from chronik.wire.peer import Bounds
    from chronik.wire.sasl import Mechanism

Login = Callable[["Address"], "Mechanism | None"]  # a new mechanism for each login; None: no login


def no_login(address: Address) -> Mechanism | None:
    return None


class Connections:
    def __init__(
        self,
        network: Network,
        client_id: str,
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        login: Login = no_login,
        bounds: Bounds | None = None,
        scratch: memoryview | None = None,
    ) -> None:
        """Connections of one event loop may share `scratch` (see `wire.framing`)."""
        self.scratch = make_scratch() if scratch is None else scratch
        self._network, self._client_id = network, client_id
        self._connect_timeout_ms, self._login, self._bounds = connect_timeout_ms, login, bounds
        self._open: dict[tuple[Address, str], Connection] = {}
        self._retired: list[Connection] = []  # replaced because their logins expire soon
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}
        self._is_closed = False

    async def to(self, address: Address, purpose: str = "") -> Connection:
        """The open connection, or a new one. Raises PeerError."""
        self._require_open()
        at = address, purpose
        async with self._opening.setdefault(at, asyncio.Lock()):
            connection = self._open.get(at)
            if connection is None or not _serves(connection):
                if connection is not None:
                    self._retired = [each for each in (*self._retired, connection) if each.is_open]
                connection = await connect(
                    self._network,
                    address,
                    client_id=self._client_id,
                    timeout_ms=self._connect_timeout_ms,
                    mechanism=self._login(address),
                    bounds=self._bounds,
                    scratch=self.scratch,
                )
                self._open[at] = connection
                self._require_open()
            return connection

    def present(self, address: Address, purpose: str = "") -> Connection | None:
        """The connection if it is open; never opens one."""
        connection = self._open.get((address, purpose))
        return connection if connection is not None and _serves(connection) else None

    def any_open(self) -> Connection | None:
        return next((connection for connection in self._open.values() if _serves(connection)), None)

    def drop(self, address: Address, purpose: str, why: PeerError) -> None:
        """Closes the connection to new use. Waiting callers get the reason."""
        connection = self._open.pop((address, purpose), None)
        if connection is not None:
            connection.fail(why)

    def close(self) -> None:
        self._is_closed = True
        for connection in (*self._open.values(), *self._retired):
            connection.close()

    def _require_open(self) -> None:
        """Nothing outlives `close`, including a connection in progress."""
        if self._is_closed:
            for connection in self._open.values():
                connection.close()
            raise Closed(f"the connections of {self._client_id!r} were closed")


def _serves(connection: Connection) -> bool:
    return connection.is_open and not connection.is_retired
