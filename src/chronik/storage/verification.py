"""Whether bytes read from a segment are the batches that were written there.

Each batch is held against its CRC, its offsets against its neighbours, and all of them against the digests that are
known before and behind them (see `digests`). A scrub holds them against what the log knows as well.
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
    """What a log knows of the batches of one of its segments, from some position on."""

    offset: int  # where the next batch begins, or behind it if compaction took some
    offset_end: int  # of the segment
    is_dense: bool  # no offset is missing: nothing was compacted
    epoch_of: Callable[[int], int]  # the leader epoch that wrote an offset; -1 if it is not known


def verify(segment: Segment, data: memoryview, position: int, next_offset: int, offset_end: int) -> list[BatchView]:
    """The batches of `data`, read at `position`; raises CorruptSegment if they are not what was written.

    `next_offset` is where the batch before them ends, and `offset_end` where the segment ends.
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
    """Where the batch before `position` ends, told by the headers since the last one that is in the index."""
    next_offset = segment.base_offset
    for at, header in segment.headers_from(segment.index.before_position(position - 1)) if position else ():
        if at >= position:
            break
        next_offset = header.next_offset
    return next_offset


def known_before(segment: Segment, position: int) -> KnownDigest:
    """The last place at or before `position` at which the digest is known."""
    found = segment.index_to_open().known_before(position) or KnownDigest(0, beginning(segment.path))
    mark = segment.mark
    return mark if mark is not None and found.position < mark.position <= position else found


def known_after(segment: Segment, position: int) -> KnownDigest | None:
    """The first place at or behind `position` at which the digest is known."""
    found = segment.index_to_open().known_after(position)
    if found is None or found.position > segment.size_bytes:
        found = segment.end_known
    mark = segment.mark
    if mark is not None and position <= mark.position and (found is None or mark.position < found.position):
        return mark
    return found


def _digests_agree(segment: Segment, batches: list[BatchView], position: int, end: int) -> bool:
    """True as well if it cannot be told: what stands before or behind them is not whole, or no digest is known."""
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
    """Whether the digests differ because of these batches, and not because of a damaged one beside them.

    A last copy serves what is right next to what is not.
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
    """Up to the first that is damaged."""
    try:
        for _, header in segment.headers(position, end):
            yield header
    except CorruptSegment:
        return


def scrub(segment: Segment, position: int, size_bytes: int, expected: Expected) -> tuple[int, Expected]:
    """Checks whole batches from a boundary on, also if they were checked before.

    At least one batch, whatever its size. Returns how many bytes it took and what is expected behind them.
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
