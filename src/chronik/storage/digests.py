"""A running digest of a segment's batches: it tells that they are the batches that were written, in their order.

A batch's CRC covers neither its offset nor its leader epoch, and a batch of another partition has a CRC that holds. So
each batch extends the digest by what stands before its magic byte (offset, length, epoch) and by its CRC. The digest
begins with the name of the segment. Whoever knows it at two positions can tell whether what stands between them was
changed or replaced. The index keeps it at each entry and at the end of a sealed segment, the checkpoint and the
journal's marks at the end of what is durable.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from chronik.wire.batches import BatchView
from chronik.wire.checksums import crc32c

_STAMP = Struct(">qii")
_pack = _STAMP.pack


class KnownDigest(NamedTuple):
    """What the digest of the batches before `position` must be."""

    position: int
    digest: int


def beginning(path: str) -> int:
    """Of the segment whose file has this path: its partition's directory and its own name count, not where they are."""
    return crc32c("/".join(path.rsplit("/", 2)[-2:]).encode())


def extended_by(digest: int, header: tuple[int, ...] | BatchView) -> int:
    """By a batch with this header, as it is unpacked. `Segment.note` does the same with the bytes of the stamp."""
    return crc32c(_pack(header[0], header[1], header[2]), digest ^ header[4])
