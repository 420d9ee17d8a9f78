"""One budget for all bytes that requests hold: large frames wait for room instead of taking the process down.

Frames that fit the shared scratch buffer are not counted: per connection they are bounded by the in-flight limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryBudget:
    """Grants in order of asking, so a large frame is not starved by small ones behind it."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.used_bytes = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def take(self, size_bytes: int) -> bool:
        """Whether the bytes were granted. A frame larger than the whole budget is granted when nothing else is held."""
        if self._waiting or (self.used_bytes and self.used_bytes + size_bytes > self.size_bytes):
            return False
        self.used_bytes += size_bytes
        return True

    def wait(self, size_bytes: int, wake: Callable[[], None]) -> None:
        """Calls `wake` once `size_bytes` may be taken."""
        self._waiting.append((size_bytes, wake))

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        while self._waiting:
            wanted_bytes, wake = self._waiting[0]
            if self.used_bytes and self.used_bytes + wanted_bytes > self.size_bytes:
                return
            self._waiting.popleft()
            wake()

    def forget(self, wake: Callable[[], None]) -> None:
        """The connection that waited is gone."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] != wake)
