"""Where brokers are, and which of them leads what, as the caller knows it.

Nodes know it from the metadata image, clients from Metadata responses. Both may be out of date: a wrong address is not
reached, and a node that does not lead answers with NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from typing import Protocol

from chronik.peer.addresses import Address


class Directory(Protocol):
    def address_of(self, node_id: int) -> Address | None:
        """Where a broker listens; None if it is not known."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The broker that leads a partition; None if there is none, or the partition is not known."""
