"""Loads the aborted transactions of a log in small steps. Rebuilds a missing or damaged index file from the log.

Reading a million aborted transactions takes many seconds. So `Log` does not wait for it but raises NotReady. The caller
then runs `mending` in slices and retries. Several callers may run it at the same time; they continue the same rebuild.
Between two steps the log may grow, lose segments, be truncated or be compacted. New records are read at the end; after
a truncation or a compaction the rebuild starts again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from chronik.runtime.pieces import Work
from chronik.storage.aborted_index import DamagedIndex
from chronik.storage.errors import CorruptSegment
from chronik.storage.producer_state import ProducerState
from chronik.storage.segment import Segment
from chronik.wire.batches import NO_PRODUCER_ID, BatchView

if TYPE_CHECKING:
    from chronik.storage.log import Log

BATCHES_PER_STEP: Final = 16
PIECES_PER_BLOCK: Final = 6  # reading and checking one block counts as this many pieces of work
CHECKED_BYTES: Final = 64 << 10  # bytes of batches after a marker that are checked together with it
END: Final = object()
_base_offset = attrgetter("base_offset")


def mending(log: Log) -> Work[None]:
    """Ends when the log can answer immediately, or has nothing left to read."""
    aborted = log.aborted
    while log.segments and log.damage is None:
        if not aborted.is_whole:
            if aborted.rebuild is None:
                aborted.rebuild = Rebuild(log)
            yield 1 + aborted.rebuild.step()
            continue
        try:
            if (yield from _read_blocks(log)):
                return
        except (DamagedIndex, FileNotFoundError) as error:
            aborted.distrust(str(error))


def _read_blocks(log: Log) -> Work[bool]:
    """False: an index has changed meanwhile, so some blocks may be unknown."""
    for base, index in list(log.aborted.indexes.items()):
        for _ in index.reading_blocks():
            yield PIECES_PER_BLOCK
            if not log.aborted.is_whole or log.aborted.indexes.get(base) is not index:
                return False
    return True


class Rebuild:
    """Progress through a log from its first segment to its end."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._state = ProducerState()
        self._segment: Segment | None = None  # the segment that is being read
        self._reading = self._read()
        log.aborted.begin_rebuild([segment.base_offset for segment in log.segments])

    def step(self) -> int:
        """Reads some batches and returns their number. At the end of the log the index is complete again."""
        aborted = self._log.aborted
        if self._segment is not None and self._following(self._segment.base_offset - 1) is not self._segment:
            aborted.rebuild = None  # retention has removed it
            return 0
        for count in range(BATCHES_PER_STEP):
            if aborted.rebuild is not self:
                return count
            if next(self._reading, END) is END:
                aborted.end_rebuild()
                return count
        return BATCHES_PER_STEP

    def _read(self) -> Iterator[None]:
        base_offset = -1
        while (segment := self._following(base_offset)) is not None:
            self._segment, base_offset, at = segment, segment.base_offset, 0
            while at < segment.size_bytes:  # again, because it may have grown meanwhile
                following = self._following(base_offset)
                end_offset = self._log.end_offset if following is None else following.base_offset
                for end, batch in _batches_from(segment, at, segment.size_bytes, end_offset):
                    at = end
                    if batch is not None:
                        found = self._state.note_batch(batch, batch.base_offset, batch.max_timestamp)
                        if found is not None:
                            self._log.aborted.put(base_offset, found)
                    yield

    def _following(self, base_offset: int) -> Segment | None:
        """The first segment after this offset."""
        segments = self._log.segments
        index = bisect_right(segments, base_offset, key=_base_offset)
        return segments[index] if index < len(segments) else None


def _batches_from(segment: Segment, at: int, stop: int, end_offset: int) -> Iterator[tuple[int, BatchView | None]]:
    """Yields the end of each batch, with its header if a producer with an id wrote it; markers completely. `end_offset`
    is the offset at the position `stop`. After damage, continues at the next indexed batch: that part is served, so its
    transactions count."""
    while at < stop:
        try:
            for position, header in segment.headers(at, stop):
                at = position
                batch = None
                if header.producer_id != NO_PRODUCER_ID and header.is_control:
                    _check_together(segment, position, header, stop, end_offset)
                    batch = segment.batch_at(position, header)
                elif header.producer_id != NO_PRODUCER_ID:
                    batch = header
                at = position + header.size_bytes
                yield at, batch
            return
        except CorruptSegment:
            positions = segment.index.positions
            following = bisect_right(positions, at)
            at = positions[following] if following < len(positions) else stop
            yield at, None


def _check_together(segment: Segment, position: int, header: BatchView, stop: int, end_offset: int) -> None:
    """Checks a marker together with the batches after it, because checking one batch costs as much as checking many."""
    if not segment.is_checked(position, position + header.size_bytes):
        with suppress(CorruptSegment):  # the damage may be in another batch
            segment.read_batches(position, stop, CHECKED_BYTES, offset_end=end_offset, at_least_one=True)
