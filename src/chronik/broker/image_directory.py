"""The addresses of other nodes and the leaders of partitions, according to this node's current metadata image."""

from __future__ import annotations

from collections.abc import Callable

from chronik.metadata.image import NO_LEADER, Image
from chronik.peer.addresses import Address


class ImageDirectory:
    """A `peer.directory.Directory`. Both arguments are called each time, because images and settings change."""

    def __init__(self, image: Callable[[], Image], inter_broker_listener: Callable[[], str]) -> None:
        self._image = image
        self._listener = inter_broker_listener

    def address_of(self, node_id: int) -> Address | None:
        """None for a broker without a listener for other nodes."""
        broker = self._image().brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(self._listener())
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def leader_of(self, topic: str, partition: int) -> int | None:
        known = self._image().topic_named(topic)
        told = None if known is None else known.partition(partition)
        return None if told is None or told.leader == NO_LEADER else told.leader
