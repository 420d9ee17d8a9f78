"""One budget for all bytes that requests and replies hold: large frames wait for room, fetches read less.

Frames that fit the shared scratch buffer do not wait: they are counted while their handlers work, and a connection that
has requests under way starts no more of them while the budget is spent. Replies are counted from when a peer turns out
not to read them; a fetch that finds no room reads one batch, so that its consumer always gets on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryBudget:
    """Grants in order of asking, so a large frame is not starved by smaller ones behind it."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.used_bytes = 0  # of large frames, granted and not yet given back
        self.small_bytes = 0  # of frames that did not have to ask
        self.unsent_bytes = 0  # of replies that their peers do not read
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def is_spent(self) -> bool:
        return self.room_bytes < 0

    @property
    def room_bytes(self) -> int:
        return self.size_bytes - self.used_bytes - self.small_bytes - self.unsent_bytes

    def hold_unsent(self, size_bytes: int) -> None:
        """More unsent bytes, or fewer."""
        self.unsent_bytes += size_bytes
        if size_bytes < 0:
            self._grant()

    def take(self, size_bytes: int) -> bool:
        """Whether the bytes were granted. A frame larger than the whole budget is granted when nothing else is held."""
        if self._waiting or not self._has_room(size_bytes):
            return False
        self.used_bytes += size_bytes
        return True

    def wait(self, size_bytes: int, granted: Callable[[], None]) -> None:
        """Calls `granted` once the bytes have been taken for the caller."""
        self._waiting.append((size_bytes, granted))

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        self._grant()

    def forget(self, granted: Callable[[], None]) -> None:
        """The connection that waited is gone; those behind it may fit now."""
        if self._waiting:
            self._waiting = deque(entry for entry in self._waiting if entry[1] != granted)
            self._grant()

    def _grant(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size_bytes, granted = self._waiting.popleft()
            self.used_bytes += size_bytes  # before anybody else is asked: the next in line must find it taken
            granted()

    def _has_room(self, size_bytes: int) -> bool:
        return not self.used_bytes or self.used_bytes + self.unsent_bytes + size_bytes <= self.size_bytes
