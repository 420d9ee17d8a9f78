"""Pending commands: which callers wait for which log index, and the result that each of them gets.

A caller gets one of four results: the index, once its entry is committed and applied here; Dropped or NotLeader, when
the entry is certainly in no log; OutcomeUnknown, when it may still be committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from chronik.raft.errors import Dropped, MembershipRefused, NotLeader
from chronik.raft.messages import Entry, EntryKind, Role
from chronik.runtime.invariants import broken, check

if TYPE_CHECKING:
    from chronik.raft.core import Core


class _Waiter(NamedTuple):
    term: int
    done: asyncio.Future[int]
    is_change: bool


class Proposals:
    def __init__(self, core: Core) -> None:
        self._core = core
        self.new: list[tuple[Entry, asyncio.Future[int]]] = []
        self._committing: dict[int, _Waiter] = {}  # index: waiter
        self._held: dict[int, _Waiter] = {}  # index: applied; answered when the commit is durable

    def add(self, entry: Entry) -> asyncio.Future[int]:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._core.role is Role.LEADER:
            self.new.append((entry, done))
        else:
            done.set_exception(NotLeader(self._core.leader))
        return done

    def take(self) -> None:
        """Proposes all new commands together: they share an append, a disk round and a network round."""
        if not self.new:
            return
        new, self.new = self.new, []
        try:
            if self._core.role is not Role.LEADER:
                raise NotLeader(self._core.leader)
            self._core.propose_entries(tuple(entry for entry, _ in new))
        except Dropped as error:
            for _, done in new:
                _fail(done, error)
            return
        term, first_index = self._core.term, self._core.log.last_index - len(new) + 1
        if first_index <= self._core.log.committed:
            broken(
                "3 a proposal enters the log behind what is committed",
                first=first_index,
                committed=self._core.log.committed,
            )
        for index, (entry, done) in enumerate(new, first_index):
            if index in self._committing:
                broken("27 one command waits for an index", index=index, term=term)
            self._committing[index] = _Waiter(term, done, entry.kind is not EntryKind.NORMAL)

    def hold(self, entry: Entry) -> None:
        """The entry is applied. Its answer waits for `durable`, even if this node stops leading meanwhile."""
        waiter = self._committing.pop(entry.index, None)
        if waiter is not None:
            check(entry.index not in self._held, "27 one command waits for an index", index=entry.index)
            self._held[entry.index] = waiter

    def durable(self, entries: Sequence[Entry]) -> None:
        """The commit of these entries survives any crash: answers their callers."""
        for entry in entries if self._held else ():
            self._answer(self._held.pop(entry.index, None), entry)

    def applied(self, entry: Entry) -> None:
        self._answer(self._committing.pop(entry.index, None), entry)

    def _answer(self, waiter: _Waiter | None, entry: Entry) -> None:
        if waiter is None:
            return
        if entry.term != waiter.term:
            _fail(waiter.done, Dropped("another leader's entry took the place of this one in the log"))
        elif waiter.is_change and entry.kind is EntryKind.NORMAL:
            _fail(waiter.done, MembershipRefused("another change is under way, or this one is more than one step"))
        elif not waiter.done.done():
            waiter.done.set_result(entry.index)

    def lose(self, error: Exception) -> None:
        """The outcome of entries in the log is unknown from now on."""
        for waiter in self._committing.values():
            _fail(waiter.done, error)
        self._committing.clear()

    def end(self, error: Exception) -> None:
        """The node stops: nothing becomes durable after this."""
        self._committing |= self._held
        self._held.clear()
        self.lose(error)

    def refuse(self, error: Exception) -> None:
        """Fails commands that have not entered the log."""
        for _, done in self.new:
            _fail(done, error)
        self.new.clear()


def _fail(done: asyncio.Future[int], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
