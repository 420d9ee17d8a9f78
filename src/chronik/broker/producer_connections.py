"""The newest connection of each producer that commits offsets in transactions. It shows which requests are late.

Without epoch bump, all transactions of a producer have the same epoch. A delayed commit would become part of a later
transaction and reset the group's offsets, so that records would be read twice. A client has one connection to a node,
and opens a new one only after it has given up the previous one. So a commit is late if a commit on a newer connection
was admitted before it. Each epoch of a producer id counts separately, because a producer that waited to take over may
have an older connection than the one that it replaces.

Memory is bounded: the least recently active producers are forgotten. Their late commits are then admitted, as in Kafka.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from chronik.coordinator.open_transactions import Producer

PRODUCERS_MAX: Final = 10_000


class ProducerConnections:
    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers_max = producers_max
        self._newest: OrderedDict[Producer, int] = OrderedDict()  # by producer, least recently active first

    def admits(self, producer: Producer, connection: int) -> bool:
        """Whether a commit on this connection is not late. If so, commits on older connections are late from now on."""
        if connection < self._newest.get(producer, 0):
            return False
        self._newest[producer] = connection
        self._newest.move_to_end(producer)
        if len(self._newest) > self._producers_max:
            self._newest.popitem(last=False)
        return True
