"""Verifies that bytes read from a segment are the batches that were written there.

Checks each batch against its CRC, its offsets against its neighbours, and all of them against the digests known before
and after them (see `digests`). A scrub also checks them against the log's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from chronik.runtime.invariants import broken
from chronik.storage.digests import KnownDigest, beginning, extended_by
from chronik.storage.errors import CorruptSegment
from chronik.wire.batches import BatchView, crc_holds, split
from chronik.wire.errors import WireError

if TYPE_CHECKING:
    from chronik.storage.segment import Segment


class Expected(NamedTuple):
    """A log's expectations for the batches of one of its segments from a position on."""

    offset: int  # start of the next batch; after compaction it may begin later
    offset_end: int  # of the segment
    is_dense: bool  # no offset is missing: nothing was compacted
    epoch_of: Callable[[int], int]  # the leader epoch that wrote an offset; -1 if unknown


def verify(segment: Segment, data: memoryview, position: int, next_offset: int, offset_end: int) -> list[BatchView]:
    """The batches of `data`, read at `position`; raises CorruptSegment if they differ from the written ones.

    `next_offset` is the end of the previous batch, and `offset_end` the end of the segment.
    """
    end = position + len(data)
    at = position
    try:
        batches = split(data)
    except WireError as error:
        raise segment.damaged(position, next_offset, str(error)) from error
    for batch in batches:
        if not crc_holds(batch):
            raise segment.damaged(at, batch.base_offset, "its checksum does not hold")
        if batch.base_offset < next_offset:
            raise segment.damaged(at, next_offset, f"it says {batch.base_offset}")
        next_offset = batch.next_offset
        at += batch.size_bytes
    if end < segment.size_bytes:
        offset_end = int.from_bytes(segment.read(end, 8), "big")
    if next_offset > offset_end:
        raise segment.damaged(position, offset_end, f"a batch there reaches {next_offset}")
    if not _digests_agree(segment, batches, position, end) and _others_are_whole(segment, position, end):
        offset = batches[0].base_offset if batches else next_offset
        raise segment.damaged(position, offset, "other batches were written there")
    return batches


def offset_before(segment: Segment, position: int) -> int:
    """The end of the batch before `position`, found by reading headers since the last indexed batch."""
    next_offset = segment.base_offset
    for at, header in segment.headers_from(segment.index.before_position(position - 1)) if position else ():
        if at >= position:
            break
        next_offset = header.next_offset
    return next_offset


def known_before(segment: Segment, position: int) -> KnownDigest:
    """The last known digest at or before `position`."""
    found = segment.index_to_open().known_before(position) or KnownDigest(0, beginning(segment.path))
    mark = segment.mark
    return mark if mark is not None and found.position < mark.position <= position else found


def known_after(segment: Segment, position: int) -> KnownDigest | None:
    """The first known digest at or after `position`."""
    found = segment.index_to_open().known_after(position)
    if found is None or found.position > segment.size_bytes:
        found = segment.end_known
    mark = segment.mark
    if mark is not None and position <= mark.position and (found is None or mark.position < found.position):
        return mark
    return found


def _digests_agree(segment: Segment, batches: list[BatchView], position: int, end: int) -> bool:
    """Also True if it cannot be determined, because the neighbours are damaged or no digest is known."""
    after = known_after(segment, end)
    if after is None:
        return True
    at, digest = known_before(segment, position)
    for header in _headers(segment, at, position):
        digest = extended_by(digest, header)
    for header in batches:
        digest = extended_by(digest, header)
    for header in _headers(segment, end, after.position):
        digest = extended_by(digest, header)
    return digest == after.digest


def _others_are_whole(segment: Segment, position: int, end: int) -> bool:
    """Whether these batches cause the digest mismatch, and not a damaged one beside them.

    The last copy of a partition still serves valid records next to damaged ones.
    """
    after = known_after(segment, end)
    stop = end if after is None else after.position
    for low, high in ((known_before(segment, position).position, position), (end, stop)):
        at = low
        for header in _headers(segment, low, high):
            if not crc_holds(split(segment.read(at, header.size_bytes))[0]):
                return False
            at += header.size_bytes
        if at != high:
            return False
    return True


def _headers(segment: Segment, position: int, end: int) -> Iterator[BatchView]:
    """Headers up to the first damaged one."""
    try:
        for _, header in segment.headers(position, end):
            yield header
    except CorruptSegment:
        return


def scrub(segment: Segment, position: int, size_bytes: int, expected: Expected) -> tuple[int, Expected]:
    """Checks whole batches from a boundary on, even if they were checked before.

    At least one batch, whatever its size. Returns the number of bytes, and the expectations after them.
    """
    data = segment.read(position, min(size_bytes, segment.size_bytes - position))
    whole_bytes = segment.whole_batches(data, position)[0]
    if not whole_bytes:
        _, first = next(segment.headers(position))
        whole_bytes = first.size_bytes
        data = segment.read(position, whole_bytes)
    offset, at = expected.offset, position
    for batch in verify(segment, data[:whole_bytes], position, expected.offset, expected.offset_end):
        if batch.base_offset < offset or (expected.is_dense and batch.base_offset != offset):
            raise segment.damaged(at, offset, f"it says {batch.base_offset}")
        epoch = expected.epoch_of(batch.base_offset)
        if epoch not in (-1, batch.partition_leader_epoch):
            reason = f"it says leader epoch {batch.partition_leader_epoch}, and {epoch} wrote it"
            raise segment.damaged(at, batch.base_offset, reason)
        offset = batch.next_offset
        at += batch.size_bytes
    if at != position + whole_bytes:
        broken("22 a scrub goes from boundary to boundary", path=segment.path, position=at, step=whole_bytes)
    return whole_bytes, expected._replace(offset=offset)
