"""A running digest of a segment's batches: it proves that they are the written batches, in order.

A batch's CRC covers neither its offset nor its leader epoch, and a batch of another partition has a valid CRC too. So
each batch extends the digest by the bytes before its magic byte (offset, length, epoch) and by its CRC. The digest
starts with the name of the segment. Knowing it at two positions shows whether anything between them was changed or
replaced. The index stores it at each entry and at the end of a sealed segment, the checkpoint and the journal's marks
at the durable end.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from chronik.wire.batches import BatchView
from chronik.wire.checksums import crc32c

_STAMP = Struct(">qii")
_pack = _STAMP.pack


class KnownDigest(NamedTuple):
    """The expected digest of the batches before `position`."""

    position: int
    digest: int


def beginning(path: str) -> int:
    """The initial digest of the segment with this path: depends on its file and directory names, not their location."""
    return crc32c("/".join(path.rsplit("/", 2)[-2:]).encode())


def extended_by(digest: int, header: tuple[int, ...] | BatchView) -> int:
    """The digest after a batch with this unpacked header. `Segment.note` computes the same from the stamp's bytes."""
    return crc32c(_pack(header[0], header[1], header[2]), digest ^ header[4])
