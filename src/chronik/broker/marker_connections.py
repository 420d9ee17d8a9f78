"""The newest connection on which each node sent transaction markers, to know which of its requests are late.

Without epoch bump all transactions of a producer look the same. A coordinator that gets no response gives the
connection up, and sends its markers again on a new one. If the first request was only held up in the network, it
arrives when the producer may have begun its next transaction, and would end that. A node has one connection to each
other node for these requests. So a request on an older connection than one that brought markers since is late.

A late request is not answered: the connection is closed. Should it be the node's present one after all, because
somebody else sends markers under the node's client id, the node sends its markers again on a newer connection.
"""

from __future__ import annotations

from collections.abc import Container

from chronik.broker.errors import Unanswerable

PREFIX = "broker-"  # of the client ids of nodes; the node's id follows


def client_id_of(node_id: int) -> str:
    return f"{PREFIX}{node_id}"


class MarkerConnections:
    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # by client id

    def require_newest(self, client_id: str | None, connection: int, node_ids: Container[int]) -> None:
        """Raises Unanswerable if the request is late. Requests of others than nodes never are."""
        if client_id is None or not client_id.startswith(PREFIX):
            return
        number = client_id.removeprefix(PREFIX)
        if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number) in node_ids):
            return
        newest = self._newest.get(client_id, 0)
        if connection < newest:
            raise Unanswerable(f"markers of {client_id} came on a connection that it has given up")
        self._newest[client_id] = connection
