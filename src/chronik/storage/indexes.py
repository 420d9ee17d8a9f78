"""A segment's sparse index: at which byte a batch starts, and the largest timestamp before it.

One entry for every `index_interval_bytes` of log, or every batch if batches are larger. An index only saves reading:
what it points at is checked against the batch found there, and an index that is missing, short or wrong is rebuilt from
the log. So it is never synced, and no answer ever depends on it.

On disk an entry is 16 bytes: offset above the segment's base u32, position u32, timestamp i64. Entries are written in
chunks; those not yet written are found again by reading the log behind the last written one.
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

ENTRY = struct.Struct(">IIq")
CHUNK_ENTRIES = 64  # a write of 1 KiB for every 256 KiB of log or more


class IndexEntry(NamedTuple):
    offset: int  # of the batch at `position`, counted from the segment's base
    position: int
    timestamp_before_ms: int  # the largest timestamp of all batches before `position`; -1 if there is none


class Index:
    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._offsets = array("I")
        self._positions = array("I")
        self._timestamps = array("q")
        self._written = 0
        self.file: File | None = None  # open since the first write or cut

    def __len__(self) -> int:
        return len(self._positions)

    def entry(self, index: int) -> IndexEntry:
        return IndexEntry(self._offsets[index], self._positions[index], self._timestamps[index])

    def last_position(self) -> int:
        """-1 if there is no entry, so that the first batch always gets one."""
        return self._positions[-1] if self._positions else -1

    def add(self, offset: int, position: int, timestamp_before_ms: int) -> None:
        if self._positions and position < self._positions[-1]:
            broken("28 index entries rise", path=self.path, position=position, last=self._positions[-1])
        self._offsets.append(offset)
        self._positions.append(position)
        self._timestamps.append(timestamp_before_ms)

    def before_offset(self, offset: int) -> IndexEntry:
        """The last entry at or before `offset`, from where a walk finds its batch."""
        if INDEX_UNUSED.is_on and INDEX_UNUSED.fires():
            return IndexEntry(0, 0, -1)
        index = bisect_right(self._offsets, offset) - 1
        return self.entry(index) if index >= 0 else IndexEntry(0, 0, -1)

    def before_position(self, position: int) -> IndexEntry:
        index = bisect_right(self._positions, position) - 1
        return self.entry(index) if index >= 0 else IndexEntry(0, 0, -1)

    def before_timestamp(self, timestamp_ms: int) -> IndexEntry:
        """An entry before which no record is as late as `timestamp_ms`."""
        if TIME_INDEX_UNUSED.is_on and TIME_INDEX_UNUSED.fires():
            return IndexEntry(0, 0, -1)
        index = bisect_left(self._timestamps, timestamp_ms) - 1
        return self.entry(index) if index >= 0 else IndexEntry(0, 0, -1)

    def truncate(self, position: int) -> None:
        """Forgets entries at or behind `position`, in the file too: a batch of another time may come to start at the
        same byte and offset, and would agree with an entry that came back."""
        count = bisect_left(self._positions, position)
        del self._offsets[count:], self._positions[count:], self._timestamps[count:]
        check(
            len(self._offsets) == len(self._positions) == len(self._timestamps),
            "28 an index entry has offset, position and timestamp",
            path=self.path,
            count=count,
        )
        if self._written > count:
            self._cut_file(count)
        elif not count and self.file is None:
            self._remove_file()  # it may hold what was never loaded

    def _cut_file(self, count: int) -> None:
        file, self.file = self.file, None
        try:
            if file is None:
                file = self._disk.open(self.path)
            file.truncate(count * ENTRY.size)
        except (DiskFull, OSError):
            self._remove_file()  # which takes neither space nor a descriptor
        else:
            self._written = count
            self.file = file

    def _remove_file(self) -> None:
        self._written = 0
        if self._disk.exists(self.path):
            self._disk.remove(self.path)

    @property
    def unwritten(self) -> int:
        return len(self._positions) - self._written

    def write(self) -> None:
        """Puts what is not yet in the file there. After an error the next call tries it all again."""
        file, self.file = self.file, None  # if this fails, the file may end in half an entry: it is cut when reopened
        if file is None:
            file = self._disk.open(self.path, create=True)
            file.truncate(self._written * ENTRY.size)
        start = self._written
        check(
            start <= len(self._positions),
            "28 an index file holds no more than the index",
            path=self.path,
            written=start,
            entries=len(self._positions),
        )
        rows = zip(self._offsets[start:], self._positions[start:], self._timestamps[start:], strict=True)
        file.append([b"".join([ENTRY.pack(*row) for row in rows])])
        self._written = len(self._positions)
        self.file = file

    def load(self, size_bytes: int) -> None:
        """Takes the file's entries as far as they are in order and point into a log of `size_bytes`; others go."""
        try:
            data = self._disk.read_file(self.path)
        except OSError:  # missing, or not to be read: as good as empty
            data = b""
        self._take(data[: len(data) // ENTRY.size * ENTRY.size])
        rows = (self._offsets, self._positions, self._timestamps)
        if not len(self) or self._positions[0] or self._positions[-1] >= size_bytes or not all(map(_rises, rows)):
            self._take_while_in_order(data, size_bytes)
        self._written = len(self._positions)
        check(
            self._written * ENTRY.size <= len(data),
            "28 an index takes no more from its file than there is",
            path=self.path,
            entries=self._written,
            size=len(data),
        )
        if len(data) > self._written * ENTRY.size:
            self._cut_file(self._written)

    def _take(self, data: bytes) -> None:
        """All entries at once: a segment of one gigabyte may have a quarter of a million."""
        words, longs = array("I", data), array("q", data)
        if byteorder == "little":
            words.byteswap()
            longs.byteswap()
        self._offsets, self._positions, self._timestamps = words[0::4], words[1::4], longs[1::2]

    def _take_while_in_order(self, data: bytes, size_bytes: int) -> None:
        self._offsets, self._positions, self._timestamps = array("I"), array("I"), array("q")
        last_offset = last_position = last_timestamp = -1
        for offset, position, timestamp in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size]):
            in_order = offset > last_offset and position > last_position and timestamp >= last_timestamp
            if not in_order or position >= size_bytes or (last_position < 0 and position):
                break
            self.add(offset, position, timestamp)
            last_offset, last_position, last_timestamp = offset, position, timestamp

    def clear(self) -> None:
        self.truncate(0)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def _rises(row: array[int]) -> bool:
    """Equal neighbours are let through: a wrong entry is found out when it is used, a disordered search is not."""
    return all(map(le, row, row[1:]))
