"""Record batches that were located, and that are read piece by piece when they are sent.

Reading a response of several megabytes before sending its first byte delays the client and moves every byte through
memory twice. So the index gives the size of a large piece, and its bytes are read when they are sent. If the log is
truncated in between, nothing is read, and the sender, which has announced the size, must close the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.runtime.invariants import broken
from chronik.storage.errors import StorageError

if TYPE_CHECKING:
    from chronik.storage.log_reads import ReadableLog
    from chronik.storage.segment import Segment


class Unread:
    """`size_bytes` of whole, verified batches at `position`. Keeps the file open, even if retention removes it."""

    __slots__ = ("_file", "_generation", "_log", "_offset_end", "_segment", "position", "size_bytes")

    def __init__(self, log: ReadableLog, segment: Segment, position: int, size_bytes: int, offset_end: int) -> None:
        """`offset_end` is the end offset of the segment."""
        self.position, self.size_bytes = position, size_bytes
        self._offset_end = offset_end
        if position + size_bytes > segment.size_bytes:
            broken("22 what is sent later is in its segment", path=segment.path, position=position, size=size_bytes)
        self._log, self._generation = log, log.generation
        self._segment, self._file = segment, segment.file

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> memoryview:
        """Reads all of it. Raises StorageError."""
        if self._log.generation != self._generation:
            raise StorageError(f"{self._log!r} was cut while {self.size_bytes} bytes of it were about to be sent")
        try:
            data = self._segment.read(self.position, self.size_bytes, self._file)
        except StorageError:
            self._segment.doubt()
            raise
        if len(data) != self.size_bytes:
            raise StorageError(f"{self._segment.path} has {len(data)} of {self.size_bytes} bytes at {self.position}")
        self._segment.check(data, self.position, self._offset_end)  # verify again, if it came from the disk
        return data
