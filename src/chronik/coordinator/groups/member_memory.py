"""Limits the memory for data sent by group members: one bound per member, one for all of them.

A member stays in memory for its session time-out after its last request, possibly half an hour, and a client may join
any number of groups. This module only counts; `joining` and `membership` decide which requests are refused.
"""

from __future__ import annotations

from collections.abc import Callable

from chronik.runtime.invariants import check

MEMBER_BYTES_MAX = 1 << 20  # a member's metadata of all protocols, and again its assignment: Kafka's largest record
MEMBER_BYTES = 1024  # of a member's objects, in addition to its data
PROTOCOL_BYTES = 200  # of the objects of one of its protocols
UNBOUNDED_BYTES = 2**63


class MemberMemory:
    """One for all groups of a node. Report every change with `hold`."""

    def __init__(
        self, held_bytes_max: int = UNBOUNDED_BYTES, hold: Callable[[int], None] = lambda more_bytes: None
    ) -> None:
        self.held_bytes = 0
        self._held_bytes_max = held_bytes_max
        self._hold = hold

    def has_room(self, more_bytes: int) -> bool:
        """A change that needs no more memory is always allowed, so that existing members can stay."""
        return more_bytes <= 0 or self.held_bytes + more_bytes <= self._held_bytes_max

    def change(self, more_bytes: int) -> None:
        self.held_bytes += more_bytes
        check(
            self.held_bytes >= 0, "26 no member gives back more than it held", held=self.held_bytes, change=more_bytes
        )
        self._hold(more_bytes)
