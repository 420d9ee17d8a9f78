"""Group commit: writes of several Readys become one write round; rounds run one at a time, in order.

Owns the journal and the lane. Reports nothing as durable before the disk confirms it. A round that fails because the
disk is full is retried, since none of it was kept; any other error is final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from chronik.raft.journal import RaftJournal
from chronik.raft.journal_format import Base
from chronik.raft.messages import NOBODY, Entry, HardState, Ready, Snapshot
from chronik.raft.stable_log import StableLog
from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Lane
from chronik.runtime.invariants import broken, check

DISK_FULL_RETRY_S = 0.2

Work: TypeAlias = Callable[[], asyncio.Future[None]]  # starts a write round


class Rounds:
    def __init__(
        self,
        journal: RaftJournal,
        lane: Lane,
        stable: StableLog,
        hard_state: HardState,
        *,
        persisted: Callable[[Ready], None],
        settled: Callable[[], None],
        failed: Callable[[BaseException], None],
        refused: Callable[[], None],
    ) -> None:
        """`persisted` is called for each Ready in order, then `settled` once per round.

        `refused` is called for each write that failed on a full disk, `failed` for any other error, which is final.
        """
        self._journal, self._lane, self._stable = journal, lane, stable
        self._persisted, self._settled, self._failed, self._refused = persisted, settled, failed, refused
        self._hard_state = hard_state  # newest requested; a commit index alone waits for the next round that syncs
        self._durable_state = hard_state
        self._waiting: list[Ready] = []
        self._compaction: tuple[Snapshot, int] | None = None
        self._busy = False
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._compacted_bytes = journal.size_bytes
        self.grown_bytes = 0  # journal growth since the last compaction
        self.refusals = 0  # consecutive full-disk failures of the current write

    @property
    def is_log_in_place(self) -> bool:
        """False if the journal's file was removed or replaced."""
        return self._journal.is_in_place

    def submit(self, ready: Ready) -> None:
        self._waiting.append(ready)
        self._start()

    def compact(self, snapshot: Snapshot, up_to: int) -> None:
        """Makes the snapshot durable, then drops the log up to an index that it covers."""
        check(self._compaction is None, "30 one compaction of the log at a time", up_to=up_to)
        check(
            up_to <= snapshot.index,
            "2 a log forgets only what its snapshot covers",
            up_to=up_to,
            snapshot=snapshot.index,
        )
        self._compaction = (snapshot, up_to)
        self._start()

    @property
    def compacting(self) -> bool:
        return self._compaction is not None

    async def close(self) -> None:
        """Returns when the current disk work has ended. Of the work that has not started, only a waiting commit is
        written."""
        self._closed = True
        self._waiting.clear()
        if not self._busy and self._hard_state != self._durable_state:
            await self._lane.run(self._write_commit)
        await self._lane.run(self._journal.close)
        self._lane.close()

    def _write_commit(self) -> None:
        """Records the commit index, so that the next start knows it without a leader. No caller depends on it."""
        with suppress(DiskFull, OSError):
            self._journal.append(self._hard_state, ()).sync()

    def _start(self) -> None:
        while self._waiting and not self._busy and not self._closed:
            if self._compaction is not None:
                break
            if not _must_write(self._waiting[0]):
                ready = self._waiting.pop(0)
                self._require_newer(ready)
                self._hard_state = ready.hard_state or self._hard_state
                self._persisted(ready)
                continue
            self._write(self._take())
        if self._compaction is not None and not self._busy and not self._closed:
            self._write_compaction(*self._compaction)

    def _take(self) -> list[Ready]:
        """All waiting Readys; but a snapshot alone, because it replaces everything written before it."""
        count = 1
        if self._waiting[0].snapshot is None:
            while count < len(self._waiting) and self._waiting[count].snapshot is None:
                count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _require_newer(self, ready: Ready) -> None:
        state, before = ready.hard_state, self._hard_state
        if state is None:
            return
        if state.term < before.term or state.commit < before.commit:
            broken("2 durable term and commit never go back", before=before, now=state)
        if state.term == before.term and before.vote not in (NOBODY, state.vote):
            broken("1 one vote in a term", term=state.term, before=before.vote, now=state.vote)

    def _write(self, taken: list[Ready]) -> None:
        for ready in taken:
            self._require_newer(ready)
            self._hard_state = ready.hard_state or self._hard_state
        entries = [entry for ready in taken for entry in ready.entries]
        if self._busy:
            broken("21 one round writes at a time", entries=len(entries))
        snapshot = taken[0].snapshot
        end = entries[-1].index if entries else snapshot.index if snapshot else self._stable.last_index
        if self._hard_state.commit > end:
            broken("2 no commit index is written ahead of its entries", commit=self._hard_state.commit, end=end)
        if snapshot is None:
            work = partial(self._append, entries)
        else:
            work = partial(self._lane.run, partial(self._install, snapshot, self._hard_state, entries))
        self._run(work, partial(self._written, taken))

    def _append(self, entries: list[Entry]) -> asyncio.Future[None]:
        """Runs on the loop, because it only fills the page cache; the sync takes the time."""
        try:
            return self._lane.sync([self._journal.append(self._hard_state, entries)])
        except Exception as error:  # noqa: BLE001 - passed on to the waiters of the round
            refused: asyncio.Future[None] = self._loop.create_future()
            refused.set_exception(error)
            return refused

    def _install(self, snapshot: Snapshot, hard_state: HardState, entries: list[Entry]) -> None:
        self._journal.write_snapshot(snapshot)
        self._journal.rewrite(hard_state, Base(snapshot.index, snapshot.term), entries)

    def _written(self, taken: list[Ready]) -> None:
        for ready in taken:
            if ready.snapshot:
                self._stable.restart_behind(ready.snapshot.index, ready.snapshot.term)
                self._compacted_bytes, self.grown_bytes = self._journal.size_bytes, 0
            self._stable.append(ready.entries)
            if ready.entries and self._stable.last_index < ready.entries[-1].index:
                broken("3 what is durable is in the log", end=self._stable.last_index, last=ready.entries[-1].index)
            self._persisted(ready)

    def _write_compaction(self, snapshot: Snapshot, up_to: int) -> None:
        term = self._stable.term(up_to)
        if term is None or up_to > snapshot.index:
            self._compaction = None  # superseded by a snapshot from the leader
            return
        kept = list(self._stable.entries(up_to + 1, self._stable.last_index + 1) or ())
        check(
            up_to + len(kept) == self._stable.last_index,
            "3 compaction keeps all behind the snapshot",
            up_to=up_to,
            kept=len(kept),
            end=self._stable.last_index,
        )
        check(
            self._hard_state.commit <= self._stable.last_index,
            "2 no commit index is written ahead of its entries",
            commit=self._hard_state.commit,
            end=self._stable.last_index,
        )

        def work() -> None:
            self._journal.write_snapshot(snapshot)
            self._journal.rewrite(self._hard_state, Base(up_to, term), kept)

        self._run(partial(self._lane.run, work), partial(self._compacted, up_to))

    def _compacted(self, up_to: int) -> None:
        self._compaction = None
        self._stable.compact(up_to)
        check(
            self._stable.base_index >= up_to,
            "28 a compacted log begins behind its snapshot",
            base=self._stable.base_index,
        )
        self._compacted_bytes, self.grown_bytes = self._journal.size_bytes, 0

    def _run(self, work: Work, done: Callable[[], None]) -> None:
        self._busy = True
        work().add_done_callback(partial(self._ended, work, done))

    def _ended(self, work: Work, done: Callable[[], None], result: asyncio.Future[None]) -> None:
        error = result.exception()
        if self._closed:
            return
        if error is not None:
            self._refused()
        if isinstance(error, DiskFull):
            self.refusals += 1
            self._loop.call_later(DISK_FULL_RETRY_S, self._run, work, done)
            return
        if error is not None:
            self._failed(error)
            return
        if not self._busy:
            broken("21 a round of writing ends once", entries=self._stable.last_index)
        self._busy = False
        self.refusals = 0
        if self._hard_state.term < self._durable_state.term or self._hard_state.commit < self._durable_state.commit:
            broken("2 durable term and commit never go back", before=self._durable_state, now=self._hard_state)
        self._durable_state = self._hard_state
        self.grown_bytes = self._journal.size_bytes - self._compacted_bytes
        done()
        self._start()
        self._settled()


def _must_write(ready: Ready) -> bool:
    return bool(ready.must_sync or ready.entries or ready.snapshot or ready.commits_change)
