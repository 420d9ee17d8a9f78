"""Addresses of brokers and leaders of partitions, as the caller knows them.

Nodes know them from the metadata image, clients from Metadata responses. Both may be outdated: a wrong address is
unreachable, and a node that does not lead answers with NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from typing import Protocol

from chronik.peer.addresses import Address


class Directory(Protocol):
    def address_of(self, node_id: int) -> Address | None:
        """The address of a broker; None if unknown."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The leader of a partition; None if there is none, or the partition is unknown."""
