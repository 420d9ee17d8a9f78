"""The offsets of a share partition from its start to its end, as runs of equal state.

The runs are in order and leave no offset out, so a change of a range splits at most two of them, and neighbours that
have become equal are joined again. 2,000 records in flight are a handful of runs, not 2,000 objects.

Nothing here knows what the states mean to each other: `acquisition` does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from chronik.runtime.invariants import broken


class RecordState(IntEnum):
    """As Kafka numbers them. 3 is Archiving, which only dead letters of Kafka 4.4 use."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
NOBODY: Final = ""


class Span(NamedTuple):
    """Offsets, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Transition:
    """Acknowledgements or releases that are being written. Compared by identity."""

    __slots__ = ()


class Run:
    """`batch` is what was acquired together with these records when they were first delivered.

    With a transition, the state is still ACQUIRED, and `target` is what it becomes when the transition is written.
    """

    __slots__ = (
        "batch",
        "delivery_count",
        "first",
        "last",
        "lock_ends_ns",
        "member_id",
        "state",
        "target",
        "transition",
    )

    def __init__(self, span: Span, state: RecordState, delivery_count: int, batch: Span | None = None) -> None:
        self.first, self.last = span
        self.state = state
        self.delivery_count = delivery_count
        self.batch = span if batch is None else batch
        self.member_id = NOBODY
        self.lock_ends_ns = 0
        self.target = state
        self.transition: Transition | None = None

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_final(self) -> bool:
        """Acknowledged or archived, and written."""
        return self.state >= ACKNOWLEDGED

    @property
    def will_be_final(self) -> bool:
        return self.target >= ACKNOWLEDGED

    def become(self, state: RecordState) -> None:
        """Whatever it becomes here, nobody holds it any longer."""
        self.state = self.target = state
        self.member_id, self.lock_ends_ns, self.transition = NOBODY, 0, None

    def cut_after(self, offset: int) -> Run:
        """Ends at `offset`; returns the rest."""
        rest = Run(Span(offset + 1, self.last), self.state, self.delivery_count, self.batch)
        rest.member_id, rest.lock_ends_ns = self.member_id, self.lock_ends_ns
        rest.target, rest.transition = self.target, self.transition
        self.last = offset
        return rest

    def is_like(self, other: Run) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.lock_ends_ns == other.lock_ends_ns
            and self.transition is other.transition
            and self.target is other.target
            and (self.batch == other.batch or self.is_final)
        )

    def __repr__(self) -> str:
        return f"{self.first}-{self.last} {self.state.name} x{self.delivery_count} {self.member_id}"


def _last_of(run: Run) -> int:
    return run.last


class Runs:
    """`start` is the first offset, `end` the one after the last. Both are equal while there is none."""

    __slots__ = ("_runs", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def append(self, run: Run) -> None:
        if run.first != self.end or run.last < run.first:
            broken("31 the runs of a share partition leave no offset out", first=run.first, last=run.last, end=self.end)
        self._runs.append(run)
        self.end = run.last + 1
        self._join(len(self._runs) - 1, len(self._runs))

    def within(self, first: int, last: int) -> Iterator[Run]:
        """The runs that hold offsets of this range, whole."""
        runs = self._runs
        for index in range(self._index(max(first, self.start)), len(runs)):
            run = runs[index]
            if run.first > last:
                return
            yield run

    def change(self, first: int, last: int, change: Callable[[Run], None]) -> None:
        """Calls `change` for the runs of exactly this range, which lies within."""
        if not self.start <= first <= last < self.end:
            broken("31 only what is in flight changes", first=first, last=last, start=self.start, end=self.end)
        begin = self._boundary(first)
        end = self._boundary(last + 1)
        for run in self._runs[begin:end]:
            change(run)
        self._join(begin, end)

    def drop_before(self, offset: int) -> None:
        """What lies before is forgotten. An offset beyond the end leaves nothing, and becomes start and end."""
        if offset <= self.start:
            return
        if offset >= self.end:
            self._runs.clear()
            self.start, self.end = offset, offset
            return
        del self._runs[: self._boundary(offset)]
        self.start = offset

    def drop_final(self) -> None:
        """Moves the start over what is acknowledged or archived."""
        count = 0
        for run in self._runs:
            if not run.is_final:
                break
            count += 1
        if count:
            self.start = self._runs[count - 1].last + 1
            del self._runs[:count]

    def _index(self, offset: int) -> int:
        """Of the run that holds the offset; their number if none does."""
        return bisect_right(self._runs, offset - 1, key=_last_of)

    def _boundary(self, offset: int) -> int:
        """The index of the run that begins at the offset, once it does."""
        index = self._index(offset)
        if index < len(self._runs) and self._runs[index].first < offset:
            self._runs.insert(index + 1, self._runs[index].cut_after(offset - 1))
            return index + 1
        return index

    def _join(self, begin: int, end: int) -> None:
        """Joins equal neighbours among these runs and those beside them."""
        runs = self._runs
        begin, end = max(begin - 1, 0), min(end + 1, len(runs))
        joined: list[Run] = []
        for run in runs[begin:end]:
            if joined and joined[-1].is_like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        if len(joined) < end - begin:
            runs[begin:end] = joined
