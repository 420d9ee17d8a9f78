"""What every handler gets besides its request: the client, the API version, and the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronik.broker.connection import Connection
    from chronik.broker.node import Node


class Context:
    __slots__ = ("client_id", "connection", "node", "version")

    def __init__(self, node: Node, connection: Connection, version: int, client_id: str | None) -> None:
        self.node = node
        self.connection = connection
        self.version = version
        self.client_id = client_id

    @property
    def client_host(self) -> str:
        """As Kafka shows it in group descriptions: `/127.0.0.1`."""
        return f"/{self.connection.peer_host}"
