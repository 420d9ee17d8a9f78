"""The aborted transactions whose markers are in one segment: a file beside it, read on demand.

A reader of committed records needs the aborted transactions that overlap its range. Entries are in the order of their
markers, so bisection finds the start of a search. The search ends at the first entry whose last stable offset is at or
after the end of the reader's range. In between it skips blocks whose transactions all begin after the range. So a
search needs few reads, even if one transaction stayed open while very many others were aborted.

The file has a header of 24 bytes: the title, and the number of entries if compaction wrote the whole file, else -1.
Then follow entries of 40 bytes: producer id, offset of the first record, offset of the marker, last stable offset as of
the marker (i64 each), checksum of the entry u32, 4 zero bytes. A checksum starts with the file's name, so entries of
another file are invalid. A growing file is written in chunks; the checkpoint records its number of valid entries. No
file is kept open, and a log without aborted transactions has none.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from chronik.runtime.interfaces import Disk, File
from chronik.runtime.invariants import broken
from chronik.runtime.pieces import Work
from chronik.storage import digests
from chronik.storage.producer_state import AbortedTransaction
from chronik.storage.segment import segment_path
from chronik.wire.checksums import crc32c

TITLE = b"chronik aborted\n"
HEADER = struct.Struct(">16sq")
GROWING = -1  # in place of the number of entries
UNCHECKED = struct.Struct(">qqqq")  # an entry before its checksum
ENTRY = struct.Struct(">qqqqI4x")
BLOCK_ENTRIES = 64  # written, read and skipped together
UNKNOWN = -1  # of a block that has not been read yet
UNKNOWN_BLOCKS_MAX = 256  # read by one search: about 15 ms
ROWS_PER_WRITE = 1024  # when compaction writes a file
SUFFIX = "aborted"


class DamagedIndex(Exception):
    """The file was altered. The index is rebuilt from the log."""


class NotReady(Exception):
    """Finding the answer takes long. The caller runs `aborted_mending.mending` in steps, then retries."""


class AbortedIndex:
    __slots__ = (
        "_disk",
        "_least_first",
        "_running_least",
        "_salt",
        "_stable",
        "entry_synced",
        "last_offset",
        "path",
        "synced_count",
        "unwritten",
        "written_count",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int) -> None:
        self.path = segment_path(directory, base_offset, SUFFIX)
        self.written_count = 0  # valid entries in the file
        self.unwritten: list[AbortedTransaction] = []  # entries that come after those in the file
        self.synced_count = 0
        self.entry_synced = False  # whether the file's name survives a power cut
        self.last_offset = -1  # at or above the newest entry's marker
        self._disk = disk
        self._salt = digests.beginning(self.path)
        self._least_first = array("q")  # lowest first offset of each whole block, or UNKNOWN
        self._stable = array("q")  # last stable offset at the end of each whole block
        self._running_least = UNKNOWN  # of the last, incomplete block; known only if all of it was added here

    def __len__(self) -> int:
        return self.written_count + len(self.unwritten)

    @classmethod
    def listed(cls, disk: Disk, directory: str, base_offset: int, count: int, end_offset: int) -> AbortedIndex:
        """The index as listed in a checkpoint; all markers are below `end_offset`. The file is opened on demand."""
        index = cls(disk, directory, base_offset)
        index._take(count)
        index.last_offset = end_offset - 1
        return index

    @classmethod
    def load(cls, disk: Disk, directory: str, base_offset: int, listed_count: int | None) -> AbortedIndex:
        """Loads the index from the file. `listed_count` is the number in a checkpoint; compaction may have replaced the
        file since.

        Raises DamagedIndex if the file is incomplete. Checks only size, header and last entry: others are checked when
        they are read.
        """
        index = cls(disk, directory, base_offset)
        try:
            file = disk.open(index.path)
        except FileNotFoundError:
            if listed_count:
                raise DamagedIndex(f"{index.path} is gone") from None
            return index
        count, title, stated_count = (file.size_bytes() - HEADER.size) // ENTRY.size, b"", GROWING
        if file.size_bytes() >= HEADER.size:
            title, stated_count = HEADER.unpack(file.read(0, HEADER.size))
        if title == TITLE and stated_count == count:
            listed_count = count
        elif listed_count and (listed_count > count or title != TITLE):
            raise DamagedIndex(f"{index.path} has no {listed_count} entries")
        index._take(listed_count or 0)
        if index.written_count:
            index.last_offset = index._rows(file, index.written_count - 1, index.written_count)[0].last_offset
        return index

    def _take(self, count: int) -> None:
        """Takes over the entries in the file, all of which are synced."""
        self.written_count = self.synced_count = count
        self.entry_synced = True
        self._least_first = array("q", [UNKNOWN]) * (count // BLOCK_ENTRIES)
        self._stable = self._least_first[:]

    def add(self, aborted: AbortedTransaction) -> None:
        if aborted.last_offset <= self.last_offset:
            broken(
                "14 aborted transactions are kept in the order of their markers",
                path=self.path,
                marker=aborted.last_offset,
                last=self.last_offset,
            )
        at = len(self) % BLOCK_ENTRIES
        if at == 0:
            self._running_least = aborted.first_offset
        elif self._running_least != UNKNOWN:
            self._running_least = min(self._running_least, aborted.first_offset)
        if at == BLOCK_ENTRIES - 1:
            self._least_first.append(self._running_least)
            self._stable.append(aborted.last_stable_offset)
        self.unwritten.append(aborted)
        self.last_offset = aborted.last_offset

    def write(self) -> None:
        """Writes all entries to the file. After an error the next call retries."""
        if not self.unwritten:
            return
        file = self._disk.open(self.path, create=True)
        end = _place(self.written_count) if self.written_count else 0
        if file.size_bytes() < end:
            raise DamagedIndex(f"{self.path} is cut short")
        file.truncate(end)
        header = b"" if self.written_count else HEADER.pack(TITLE, GROWING)
        file.append([header + self._encoded(self.unwritten)])
        self.written_count += len(self.unwritten)
        self.unwritten = []

    def write_whole(self, path: str, rows: list[AbortedTransaction]) -> Work[File]:
        """Writes a file with these entries at `path`, which will replace this index's file. The caller syncs and
        renames it."""
        file = self._disk.open(path, create=True)
        file.truncate(0)
        file.append([HEADER.pack(TITLE, len(rows))])
        for start in range(0, len(rows), ROWS_PER_WRITE):
            file.append([self._encoded(rows[start : start + ROWS_PER_WRITE])])
            yield ROWS_PER_WRITE // 8
        return file

    def _encoded(self, rows: Iterable[AbortedTransaction]) -> bytes:
        parts: list[bytes] = []
        for row in rows:
            data = UNCHECKED.pack(*row)
            parts += (data, crc32c(data, self._salt).to_bytes(4, "big"), b"\0\0\0\0")
        return b"".join(parts)

    def collect(self, first: int, end: int, found: list[AbortedTransaction]) -> bool:
        """Adds to `found` all transactions with a record in first..end, `end` exclusive. True: later segments have
        none.

        Raises NotReady if too many blocks are unknown. That happens only if a transaction stayed open while very many
        others ended, and if the file is from before the last start.
        """
        if self.last_offset < first:
            return False
        file = self._open()
        at = 0
        if len(self) > BLOCK_ENTRIES:  # otherwise one read finds them all
            at = bisect_left(range(len(self)), first, key=lambda at: self._rows(file, at, at + 1)[0].last_offset)
        unknown_count = 0
        while at < len(self):
            block, is_at_start = at // BLOCK_ENTRIES, at % BLOCK_ENTRIES == 0
            is_whole = block < len(self._least_first)
            if is_whole and is_at_start and self._least_first[block] >= end:
                if self._stable[block] >= end:
                    return True
                at += BLOCK_ENTRIES
                continue
            stop = min(len(self), (block + 1) * BLOCK_ENTRIES)
            rows = self._rows(file, at, stop)
            for row in rows:
                if row.first_offset < end and row.last_offset >= first:
                    found.append(row)
                if row.last_stable_offset >= end:
                    return True
            if is_whole and is_at_start and self._least_first[block] == UNKNOWN:
                self._know(block, rows)
                unknown_count += 1
                if unknown_count > UNKNOWN_BLOCKS_MAX:
                    raise NotReady(f"{self.path} has more than {UNKNOWN_BLOCKS_MAX} blocks to read")
            at = stop
        return False

    def reading_blocks(self) -> Iterator[None]:
        """Loads all blocks, one at a time. In between, entries may be added and truncated."""
        block = 0
        while block < len(self._least_first):
            if self._least_first[block] == UNKNOWN:
                self._know(block, self._rows(self._open(), block * BLOCK_ENTRIES, (block + 1) * BLOCK_ENTRIES))
                yield
            block += 1

    def _know(self, block: int, rows: list[AbortedTransaction]) -> None:
        self._least_first[block] = min([row.first_offset for row in rows])
        self._stable[block] = rows[-1].last_stable_offset

    def all(self) -> Iterable[AbortedTransaction]:
        file = self._open()
        for at in range(0, len(self), BLOCK_ENTRIES):
            yield from self._rows(file, at, min(len(self), at + BLOCK_ENTRIES))

    def truncate(self, offset: int) -> None:
        """Drops entries whose markers are at or above `offset`."""
        if self.last_offset < offset:
            return
        file = self._open()
        count = bisect_left(range(len(self)), offset, key=lambda at: self._rows(file, at, at + 1)[0].last_offset)
        self.last_offset = self._rows(file, count - 1, count)[0].last_offset if count else -1
        if count < self.written_count and file is not None:
            file.truncate(_place(count))
        del self.unwritten[max(0, count - self.written_count) :]
        self.written_count = min(self.written_count, count)
        self.synced_count = min(self.synced_count, count)
        del self._least_first[count // BLOCK_ENTRIES :], self._stable[count // BLOCK_ENTRIES :]
        self._running_least = UNKNOWN

    def _open(self) -> File | None:
        return self._disk.open(self.path) if self.written_count else None

    def _rows(self, file: File | None, start: int, stop: int) -> list[AbortedTransaction]:
        """Returns checked entries start..stop. `file` is open if any of them is in it."""
        rows: list[AbortedTransaction] = []
        written = min(stop, self.written_count)
        if start < written and file is not None:
            data = file.read(_place(start), (written - start) * ENTRY.size)
            if len(data) < (written - start) * ENTRY.size:
                raise DamagedIndex(f"{self.path} is cut short")
            for at, (*fields, checksum) in enumerate(ENTRY.iter_unpack(data)):
                place = at * ENTRY.size
                if crc32c(data[place : place + UNCHECKED.size], self._salt) != checksum:
                    raise DamagedIndex(f"{self.path} is damaged at entry {start + at}")
                rows.append(AbortedTransaction(*fields))
        if stop > self.written_count:
            rows += self.unwritten[max(0, start - self.written_count) : stop - self.written_count]
        return rows


def _place(index: int) -> int:
    return HEADER.size + index * ENTRY.size
