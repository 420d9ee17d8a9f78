"""What a node of the quorum is connected to: the state machine that its log drives, and the way to its peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from chronik.raft.addresses import Address
from chronik.raft.messages import Message


class StateMachine(Protocol):
    """What the log drives. Called on the loop, in the order of the log; an error of it stops the node."""

    def apply(self, index: int, term: int, data: bytes) -> None: ...

    def snapshot(self) -> bytes:
        """All state after the last applied entry."""

    def restore(self, index: int, data: bytes) -> None:
        """Replaces all state by that of a snapshot."""

    def refusal(self, data: bytes) -> str | None:
        """Why the bytes cannot be an entry of this machine; None when they can. Asked of what a peer sends."""

    def snapshot_refusal(self, data: bytes) -> str | None:
        """The same of a snapshot's state."""

    def leadership_changed(self, *, leader_id: int | None, term: int, is_self: bool) -> None:
        """With `is_self` it comes once everything committed in earlier terms is applied here: decide from then on."""


class Transport(Protocol):
    """Ordered and bounded per peer. What it cannot deliver it drops and reports; the core finds out what is missing."""

    def attach(self, receive: Callable[[Message], None], unreachable: Callable[[int], None]) -> None: ...

    def send(self, to: int, message: Message) -> None: ...

    def update_peers(self, peers: Mapping[int, Address]) -> None: ...

    def has_died(self, peer: int) -> bool:
        """Whether the peer's process is known to be gone; False when it may only be slow or cut off."""


class Notes(Protocol):
    """A way for bytes of the layer above, beside the quorum's messages. Dropped, never queued, when a peer is away."""

    def attach_notes(self, receive: Callable[[int, bytes], None], met: Callable[[str], None]) -> None: ...

    def send_note(self, to: int, note: bytes) -> bool: ...

    def has_died(self, peer: int) -> bool: ...

    def is_member(self, peer: int) -> bool:
        """Whether the peer may change anything. One that is no member may only ask whether it still belongs here."""

    def belongs_to(self, cluster_id: str) -> None:
        """This node knows its cluster from now on."""
