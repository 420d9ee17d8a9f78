"""The data that consumer groups need about topics: ids, partitions, racks, and a hash of these.

The hash shows whether a group's target assignment may be outdated. It is stored with the group's epoch and compared by
the coordinator that wrote it, or by its successor; no client sees it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from chronik.metadata.image import EMPTY, Image, Topic

NO_TOPICS_HASH: Final = 0
_HASH_BYTES = 8


class Shape(NamedTuple):
    """What an assignor needs to know about a topic."""

    partition_count: int
    racks: tuple[frozenset[str], ...] = ()  # of each partition's replicas; () if no rack is known


class Topics:
    """One per shard. `image` is the newest image that the shard knows."""

    def __init__(self) -> None:
        self.image: Image = EMPTY
        self._hashes: dict[str, tuple[Topic, bytes]] = {}

    def follow(self, image: Image) -> None:
        if image.brokers is not self.image.brokers:
            self._hashes.clear()  # racks may have changed
        self.image = image

    def id_of(self, name: str) -> bytes | None:
        topic = self.image.topic_named(name)
        return None if topic is None else topic.topic_id

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self.image.topic(topic_id)
        return None if topic is None else topic.name

    def ids_of(self, names: Iterable[str]) -> frozenset[bytes]:
        """The ids of those topics that exist."""
        return frozenset(topic_id for name in names if (topic_id := self.id_of(name)) is not None)

    def shape_of(self, topic_id: bytes) -> Shape | None:
        topic = self.image.topic(topic_id)
        if topic is None:
            return None
        racks = {broker.broker_id: broker.rack for broker in self.image.brokers.values() if broker.rack is not None}
        if not racks:
            return Shape(len(topic.partitions))
        by_partition = (
            frozenset(racks[replica] for replica in partition.replicas if replica in racks)
            for partition in topic.partitions
        )
        return Shape(len(topic.partitions), tuple(by_partition))

    def hash_of(self, names: Iterable[str]) -> int:
        """A hash of those topics that exist. It changes with their ids, partitions and racks."""
        digests = [digest for name in sorted(names) if (digest := self._digest(name))]
        if not digests:
            return NO_TOPICS_HASH
        return int.from_bytes(blake2b(b"".join(digests), digest_size=_HASH_BYTES).digest(), "big", signed=True)

    def _digest(self, name: str) -> bytes:
        topic = self.image.topic_named(name)
        if topic is None:
            self._hashes.pop(name, None)
            return b""
        known = self._hashes.get(name)
        if known is not None and known[0] is topic:
            return known[1]
        shape = self.shape_of(topic.topic_id)
        racks = () if shape is None else shape.racks
        told = [topic.topic_id, name.encode(), struct.pack(">i", len(topic.partitions))]
        for of_partition in racks:
            told.append(b"|")
            told += [struct.pack(">i", len(rack)) + rack.encode() for rack in sorted(of_partition)]
        digest = blake2b(b"".join(told), digest_size=_HASH_BYTES).digest()
        self._hashes[name] = topic, digest
        return digest
