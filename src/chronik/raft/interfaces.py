"""What a quorum node depends on: the state machine that its log drives, and the transport to its peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from chronik.raft.addresses import Address
from chronik.raft.messages import Message


class StateMachine(Protocol):
    """Driven by the log. Called on the loop, in log order; an exception stops the node."""

    def apply(self, index: int, term: int, data: bytes) -> None: ...

    def snapshot(self) -> bytes:
        """All state after the last applied entry."""

    def restore(self, index: int, data: bytes) -> None:
        """Replaces all state by that of a snapshot."""

    def refusal(self, data: bytes) -> str | None:
        """Why the bytes are not a valid entry of this machine; None when they are. Checked for entries from peers."""

    def snapshot_refusal(self, data: bytes) -> str | None:
        """The same for a snapshot's state."""

    def leadership_changed(self, *, leader_id: int | None, term: int, is_self: bool) -> None:
        """With `is_self`, called once everything committed in earlier terms is applied here: decide from then on."""


class Transport(Protocol):
    """Ordered and bounded per peer. It drops and reports what it cannot deliver; the core determines what is
    missing."""

    def attach(self, receive: Callable[[Message], None], unreachable: Callable[[int], None]) -> None: ...

    def send(self, to: int, message: Message) -> None: ...

    def update_peers(self, peers: Mapping[int, Address]) -> None: ...

    def has_died(self, peer: int) -> bool:
        """Whether the peer's process is known to be dead; False when it may only be slow or unreachable."""


class Notes(Protocol):
    """Carries bytes of the layer above beside the quorum's messages. Dropped, never queued, when a peer is away."""

    def attach_notes(self, receive: Callable[[int, bytes], None], met: Callable[[str], None]) -> None: ...

    def send_note(self, to: int, note: bytes) -> bool: ...

    def has_died(self, peer: int) -> bool: ...

    def is_member(self, peer: int) -> bool:
        """Whether the peer may change state. A peer that is not a member may only ask whether it is still
        registered."""

    def belongs_to(self, cluster_id: str) -> None:
        """Sets this node's cluster id."""
