"""The newest connection on which each node sent transaction markers. It shows which requests are late.

Without epoch bump, all transactions of a producer have the same epoch. A coordinator that gets no response gives up the
connection, and sends its markers again on a new one. If the first request was only delayed, it may arrive after the
producer has begun its next transaction, and would end that one. A node has one connection to each other node for these
requests. So a request is late if a newer connection of its node has carried markers.

A late request gets no response, and its connection is closed. If it is the node's current connection, because another
client sends markers under the node's client id, the node sends its markers again on a new connection.
"""

from __future__ import annotations

from collections.abc import Container

from chronik.broker.errors import Unanswerable

PREFIX = "broker-"  # start of a node's client id; the node id follows


def client_id_of(node_id: int) -> str:
    return f"{PREFIX}{node_id}"


class MarkerConnections:
    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # by client id

    def require_newest(self, client_id: str | None, connection: int, node_ids: Container[int]) -> None:
        """Raises Unanswerable if the request is late. Only requests of nodes can be late."""
        if client_id is None or not client_id.startswith(PREFIX):
            return
        number = client_id.removeprefix(PREFIX)
        if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number) in node_ids):
            return
        newest = self._newest.get(client_id, 0)
        if connection < newest:
            raise Unanswerable(f"markers of {client_id} came on a connection that it has given up")
        self._newest[client_id] = connection
