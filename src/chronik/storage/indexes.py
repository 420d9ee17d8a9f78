"""A segment's sparse index: a batch's offset and position, the largest timestamp before it, and the digest there.

One entry for every `index_interval_bytes` of log, or every batch if batches are larger. An index only saves reads: a
result is checked against the batch at that position, and a missing, short or wrong index is rebuilt from the log. So
correctness never depends on it, although it is synced together with its segment.

The file has a header of 24 bytes, then entries of 24 bytes: offset above the segment's base u32, position u32,
timestamp i64, digest of the batches before it u32, checksum of the entry u32. The index of a sealed segment ends with
an entry for its end, which has the offset END. Entries are written in chunks; missing ones are recreated by reading the
log after the last written one. A digest is trusted only if its entry's checksum is valid. The checksum starts with the
segment's name, so entries of another index are invalid.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from operator import le
from sys import byteorder
from typing import NamedTuple

from chronik.runtime.buggify import INDEX_UNUSED, TIME_INDEX_UNUSED
from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, File
from chronik.runtime.invariants import broken, check
from chronik.storage.digests import KnownDigest
from chronik.wire.checksums import crc32c

HEADER = b"chronik index 2\n".ljust(24, b"\0")
ENTRY = struct.Struct(">IIqII")
UNCHECKED = struct.Struct(">IIqI")  # an entry before its checksum
END = 2**32 - 1  # above every possible relative offset
CHUNK_ENTRIES = 64  # a write of 1 KiB for every 256 KiB of log or more


class IndexEntry(NamedTuple):
    offset: int  # of the batch at `position`, relative to the segment's base
    position: int
    timestamp_before_ms: int  # the largest timestamp of all batches before `position`; -1 if there is none


class Index:
    """`salt` starts the checksums of its entries: a number that is unique to the segment."""

    def __init__(self, disk: Disk, path: str, salt: int = 0) -> None:
        self._disk = disk
        self.path = path
        self._salt = salt
        self._offsets = array("I")
        self.positions = array("I")  # positions of the batches with an entry
        self._timestamps = array("q")
        self._digests = array("I")
        self._taken = 0  # entries from an earlier process: their checksums are verified on first use
        self._written = 0
        self._ends_sealed = False  # the file has an entry for the end, after `_written` other entries
        self.file: File | None = None  # open since the first write or truncation

    def __len__(self) -> int:
        return len(self.positions)

    def entry(self, index: int) -> IndexEntry:
        return IndexEntry(self._offsets[index], self.positions[index], self._timestamps[index])

    def last_position(self) -> int:
        """-1 if there is no entry, so the first batch always gets one."""
        return self.positions[-1] if self.positions else -1

    def known_before(self, position: int) -> KnownDigest | None:
        """The digest at the last valid entry at or before `position`."""
        index = bisect_right(self.positions, position)
        while index:
            index -= 1
            if index >= self._taken or self._holds(index):
                return KnownDigest(self.positions[index], self._digests[index])
        return None

    def known_after(self, position: int) -> KnownDigest | None:
        """The digest at the first valid entry at or after `position`, or at the end if the segment is sealed."""
        for index in range(bisect_left(self.positions, position), len(self.positions)):
            if index >= self._taken or self._holds(index):
                return KnownDigest(self.positions[index], self._digests[index])
        if self._ends_sealed and (end := self._read_entry(self._written)) is not None and end[0] == END:
            return KnownDigest(end[1], end[3])
        return None

    def _holds(self, index: int) -> bool:
        found = self._read_entry(index)
        return found is not None and found[:2] == (self._offsets[index], self.positions[index])

    def _read_entry(self, index: int) -> tuple[int, ...] | None:
        """The entry as in the file; None if its checksum is invalid, or it cannot be read."""
        try:
            if self.file is None:
                self.file = self._disk.open(self.path)
            data = self.file.read(_place(index), ENTRY.size)
        except (DiskFull, OSError):
            return None
        if len(data) < ENTRY.size or crc32c(data[: UNCHECKED.size], self._salt) != ENTRY.unpack(data)[4]:
            return None
        return ENTRY.unpack(data)

    def add(self, offset: int, position: int, timestamp_before_ms: int, digest: int) -> None:
        if self.positions and position < self.positions[-1]:
            broken("28 index entries rise", path=self.path, position=position, last=self.positions[-1])
        self._offsets.append(offset)
        self.positions.append(position)
        self._timestamps.append(timestamp_before_ms)
        self._digests.append(digest)

    def before_offset(self, offset: int) -> IndexEntry:
        """The last entry at or before `offset`, where the search for its batch starts."""
        if INDEX_UNUSED.is_on and INDEX_UNUSED.fires():
            return IndexEntry(0, 0, -1)
        index = bisect_right(self._offsets, offset) - 1
        return self.entry(index) if index >= 0 else IndexEntry(0, 0, -1)

    def before_position(self, position: int) -> IndexEntry:
        index = bisect_right(self.positions, position) - 1
        return self.entry(index) if index >= 0 else IndexEntry(0, 0, -1)

    def before_timestamp(self, timestamp_ms: int) -> IndexEntry:
        """An entry before which all records are earlier than `timestamp_ms`."""
        if TIME_INDEX_UNUSED.is_on and TIME_INDEX_UNUSED.fires():
            return IndexEntry(0, 0, -1)
        index = bisect_left(self._timestamps, timestamp_ms) - 1
        return self.entry(index) if index >= 0 else IndexEntry(0, 0, -1)

    def truncate(self, position: int) -> None:
        """Drops entries at or after `position`, also in the file: a later batch may start at the same position and
        offset, and a stale entry would match it."""
        count = bisect_left(self.positions, position)
        del self._offsets[count:], self.positions[count:], self._timestamps[count:], self._digests[count:]
        self._taken = min(self._taken, count)
        check(
            len(self._offsets) == len(self.positions) == len(self._timestamps) == len(self._digests),
            "28 an index entry has offset, position, timestamp and digest",
            path=self.path,
            count=count,
        )
        if self._written > count or self._ends_sealed:
            self._cut_file(count)
        elif not count and self.file is None:
            self._remove_file()  # it may hold entries that were never loaded

    def _cut_file(self, count: int) -> None:
        file, self.file = self.file, None
        self._ends_sealed = False
        try:
            if file is None:
                file = self._disk.open(self.path)
            file.truncate(_end_of(count))
        except (DiskFull, OSError):
            self._remove_file()  # this needs neither space nor a descriptor
        else:
            self._written = count
            self.file = file

    def _remove_file(self) -> None:
        self._written, self._ends_sealed = 0, False
        if self._disk.exists(self.path):
            self._disk.remove(self.path)

    @property
    def unwritten(self) -> int:
        return len(self.positions) - self._written

    def write(self) -> None:
        """Writes missing entries to the file. After an error the next call retries all of them."""
        # If this fails, the file may end in half an entry. It is truncated when the file is reopened.
        file, self.file = self.file, None
        start = self._written
        check(
            start <= len(self.positions),
            "28 an index file holds no more than the index",
            path=self.path,
            written=start,
            entries=len(self.positions),
        )
        if file is None:
            file = self._disk.open(self.path, create=True)
            file.truncate(_end_of(start))
        columns = (self._offsets, self.positions, self._timestamps, self._digests)
        rows = [self._row(*row) for row in zip(*[column[start:] for column in columns], strict=True)]
        file.append([b"".join([b"" if file.size_bytes() else HEADER, *rows])])
        self._written = len(self.positions)
        self.file = file

    def write_end(self, position: int, digest: int) -> None:
        """For a sealed segment, after all other entries are written."""
        if self._ends_sealed or self.unwritten or not self._written:
            return  # there was no space for the other entries, so the digest at the end stays unknown
        file, self.file = self.file, None
        if file is None:
            file = self._disk.open(self.path, create=True)
            file.truncate(_end_of(self._written))
        file.append([self._row(END, position, -1, digest)])
        self._ends_sealed, self.file = True, file

    def _row(self, *values: int) -> bytes:
        data = UNCHECKED.pack(*values)
        return data + crc32c(data, self._salt).to_bytes(4, "big")

    def load(self, size_bytes: int) -> None:
        """Loads the file's entries as long as they are in order and within a log of `size_bytes`; drops the rest."""
        try:
            data = self._disk.read_file(self.path)
        except OSError:  # missing or unreadable: treated as empty
            data = b""
        entries = data[len(HEADER) :] if data.startswith(HEADER) else b""  # otherwise the file is from another release
        entries = entries[: len(entries) // ENTRY.size * ENTRY.size]
        self._take(entries)
        if len(self) and self._offsets[-1] == END and self.positions[-1] == size_bytes:
            self._ends_sealed = True
            for column in (self._offsets, self.positions, self._timestamps, self._digests):
                column.pop()
        rows = (self._offsets, self.positions, self._timestamps)
        if not len(self) or self.positions[0] or self.positions[-1] >= size_bytes or not all(map(_rises, rows)):
            self._ends_sealed = False
            self._take_while_in_order(entries, size_bytes)
        self._written = self._taken = len(self.positions)
        check(
            self._written * ENTRY.size <= len(entries),
            "28 an index takes no more from its file than there is",
            path=self.path,
            entries=self._written,
            size=len(entries),
        )
        if len(data) > _end_of(self._written + self._ends_sealed):
            self._cut_file(self._written)

    def _take(self, data: bytes) -> None:
        """Processes all entries at once: a segment of one gigabyte may have a quarter of a million."""
        words, longs = array("I", data), array("q", data)
        if byteorder == "little":
            words.byteswap()
            longs.byteswap()
        self._offsets, self.positions, self._timestamps = words[0::6], words[1::6], longs[1::3]
        self._digests = words[4::6]

    def _take_while_in_order(self, data: bytes, size_bytes: int) -> None:
        self._offsets, self.positions, self._timestamps = array("I"), array("I"), array("q")
        self._digests = array("I")
        last_offset = last_position = last_timestamp = -1
        for offset, position, timestamp, digest, _ in ENTRY.iter_unpack(data):
            in_order = offset > last_offset and position > last_position and timestamp >= last_timestamp
            if not in_order or position >= size_bytes or (last_position < 0 and position):
                break
            self.add(offset, position, timestamp, digest)
            last_offset, last_position, last_timestamp = offset, position, timestamp

    def clear(self) -> None:
        self.truncate(0)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def _rises(row: array[int]) -> bool:
    """Accepts equal neighbours: a wrong entry is detected on use, but a search in unordered entries would go wrong
    unnoticed."""
    return all(map(le, row, row[1:]))


def _place(index: int) -> int:
    return len(HEADER) + index * ENTRY.size


def _end_of(count: int) -> int:
    """File size for this many entries. It is 0 without entries: the header is written with the first one."""
    return _place(count) if count else 0
