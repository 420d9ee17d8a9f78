"""Read points requested from the quorum: waiting readers share one round, and a lost round is requested again.

Not responsible for safety: the core answers, and this module tracks which reader waits for which round.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronik.raft.messages import ReadState
from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from chronik.raft.core import Core

# Node, incarnation, count: unique in the cluster, because the leader stores them by context.
_CONTEXT = struct.Struct(">Q8sQ")


@dataclass(slots=True)
class _Round:
    readers: list[asyncio.Future[int]]
    ticks: int = 0


class ReadPoints:
    def __init__(self, core: Core, start: bytes, *, retry_ticks: int) -> None:
        self._core, self._start, self._retry_ticks = core, start, retry_ticks
        self._count = 0
        self.new: list[asyncio.Future[int]] = []  # waiting for `take`
        self._asked: dict[bytes, _Round] = {}
        self.unapplied: list[tuple[int, list[asyncio.Future[int]]]] = []  # confirmed, waiting for `applied`

    def ask(self) -> asyncio.Future[int]:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.new.append(done)
        return done

    def new_context(self) -> bytes:
        self._count += 1
        return _CONTEXT.pack(self._core.id, self._start, self._count)

    def take(self) -> None:
        """Requests a round for all new readers. It starts after each of them began to wait."""
        if self.new:
            readers, self.new = self.new, []
            context = self.new_context()
            check(context not in self._asked, "6 a round of reads has a context of its own", context=context)
            self._asked[context] = _Round(readers)
            self._core.read_index(context)

    def tick(self) -> None:
        """Requests again what got no answer: the leader may have changed, or a message was lost."""
        for context, asked in list(self._asked.items()):
            asked.ticks += 1
            if asked.ticks >= self._retry_ticks:
                del self._asked[context]
                self.new.extend(reader for reader in asked.readers if not reader.done())

    def leader_changed(self) -> None:
        """Requests all waiting reads from the new leader at once: the old one no longer answers."""
        for asked in self._asked.values():
            self.new.extend(reader for reader in asked.readers if not reader.done())
        self._asked.clear()

    def confirmed(self, state: ReadState) -> None:
        asked = self._asked.pop(state.context, None)
        if asked:
            self.unapplied.append((state.index, asked.readers))
            self.applied(self._core.log.applied)

    def applied(self, index: int) -> None:
        if not self.unapplied:
            return
        waiting, self.unapplied = self.unapplied, []
        for needed, readers in waiting:
            if needed > index:
                self.unapplied.append((needed, readers))
                continue
            for reader in readers:
                if not reader.done():
                    reader.set_result(needed)

    def fail(self, error: Exception) -> None:
        waiting = [*self.new, *(reader for asked in self._asked.values() for reader in asked.readers)]
        waiting += (reader for _, readers in self.unapplied for reader in readers)
        for reader in waiting:
            if not reader.done():
                reader.set_exception(error)
