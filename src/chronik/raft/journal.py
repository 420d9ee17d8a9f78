"""The Raft log on disk: one journal file and one snapshot file in a directory of their own.

Every method but `append` may block for long: the driver calls them on a lane. The journal acknowledges nothing; a
caller may do so when the file that `append` returned is synced. After an error other than DiskFull do not use the
journal again.

The journal is one live file, `journal-N`. It opens with a frame that holds the whole current state, then gets one frame
per write round. Opening the directory, and compacting after a snapshot, write the next file completely and remove the
previous one: data that an earlier process wrote but could not sync is written again before anything relies on it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from chronik.raft.errors import LogDamaged, MalformedMessage
from chronik.raft.journal_format import (
    Base,
    JournalItem,
    Replayed,
    decode_snapshot_file,
    encode_frame,
    encode_snapshot_file,
    frames,
    has_frame_behind,
    records,
    replay,
    whole_bytes,
)
from chronik.raft.messages import Entry, HardState, Snapshot
from chronik.runtime.interfaces import Disk, File
from chronik.runtime.invariants import check

logger = logging.getLogger("chronik.raft")
SNAPSHOT_NAME = "snapshot"
JOURNAL_PREFIX = "journal-"
FIRST_NUMBER = 1  # the first journal in an empty directory
AHEAD_BYTES = 256 << 10  # zeros after the end; about one round in a thousand writes more


class Recovered(NamedTuple):
    snapshot: Snapshot | None
    hard_state: HardState
    base: Base
    entries: Sequence[Entry]
    was_cut: bool = False  # an incomplete write at the end was truncated; it may be bit rot in a synced one

    @property
    def last_index(self) -> int:
        return self.base.base_index + len(self.entries)

    @property
    def is_empty(self) -> bool:
        """No promise was ever made here. A term without entries counts as empty: the node is about to join."""
        return self.snapshot is None and not self.entries and self.hard_state == HardState()


class RaftJournal:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk, self._directory = disk, directory
        self._file: File | None = None
        self._number = 0
        self._was_cut = False

    def recover(self) -> Recovered:
        """Reads everything, makes it durable again, and is ready to write. Raises LogDamaged and changes nothing."""
        self._disk.make_directory(self._directory)
        snapshot = self._read_snapshot()
        replayed, self._number = self._read_journal(has_snapshot=snapshot is not None)
        recovered = self._joined(snapshot, replayed)
        self.rewrite(recovered.hard_state, recovered.base, recovered.entries)
        return recovered._replace(was_cut=self._was_cut)

    def _read_snapshot(self) -> Snapshot | None:
        path = self._path(SNAPSHOT_NAME)
        if not self._disk.exists(path):
            return None
        try:
            return decode_snapshot_file(self._disk.read_file(path))
        except MalformedMessage as error:
            raise LogDamaged(path, 0, str(error)) from error

    def _read_journal(self, *, has_snapshot: bool) -> tuple[Replayed, int]:
        numbers = sorted(
            int(name.removeprefix(JOURNAL_PREFIX))
            for name in self._disk.list(self._directory)
            if name.removeprefix(JOURNAL_PREFIX).isdigit()
        )
        for number in reversed(numbers):
            path = self._journal_path(number)
            data = memoryview(self._disk.read_file(path))
            whole = whole_bytes(data)
            if whole < len(data) and has_frame_behind(data, whole):
                raise LogDamaged(path, whole, "a frame is broken and whole ones follow it")
            if whole == 0:
                continue  # a crash interrupted its creation; the previous one still counts
            if bytes(data[whole:]).strip(b"\0"):
                logger.info("%s: truncated an incomplete write at byte %d", path, whole)
                self._was_cut = True
            replayed = replay(record for body in frames(data) for record in records(body))
            if replayed.hole_at:
                raise LogDamaged(path, whole, f"index {replayed.hole_at} does not join the entries before it")
            return replayed, numbers[-1]
        newest = numbers[-1] if numbers else 0
        if has_snapshot or (numbers and numbers[0] > FIRST_NUMBER):
            # A snapshot is written, and a journal removed, only once a journal is durable: not all can be torn.
            raise LogDamaged(self._journal_path(newest), 0, "no whole frame is left of the journal")
        return replay(()), newest

    def _joined(self, snapshot: Snapshot | None, replayed: Replayed) -> Recovered:
        """The log after the snapshot. A leader's snapshot may be ahead of the journal or contradict it."""
        hard_state, base, entries = replayed.hard_state, replayed.base, replayed.entries
        covered = Base(snapshot.index, snapshot.term) if snapshot else Base(0, 0)
        place = covered.base_index - base.base_index
        if place < 0:
            where = self._path(SNAPSHOT_NAME)
            raise LogDamaged(where, 0, f"it ends at {covered.base_index}, the log begins behind {base.base_index}")
        terms = [base.base_term, *(entry.term for entry in entries)]
        if place >= len(terms) or terms[place] != covered.base_term:
            base, entries = covered, ()
        last_index = base.base_index + len(entries)
        if hard_state.commit > last_index:
            where = self._journal_path(self._number)
            raise LogDamaged(
                where, 0, f"entries up to {hard_state.commit} were committed, the log ends at {last_index}"
            )
        commit = max(hard_state.commit, covered.base_index)
        check(commit >= base.base_index, "2 what was compacted was committed", commit=commit, base=base.base_index)
        return Recovered(snapshot, hard_state._replace(commit=commit), base, entries)

    def append(self, hard_state: HardState | None, entries: Sequence[Entry]) -> File:
        """Writes one round, durable once the returned file is synced. Raises DiskFull when none of it was kept."""
        assert self._file is not None
        head: list[JournalItem] = [hard_state] if hard_state else []
        self._file.append([encode_frame(self._file.size_bytes(), [*head, *entries])])
        return self._file

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Makes the snapshot durable; only then may the log drop what it covers."""
        self._disk.replace_file(self._path(SNAPSHOT_NAME), encode_snapshot_file(snapshot))

    def rewrite(self, hard_state: HardState, base: Base, entries: Sequence[Entry]) -> None:
        """Continues in a new file that begins with exactly this."""
        check(
            not entries or entries[-1].index == base.base_index + len(entries),
            "28 a journal's entries follow its base without a hole",
            base=base.base_index,
            count=len(entries),
        )
        check(
            hard_state.commit <= base.base_index + len(entries),
            "2 no commit index is written ahead of its entries",
            commit=hard_state.commit,
            end=base.base_index + len(entries),
        )
        file = self._disk.create_ahead(self._journal_path(self._number + 1), AHEAD_BYTES)
        file.append([encode_frame(0, [base, hard_state, *entries])])
        file.sync()
        self._disk.sync_directory(self._directory)
        before, self._file = self._file, file
        if before is not None:
            before.close()
        self._number += 1
        for name in self._disk.list(self._directory):
            number = name.removeprefix(JOURNAL_PREFIX)
            if number.isdigit() and int(number) < self._number:
                self._disk.remove(self._path(name))
        self._disk.sync_directory(self._directory)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def is_in_place(self) -> bool:
        return self._file is None or self._file.is_in_place()

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes() if self._file else 0

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _journal_path(self, number: int) -> str:
        return self._path(f"{JOURNAL_PREFIX}{number:08d}")
