"""The durable entries, kept in memory: the core reads them here, and `journal` keeps their bytes.

Holds no file. `base_index` and `base_term` name the entry just before the first one kept, which a snapshot or
compaction set. An append at index i voids everything at or after i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chronik.raft.messages import Entry, Snapshot
from chronik.runtime.invariants import broken, check


class StableLog:
    def __init__(self, snapshot: Callable[[], Snapshot | None]) -> None:
        self._snapshot = snapshot
        self.base_index = self.base_term = 0
        self.last_index = 0  # cached: every message needs it
        self._entries: list[Entry] = []

    @property
    def first_index(self) -> int:
        return self.base_index + 1

    def term(self, index: int) -> int | None:
        if index == self.base_index:
            return self.base_term
        if self.base_index < index <= self.last_index:
            return self._entries[index - self.base_index - 1].term
        return None

    def entries(self, low: int, high: int) -> Sequence[Entry] | None:
        if low <= self.base_index:
            return None
        return self._entries[low - self.base_index - 1 : high - self.base_index - 1]

    def snapshot(self) -> Snapshot | None:
        return self._snapshot()

    def append(self, entries: Sequence[Entry]) -> None:
        """Skips entries at or before the base: a snapshot covers them already."""
        if not entries or entries[-1].index <= self.base_index:
            return
        entries = entries[max(0, self.first_index - entries[0].index) :]
        first = entries[0].index
        if first > self.last_index + 1 or entries[-1].index - first != len(entries) - 1:
            broken("28 the log has no holes", first=first, count=len(entries), end=self.last_index)
        del self._entries[first - self.base_index - 1 :]
        self._entries.extend(entries)
        self.last_index = entries[-1].index
        if self.last_index != self.base_index + len(self._entries):
            broken("28 the log ends with what was appended last", end=self.last_index, held=len(self._entries))

    def compact(self, index: int) -> None:
        """Drops entries up to `index`. Indices outside the log change nothing."""
        term = self.term(index)
        if index <= self.base_index or term is None:
            return
        del self._entries[: index - self.base_index]
        self.base_index, self.base_term = index, term
        check(
            self.base_index + len(self._entries) == self.last_index,
            "28 compaction takes entries from the front only",
            base=self.base_index,
            held=len(self._entries),
            end=self.last_index,
        )

    def restart_behind(self, index: int, term: int) -> None:
        """Drops everything: the log begins after a snapshot."""
        check(index >= self.base_index, "2 a log never restarts before its base", index=index, base=self.base_index)
        self._entries.clear()
        self.base_index, self.base_term = index, term
        self.last_index = index
