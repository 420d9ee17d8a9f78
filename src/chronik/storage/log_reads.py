"""Reads of a partition's log: whole batches of one segment at a time, verified before they are returned.

Reading changes nothing, except that it records damage. It never waits: a read that misses the page cache blocks the
event loop. Large, verified pieces are only located here, and read when they are sent (`Unread`).
"""

from __future__ import annotations

from chronik.storage.answers import LogRead
from chronik.storage.errors import OffsetOutOfRange
from chronik.storage.log_segments import LogSegments
from chronik.storage.segment import Segment
from chronik.storage.unread import Unread

_new = tuple.__new__


class ReadableLog(LogSegments):
    __slots__ = ()

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one: bool = True, to_send: bool = False
    ) -> LogRead:
        """Returns whole batches of one segment, from the one that holds `offset`, all below `offset_limit`.

        `at_least_one` returns a first batch that is larger than `bytes_max`, so that a reader always makes progress.
        With `to_send`, the result may be Unread.
        """
        limit = self._end_of_reading(offset, offset_limit)
        if offset >= limit:
            return LogRead([], 0, offset)
        index = self.index_at(offset)
        while True:
            segment = self.segments[index]
            is_last = index + 1 == len(self.segments)
            segment_end = self.end_offset if is_last else self.segments[index + 1].base_offset
            start = segment.position_of(offset)
            stop = segment.size_bytes if limit >= segment_end else segment.position_of(limit)
            if start < stop:
                break
            if start >= segment.size_bytes and self._is_dense(segment):
                raise segment.lacks(offset)
            if is_last or segment_end >= limit:
                return LogRead([], 0, offset)  # compaction has removed everything up to the limit
            index += 1
        found = None
        if to_send:
            found = self._find(segment, start, stop, bytes_max, segment_end, at_least_one=at_least_one)
        data, next_offset = found or segment.read_batches(
            start, stop, bytes_max, offset_end=segment_end, at_least_one=at_least_one
        )
        if not data:
            return LogRead([], 0, offset)
        if next_offset < 0:
            next_offset = min(limit, segment_end)
        segment.remember(next_offset, start + len(data))
        return _new(LogRead, ([data], len(data), next_offset))

    def _find(
        self, segment: Segment, start: int, stop: int, bytes_max: int, offset_end: int, *, at_least_one: bool
    ) -> tuple[Unread, int] | None:
        """The piece that `read_batches` would return, if it is large and was verified before; else None."""
        large_bytes = self._disk.piece_bytes_min
        if min(stop - start, bytes_max) < large_bytes:
            return None
        size_bytes, next_offset = segment.find_batches(start, stop, bytes_max, at_least_one=at_least_one)
        if size_bytes < large_bytes or not segment.is_checked(start, start + size_bytes):
            return None
        try:
            return Unread(self, segment, start, size_bytes, offset_end), next_offset
        except OSError:  # the caller reads it now and reports the error
            return None

    def _end_of_reading(self, offset: int, offset_limit: int) -> int:
        """The end of the readable range from `offset` on. Raises if `offset` is out of range or damaged."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        limit = min(offset_limit, self.end_offset)
        if self.damage is not None:
            limit = min(limit, self.damage.offset)
            if offset >= limit:
                raise self.damage
        return limit

    def doubt(self, offset: int) -> None:
        """The next read of this segment verifies every byte again, even if it was verified before."""
        if self.segments and self.start_offset <= offset < self.end_offset:
            self.segments[self.index_at(offset)].doubt()

    def require_readable(self, offset: int, *, offset_limit: int) -> None:
        """Raises the errors of `read` that concern the offset, not the data there."""
        self._end_of_reading(offset, offset_limit)

    def readable_bytes(self, offset: int, *, offset_limit: int) -> int:
        """The number of bytes that repeated reads would return from `offset` on, computed from positions alone."""
        limit = self._end_of_reading(offset, offset_limit)
        if offset >= limit:
            return 0
        first, last = self.index_at(offset), self.index_at(limit - 1)
        stop = self.segments[last]
        is_whole = limit == (self.end_offset if stop is self.segments[-1] else self.segments[last + 1].base_offset)
        before_stop = sum([segment.size_bytes for segment in self.segments[first:last]])
        until_limit = stop.size_bytes if is_whole else stop.position_of(limit)
        return before_stop + until_limit - self.segments[first].position_of(offset)
