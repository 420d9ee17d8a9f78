"""The transport of a single-node quorum: it has no peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chronik.raft.addresses import Address
from chronik.raft.messages import Message


class Alone:
    def attach(self, receive: Callable[[Message], None], unreachable: Callable[[int], None]) -> None:
        pass

    def send(self, to: int, message: Message) -> None:
        pass

    def update_peers(self, peers: Mapping[int, Address]) -> None:
        pass

    def has_died(self, peer: int) -> bool:
        return False
