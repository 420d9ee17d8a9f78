"""The newest connection of each producer that commits offsets in transactions, to know which of its requests are late.

Without epoch bump all transactions of a producer look the same. A commit that was delayed in the network would become
part of a later transaction, and set the group back to what it had read before: its records would be read twice. A
client has one connection to a node, and opens a new one only after it has given up the one before. So a commit on an
older connection than one that was admitted since is late. This is so for each epoch of a producer id by itself: a
producer that waited to take over may have an older connection than the one that it replaces.

Memory is bounded: the producers that have been silent for longest are forgotten. Their late commits are then admitted,
as by Kafka.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from chronik.coordinator.open_transactions import Producer

PRODUCERS_MAX: Final = 10_000


class ProducerConnections:
    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers_max = producers_max
        self._newest: OrderedDict[Producer, int] = OrderedDict()  # by producer, the one that was silent longest first

    def admits(self, producer: Producer, connection: int) -> bool:
        """Whether a commit on this connection is not late. If it is not, those on older connections are from now on."""
        if connection < self._newest.get(producer, 0):
            return False
        self._newest[producer] = connection
        self._newest.move_to_end(producer)
        if len(self._newest) > self._producers_max:
            self._newest.popitem(last=False)
        return True
