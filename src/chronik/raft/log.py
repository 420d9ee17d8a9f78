"""A node's log as the core sees it: durable entries, then entries that are not durable yet, and three marks.

Never touches the disk: it reads a `Stable` and remembers what was handed out for writing. The marks are ordered:

    applied <= applying <= committed <= last_index

`offset` is the first index that is not durable. Entries from `in_progress` on have not been handed out for writing. A
snapshot from a leader waits the same way: nothing after it is applied until it is durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from chronik.raft.messages import Entry, EntryKind, Snapshot
from chronik.runtime.invariants import broken, check


class Stable(Protocol):
    """The durable log. The caller appends to it before it reports a Ready as persisted."""

    @property
    def first_index(self) -> int: ...

    @property
    def last_index(self) -> int: ...

    def term(self, index: int) -> int | None:
        """The term at an index from first_index - 1 to last_index; None outside."""

    def entries(self, low: int, high: int) -> Sequence[Entry] | None:
        """Entries low <= index < high; None when compacted meanwhile."""

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, to send to a peer; None when none is available now."""


def within(entries: Sequence[Entry], size_bytes_max: int) -> Sequence[Entry]:
    """The longest prefix that fits, but at least one entry: a limit must not stop progress."""
    size_bytes = 0
    for count, entry in enumerate(entries):
        size_bytes += entry.size_bytes
        if count and size_bytes > size_bytes_max:
            return entries[:count]
    return entries


class RaftLog:
    def __init__(self, stable: Stable, *, applying_bytes_max: int) -> None:
        self.stable = stable
        self.applying_bytes_max = applying_bytes_max
        self.last_index = stable.last_index  # cached: every message needs it
        self.offset = self.in_progress = stable.last_index + 1
        self.unstable: list[Entry] = []
        self.snapshot: Snapshot | None = None
        self.snapshot_in_progress = False
        self.committed = self.applying = self.applied = stable.first_index - 1
        self.applying_bytes = 0
        self.applying_paused = False
        check(
            stable.first_index - 1 <= stable.last_index,
            "28 a log does not end before it begins",
            first=stable.first_index,
            last=stable.last_index,
        )

    # Reading

    @property
    def first_index(self) -> int:
        return self.snapshot.index + 1 if self.snapshot else self.stable.first_index

    @property
    def held_to(self) -> int:
        """Where the entries end; equals `last_index`."""
        if self.unstable:
            return self.offset + len(self.unstable) - 1
        return self.snapshot.index if self.snapshot else self.stable.last_index

    @property
    def last_term(self) -> int:
        return self.term(self.last_index) or 0

    def term(self, index: int) -> int | None:
        """None when the entry is compacted or does not exist yet."""
        if index >= self.offset:
            position = index - self.offset
            return self.unstable[position].term if position < len(self.unstable) else None
        if self.snapshot and index <= self.snapshot.index:
            return self.snapshot.term if index == self.snapshot.index else None
        return self.stable.term(index)

    def matches(self, index: int, term: int) -> bool:
        return self.term(index) == term

    def entries(self, low: int, size_bytes_max: int, high: int | None = None) -> Sequence[Entry] | None:
        """From `low` up to `high` (exclusive) or the end, as many as fit, at least one; None when compacted."""
        high = self.last_index + 1 if high is None else high
        if low >= high:
            return ()
        if low < self.first_index:
            return None
        if low >= self.offset:
            return within(self.unstable[low - self.offset : high - self.offset], size_bytes_max)
        durable = self.stable.entries(low, min(high, self.offset))
        if durable is None:
            return None
        if durable and durable[0].index != low:
            broken("28 the log holds an entry at its index", asked=low, found=durable[0].index)
        both = [*durable, *self.unstable[: high - self.offset]] if high > self.offset else durable
        return within(both, size_bytes_max)

    def is_behind_or_equal(self, last_term: int, last_index: int) -> bool:
        """Whether a log that ends there is at least as up to date as this one."""
        own = self.last_term
        return last_term > own or (last_term == own and last_index >= self.last_index)

    def agreement(self, index: int, term: int) -> tuple[int, int]:
        """The last index up to `index` whose term is at most `term`, with its term. No log can agree after it."""
        while index > 0:
            own = self.term(index)
            if own is None:
                return index, 0
            if own <= term:
                return index, own
            index -= 1
        return 0, 0

    def holds_change(self, low: int, high: int) -> bool:
        """Whether there is a membership change between low and high (both inclusive)."""
        while low <= high:
            page = self.entries(low, 1 << 20, high + 1)
            if not page:
                return False
            if any(entry.kind is not EntryKind.NORMAL for entry in page):
                return True
            low += len(page)
        return False

    # Growing

    def append(self, entries: Sequence[Entry]) -> None:
        """Appends a leader's own entries, or the entries of a follower after `first_conflict`."""
        first = entries[0].index
        if first <= self.committed:
            broken("3 a committed entry is never replaced", first=first, committed=self.committed)
        if entries[-1].index - first != len(entries) - 1 or first > self.last_index + 1:
            broken("28 entries join the log without a hole", first=first, count=len(entries), end=self.last_index)
        self.last_index = entries[-1].index
        if first == self.offset + len(self.unstable):
            self.unstable.extend(entries)
        elif first <= self.offset:
            self.unstable = list(entries)
            self.offset = self.in_progress = first
        else:
            del self.unstable[first - self.offset :]
            self.unstable.extend(entries)
            # Entries handed out from here on are replaced; hand out the new ones.
            self.in_progress = min(self.in_progress, first)
            check(self.held_to == self.last_index, "28 a log ends with what was appended last", end=self.last_index)
            check(
                self.offset <= self.in_progress <= self.last_index + 1,
                "21 what was handed out for writing lies in the log",
                offset=self.offset,
                in_progress=self.in_progress,
            )

    def first_conflict(self, entries: Sequence[Entry]) -> int:
        """Position of the first entry that this log lacks or holds with another term; len(entries) if none."""
        for position, entry in enumerate(entries):
            if self.term(entry.index) != entry.term:
                return position
        return len(entries)

    def commit_to(self, index: int) -> bool:
        """Never decreases and never passes the end of the log, whatever a peer claims."""
        if not self.committed < index <= self.last_index:
            return False
        self.committed = index
        return True

    def restore(self, snapshot: Snapshot) -> None:
        """Replaces the whole log by a leader's snapshot."""
        check(
            snapshot.index > self.committed,
            "2 a snapshot never takes the commit index back",
            snapshot=snapshot.index,
            committed=self.committed,
        )
        self.committed = snapshot.index
        self.offset = self.in_progress = snapshot.index + 1
        self.unstable = []
        self.snapshot, self.snapshot_in_progress = snapshot, False
        self.last_index = snapshot.index
        check(self.held_to == self.last_index, "28 a log ends with the snapshot it restarts from", end=self.held_to)

    # Handing out for writing

    @property
    def has_unwritten(self) -> bool:
        return self.in_progress < self.offset + len(self.unstable)

    @property
    def unwritten(self) -> Sequence[Entry]:
        return self.unstable[self.in_progress - self.offset :]

    @property
    def unwritten_snapshot(self) -> Snapshot | None:
        return None if self.snapshot_in_progress else self.snapshot

    def accept_writing(self) -> None:
        if self.unstable:
            self.in_progress = self.offset + len(self.unstable)
        if self.snapshot:
            self.snapshot_in_progress = True

    def stable_to(self, index: int, term: int) -> None:
        """Entries up to (index, term) are durable. If the entry was replaced meanwhile, the report is ignored."""
        if index < self.offset or not self.matches(index, term):
            return
        del self.unstable[: index + 1 - self.offset]
        self.offset = index + 1
        self.in_progress = max(self.in_progress, self.offset)
        if self.held_to < self.committed:
            broken("3 what is committed stays in the log", end=self.held_to, committed=self.committed)

    def stable_snapshot_to(self, index: int) -> None:
        if self.snapshot and self.snapshot.index == index:
            self.snapshot, self.snapshot_in_progress = None, False

    # Handing out for applying

    def next_committed(self, *, include_unstable: bool) -> Sequence[Entry]:
        if self.applying_paused or self.snapshot:
            return ()
        high = self._appliable(include_unstable=include_unstable) + 1
        if self.applying + 1 >= high:
            return ()
        return self.entries(self.applying + 1, self.applying_bytes_max - self.applying_bytes, high) or ()

    def has_next_committed(self, *, include_unstable: bool) -> bool:
        if self.applying_paused or self.snapshot:
            return False
        return self.applying < self._appliable(include_unstable=include_unstable)

    def accept_applying(self, index: int, size_bytes: int, *, include_unstable: bool) -> None:
        appliable = self._appliable(include_unstable=include_unstable)
        if not self.applying < index <= appliable:
            broken(
                "3 only committed entries are handed out for applying, each once",
                applying=self.applying,
                index=index,
                committed=self.committed,
            )
        self.applying = index
        self.applying_bytes += size_bytes
        # Truncated by the limit: hand out the rest after some of it is applied, so that `Ready` stays bounded.
        cut_off = index < appliable
        self.applying_paused = cut_off or self.applying_bytes >= self.applying_bytes_max

    def applied_to(self, index: int, size_bytes: int) -> None:
        if not self.applied <= index <= self.committed:
            broken(
                "3 entries are applied once, in order, and only when committed",
                applied=self.applied,
                index=index,
                committed=self.committed,
            )
        self.applied = index
        self.applying = max(self.applying, index)
        self.applying_bytes = max(0, self.applying_bytes - size_bytes)
        self.applying_paused = self.applying_bytes >= self.applying_bytes_max
        if not self.applied <= self.applying <= self.committed:
            broken(
                "3 applied <= applying <= committed",
                applied=self.applied,
                applying=self.applying,
                committed=self.committed,
            )

    def _appliable(self, *, include_unstable: bool) -> int:
        return self.committed if include_unstable else min(self.committed, self.offset - 1)
