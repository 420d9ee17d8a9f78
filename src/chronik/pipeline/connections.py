"""The connections of one task: a range that ends leaves its connections to the next range of the task.

One thread, as in `connection`. An idle connection has no request in flight. Nothing here retries: a connection that the
broker has closed meanwhile fails at its first use, and `reading` opens another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from chronik.client.addresses import Address
    from chronik.pipeline.connection import BlockingConnection
    from chronik.pipeline.security import QuerySecurity


class IdleConnections:
    def __init__(self, security: QuerySecurity, client_id: str) -> None:
        self._security, self._client_id = security, client_id
        self._connect: Callable[[Address], BlockingConnection] | None = None
        self._idle: dict[Address, BlockingConnection] = {}

    def take(self, address: Address) -> BlockingConnection:
        """An idle connection, or a new one. The first one reads key store and trust store files; an empty range needs
        none."""
        idle = self._idle.pop(address, None)
        if idle is not None:
            if not idle.is_retired:
                return idle
            idle.close()
        if self._connect is None:
            self._connect = self._security.connector(self._client_id)
        return self._connect(address)

    def give_back(self, connection: BlockingConnection) -> None:
        """The connection has not failed, and no request is in flight on it."""
        if connection.address in self._idle:
            connection.close()
        else:
            self._idle[connection.address] = connection

    def close(self) -> None:
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()
