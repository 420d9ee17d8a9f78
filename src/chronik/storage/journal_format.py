"""The format of the journal: frames of records, one frame per round. Pure functions.

A frame is whole or void: its checksum covers everything in it. Only the last frames of a journal may be torn, because a
round is synced before the next one is written. `synced_bytes` in each frame is the size of the file that was known to
be on disk when the frame was written. This distinguishes a torn tail, which is truncated, from damage to acknowledged
data, which is reported.

    frame   magic u32, crc32c u32 (of its own position in the file as u64 and of what follows), body_bytes u32,
            synced_bytes u64, records
    record  kind u8, handle u32, segment i64, position i64, offset i64, data_bytes u32, data
A handle stands for a log within one journal file; DECLARE introduces it. The position is what keeps a copy of a journal
that somebody sends as records from being taken for frames of this one.

The first frame also names the data directory whose journal this is: a declaration of partition OWNER, with the
directory's id in place of the topic's, and its DROP, so that an older release sees a deleted log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from chronik.wire.checksums import crc32c

MAGIC = 0x43484A31
JOINED_BYTES_MAX = 4096  # up to this size one copy is cheaper than a system call with several buffers
FRAME = struct.Struct(">IIIQ")
POSITION = struct.Struct(">Q")
FRAME_CHECKED = struct.Struct(">QIQ")  # position, and the header fields that the checksum covers
RECORD = struct.Struct(">BIqqqI")
DIGEST = struct.Struct(">I")
IDENTITY = struct.Struct(">16si")
OWNER = -1  # partition of the declaration that names a directory instead of a log


class RecordKind(IntEnum):
    DECLARE = 1  # data: topic id, partition, topic name
    BYTES = 2  # data: the bytes at `position` of `segment`; they make the log durable up to `offset`
    MARK = 3  # the log is durable up to `offset`, at `position` of `segment`, by the segments themselves; data: digest
    TRUNCATE = 4  # everything from `offset`, at `position` of `segment`, is void
    START = 5  # the log starts at `offset`
    DROP = 6  # the log was deleted
    ROLL = 7  # `segment` was started: a segment file in the log's directory without a ROLL does not belong to the log
    GAP = 8  # the batch at `position` of `segment` begins at `offset`, which does not continue the previous one
    NAMED = 10  # the log's directory durably names its partition
    SET_ASIDE = 9  # the log no longer belongs to this node, and its files are kept as a stray


class JournalRecord(NamedTuple):
    kind: int
    handle: int
    segment: int
    position: int
    offset: int
    data: bytes | memoryview


class Frame(NamedTuple):
    position: int
    records: list[JournalRecord]


class Torn(NamedTuple):
    """The end of the whole frames, and whether it is below the synced size that a later frame records."""

    position: int
    damaged: bool


def record_header(kind: int, handle: int, segment: int, position: int, offset: int, data_bytes: int) -> bytes:
    return RECORD.pack(kind, handle, segment, position, offset, data_bytes)


def mark(handle: int, segment: int, position: int, offset: int, digest: int) -> bytes:
    return RECORD.pack(RecordKind.MARK, handle, segment, position, offset, DIGEST.size) + DIGEST.pack(digest)


def digest_of(mark: JournalRecord) -> int | None:
    """None for a mark of an older release, and for one that repeats an earlier one."""
    return int(DIGEST.unpack(mark.data)[0]) if mark.data else None


def declaration(handle: int, topic_id: bytes, partition: int, topic: str) -> bytes:
    data = IDENTITY.pack(topic_id, partition) + topic.encode()
    return RECORD.pack(RecordKind.DECLARE, handle, 0, 0, 0, len(data)) + data


def ownership(handle: int, directory_id: bytes) -> bytes:
    return declaration(handle, directory_id, OWNER, "") + record_header(RecordKind.DROP, handle, 0, 0, 0, 0)


def identity(data: bytes | memoryview) -> tuple[str, bytes, int]:
    topic_id, partition = IDENTITY.unpack_from(data)
    return bytes(data[IDENTITY.size :]).decode(), topic_id, partition


def frame(parts: Sequence[bytes | memoryview], position: int, synced_bytes: int) -> list[bytes | memoryview]:
    """The frame around records given in parts, to be written at `position`. The parts of a large one are not
    copied."""
    body_bytes = sum(map(len, parts))
    checksum = crc32c(FRAME_CHECKED.pack(position, body_bytes, synced_bytes))
    if body_bytes < JOINED_BYTES_MAX:
        body = b"".join(parts)
        return [FRAME.pack(MAGIC, crc32c(body, checksum), body_bytes, synced_bytes) + body]
    for part in parts:
        checksum = crc32c(part, checksum)
    return [FRAME.pack(MAGIC, checksum, body_bytes, synced_bytes), *parts]


def read_frames(data: memoryview) -> tuple[list[Frame], Torn]:
    """All whole frames from the beginning, and how they end."""
    frames: list[Frame] = []
    position = 0
    while (found := _frame_at(data, position)) is not None:
        body_bytes, _ = found
        start = position + FRAME.size
        frames.append(Frame(position, list(_records(data[start : start + body_bytes]))))
        position = start + body_bytes
    return frames, Torn(position, _synced_past(data, position))


def _frame_at(data: memoryview, position: int) -> tuple[int, int] | None:
    """(body_bytes, synced_bytes) of a whole frame at the position, else None."""
    if position + FRAME.size > len(data):
        return None
    magic, checksum, body_bytes, synced_bytes = FRAME.unpack_from(data, position)
    end = position + FRAME.size + body_bytes
    if magic != MAGIC or end > len(data):
        return None
    expected = crc32c(data[position + 8 : end], crc32c(POSITION.pack(position)))
    return (body_bytes, synced_bytes) if checksum == expected else None


def _synced_past(data: memoryview, position: int) -> bool:
    """Whether a whole frame after `position` proves that the bytes at `position` had been synced."""
    rest = bytes(data[position:])
    magic = MAGIC.to_bytes(4, "big")
    at = rest.find(magic)
    while at >= 0:
        found = _frame_at(data, position + at)
        if found is not None and found[1] > position:
            return True
        at = rest.find(magic, at + 1)
    return False


def _records(body: memoryview) -> Iterator[JournalRecord]:
    position = 0
    while position < len(body):
        kind, handle, segment, at, offset, data_bytes = RECORD.unpack_from(body, position)
        position += RECORD.size
        yield JournalRecord(kind, handle, segment, at, offset, body[position : position + data_bytes])
        position += data_bytes
