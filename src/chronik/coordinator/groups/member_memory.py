"""Limits the memory for data sent by group members: one bound per member, one for all of them.

A member is remembered for its session time-out after its last sign of life, which may be half an hour, and anybody may
join any number of groups. Only counts and answers; who has to be refused, and with which error, is `joining`'s and
`membership`'s decision.
"""

from __future__ import annotations

from collections.abc import Callable

from chronik.runtime.invariants import check

MEMBER_BYTES_MAX = 1 << 20  # metadata of all its protocols, and again for its assignment: Kafka's largest record
MEMBER_BYTES = 1024  # of a member's objects, besides what it sent
PROTOCOL_BYTES = 200  # of one of its protocols' objects
UNBOUNDED_BYTES = 2**63


class MemberMemory:
    """One for all groups of a node. `hold` is told of every change."""

    def __init__(
        self, held_bytes_max: int = UNBOUNDED_BYTES, hold: Callable[[int], None] = lambda more_bytes: None
    ) -> None:
        self.held_bytes = 0
        self._held_bytes_max = held_bytes_max
        self._hold = hold

    def has_room(self, more_bytes: int) -> bool:
        """What makes nothing larger always has room, so that members that are there can stay."""
        return more_bytes <= 0 or self.held_bytes + more_bytes <= self._held_bytes_max

    def change(self, more_bytes: int) -> None:
        self.held_bytes += more_bytes
        check(
            self.held_bytes >= 0, "26 no member gives back more than it held", held=self.held_bytes, change=more_bytes
        )
        self._hold(more_bytes)
