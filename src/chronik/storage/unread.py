"""Record batches that were found and are read when they leave, one piece after the other.

A response of several megabytes that is read as a whole before its first byte is sent costs its reader that time, and
the processor a second trip to memory for every byte. So the size of a large piece is told by the index, and its bytes
follow. In between its log may be cut: then nothing is read, and who has told the size must give up its connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.runtime.invariants import broken
from chronik.storage.errors import StorageError

if TYPE_CHECKING:
    from chronik.storage.log import Log
    from chronik.storage.segment import Segment


class Unread:
    """`size_bytes` of whole, checked batches at `position`. Keeps the file open, also when retention removes it."""

    __slots__ = ("_file", "_generation", "_log", "_segment", "position", "size_bytes")

    def __init__(self, log: Log, segment: Segment, position: int, size_bytes: int) -> None:
        self.position, self.size_bytes = position, size_bytes
        if position + size_bytes > segment.size_bytes:
            broken("22 what is sent later is in its segment", path=segment.path, position=position, size=size_bytes)
        self._log, self._generation = log, log.generation
        self._segment, self._file = segment, segment.file

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> memoryview:
        """All of it, or StorageError."""
        if self._log.generation != self._generation:
            raise StorageError(f"{self._log!r} was cut while {self.size_bytes} bytes of it were about to be sent")
        try:
            data = self._segment.read(self.position, self.size_bytes, self._file)
        except StorageError:
            self._segment.doubt()
            raise
        if len(data) != self.size_bytes:
            raise StorageError(f"{self._segment.path} has {len(data)} of {self.size_bytes} bytes at {self.position}")
        return data
