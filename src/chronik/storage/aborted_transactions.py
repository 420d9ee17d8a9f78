"""The aborted transactions of one log: an index file for each segment that holds abort markers (`aborted_index`).

Everything here is derived from the log. The checkpoint lists the files and their numbers of valid entries; recovery
adds entries from batches after the checkpoint. If a file is missing or damaged, all of them are rebuilt from the log
(`aborted_mending`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, File
from chronik.runtime.invariants import check
from chronik.storage.aborted_index import BLOCK_ENTRIES, SUFFIX, AbortedIndex, DamagedIndex
from chronik.storage.producer_state import AbortedTransaction
from chronik.storage.segment import segment_path

if TYPE_CHECKING:
    from chronik.storage.aborted_mending import Rebuild
    from chronik.storage.log import Log

logger = logging.getLogger("chronik.storage")


class AbortedTransactions:
    __slots__ = ("_directory", "_disk", "indexes", "is_whole", "last_offset", "rebuild")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.indexes: dict[int, AbortedIndex] = {}  # by base offset of their segments, ascending
        self.last_offset = -1  # offset of the newest marker, or a higher one
        self.is_whole = True  # False: a file is damaged, and all of them must be rebuilt
        self.rebuild: Rebuild | None = None  # the current rebuild

    def add(self, base_offset: int, aborted: AbortedTransaction) -> None:
        """Adds a transaction whose marker is in the segment with this base offset. Ignores a known one."""
        if self.is_whole and aborted.last_offset > self.last_offset:
            self.put(base_offset, aborted)

    def put(self, base_offset: int, aborted: AbortedTransaction) -> None:
        """Like `add`, also during a rebuild."""
        index = self.indexes.get(base_offset)
        if index is None:
            index = self.indexes[base_offset] = AbortedIndex(self._disk, self._directory, base_offset)
        index.add(aborted)
        self.last_offset = aborted.last_offset
        if len(index.unwritten) >= BLOCK_ENTRIES:
            try:
                index.write()
            except DamagedIndex as error:
                self.distrust(str(error))
            except (DiskFull, OSError):
                return  # the entries stay in memory, and the next call or checkpoint retries

    def between(self, first: int, end: int, base_offset: int) -> list[AbortedTransaction]:
        """Transactions with a record in first..end, `end` exclusive, by first offset. `base_offset` is that of the
        segment that holds `first`: earlier segments only hold markers before it. Raises DamagedIndex, and NotReady if
        it would take long."""
        if end <= first or self.last_offset < first:
            return []
        found: list[AbortedTransaction] = []
        try:
            for base, index in self.indexes.items():
                if base >= base_offset and index.collect(first, end, found):
                    break
        except FileNotFoundError as error:
            raise DamagedIndex(str(error)) from error
        found.sort(key=lambda aborted: aborted.first_offset)
        check(
            not found or found[-1].first_offset < end,
            "14 a reader is told of transactions that it meets",
            first=first,
            end=end,
        )
        return found

    def truncate(self, offset: int) -> bool:
        """Removes everything at or above `offset`. Returns whether a marker was removed."""
        self.rebuild = None
        if self.last_offset < offset and self.is_whole:
            return False
        for base, index in list(self.indexes.items()):
            try:
                index.truncate(offset)
            except (DamagedIndex, DiskFull, OSError) as error:
                self.distrust(str(error))
                return True
            if not len(index):
                self.drop(base)
        self.last_offset = max([index.last_offset for index in self.indexes.values()], default=-1)
        return True

    def drop(self, base_offset: int) -> None:
        """The segment was removed together with its files."""
        self.indexes.pop(base_offset, None)

    def begin(self, base_offset: int) -> None:
        """A new segment starts: an existing index file of that name belongs to an earlier segment."""
        self.drop(base_offset)
        path = segment_path(self._directory, base_offset, SUFFIX)
        if self._disk.exists(path):
            self._disk.remove(path)

    def clear(self) -> None:
        """The log has no segment left, or is read again from the beginning."""
        self.indexes.clear()
        self.last_offset, self.is_whole, self.rebuild = -1, True, None

    def distrust(self, why: str) -> None:
        if self.is_whole:
            logger.warning("%s: %s; aborted transactions are read again from the log", self._directory, why)
        self.is_whole, self.rebuild = False, None

    def begin_rebuild(self, bases: list[int]) -> None:
        """`bases` are the base offsets of all segments. The rebuild also reads transactions that are added later from
        the log."""
        for base in bases:
            self.begin(base)
        self.indexes.clear()
        self.last_offset, self.is_whole = -1, False

    def end_rebuild(self) -> None:
        """Everything in the log has been added."""
        self.is_whole, self.rebuild = True, None

    def restore(self, listed: dict[int, int], bases: list[int], end_offset: int) -> None:
        """Loads the files as of a checkpoint at `end_offset`. `bases` are the base offsets of all segments. Entries of
        segments after the checkpoint are ignored: recovery reads these segments and adds what it finds."""
        for base in bases:
            if count := listed.get(base, 0):
                self.indexes[base] = AbortedIndex.listed(self._disk, self._directory, base, count, end_offset)
                self.last_offset = end_offset - 1

    def restore_compacted(self, listed: dict[int, int], bases: list[int], last_base: int) -> None:
        """Like `restore`, but compaction may have replaced files since the checkpoint, which ends in the segment
        `last_base`. Compaction only replaces existing indexes: if the checkpoint lists none, there is none."""
        for base in bases if listed else ():
            if base > last_base:
                break
            try:
                index = AbortedIndex.load(self._disk, self._directory, base, listed.get(base))
            except (DamagedIndex, OSError) as error:
                self.distrust(str(error))
                return
            if len(index):
                self.indexes[base] = index
                self.last_offset = max(self.last_offset, index.last_offset)

    def write(self) -> list[tuple[AbortedIndex, int, File]]:
        """Writes all entries to the files. Returns what a checkpoint must sync: index, number of entries, file.

        Raises DiskFull, and DamagedIndex.
        """
        try:
            for index in self.indexes.values():
                index.write()
            return [
                (index, index.written_count, self._disk.open(index.path))
                for index in self.indexes.values()
                if index.synced_count < index.written_count
            ]
        except FileNotFoundError as error:
            raise DamagedIndex(str(error)) from error

    def counts(self) -> dict[int, int]:
        """For a checkpoint: the number of entries by base offset."""
        return {base: index.written_count for base, index in self.indexes.items() if index.written_count}

    def replaced(self, old_bases: list[int], base_offset: int, count: int) -> None:
        """Compaction has replaced segments by one with an index file of `count` entries."""
        self.rebuild = None
        for base in old_bases:
            self.drop(base)
        if count:
            self.indexes[base_offset] = AbortedIndex.load(self._disk, self._directory, base_offset, count)
            self.indexes = dict(sorted(self.indexes.items()))
        self.last_offset = max([index.last_offset for index in self.indexes.values()], default=-1)


def written(log: Log) -> list[tuple[AbortedIndex, int, File]]:
    """Like `AbortedTransactions.write`, for a checkpoint of this log. If it raises DamagedIndex, rebuild the index
    first."""
    if not log.aborted.is_whole:
        raise DamagedIndex(f"aborted transactions of {log!r} are not known")
    try:
        return log.aborted.write()
    except DamagedIndex as error:
        log.aborted.distrust(str(error))
        raise
