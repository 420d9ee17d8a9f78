"""The bytes of the Raft journal: frames of records, and the state that a sequence of records describes. Pure functions.

A frame is one write round: magic, CRC-32, body size, its own position in the file, then records. The position proves
that the frame was written there, so leftovers of another file are never taken for a frame. A round starts only after
the previous one is durable, so a complete frame after a broken one means damage, not a torn tail.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from chronik.raft.codec import decode_snapshot, encode_snapshot
from chronik.raft.errors import MalformedMessage
from chronik.raft.messages import Entry, EntryKind, HardState, Snapshot
from chronik.runtime.invariants import check

MAGIC = b"CRJ1"
_FRAME = struct.Struct(">4sIIQ")  # magic, CRC of what follows it, body size, position
_CHECKED = struct.Struct(">IQ")
_HARD_STATE = struct.Struct(">BQqQ")
_BASE = struct.Struct(">BQQ")
_ENTRY = struct.Struct(">BQQBI")
_HARD_STATE_RECORD, _BASE_RECORD, _ENTRY_RECORD = 1, 2, 3


class Base(NamedTuple):
    """The log begins after this entry; everything written before is void."""

    base_index: int
    base_term: int


JournalItem = HardState | Base | Entry


def encode_frame(position: int, records: Iterable[JournalItem]) -> bytes:
    body = b"".join(map(_encode_record, records))
    checked = _CHECKED.pack(len(body), position)
    return _FRAME.pack(MAGIC, zlib.crc32(body, zlib.crc32(checked)), len(body), position) + body


def _encode_record(record: JournalItem) -> bytes:
    if isinstance(record, Entry):
        return _ENTRY.pack(_ENTRY_RECORD, record.term, record.index, record.kind, len(record.data)) + record.data
    if isinstance(record, Base):
        return _BASE.pack(_BASE_RECORD, *record)
    return _HARD_STATE.pack(_HARD_STATE_RECORD, *record)


def frame_at(data: memoryview, position: int) -> memoryview | None:
    """The body of the frame at a position; None when there is no complete frame."""
    if len(data) - position < _FRAME.size:
        return None
    magic, crc, body_bytes, stated = _FRAME.unpack_from(data, position)
    start = position + _FRAME.size
    if magic != MAGIC or stated != position or body_bytes > len(data) - start:
        return None
    body = data[start : start + body_bytes]
    return body if zlib.crc32(body, zlib.crc32(_CHECKED.pack(body_bytes, position))) == crc else None


def frames(data: memoryview) -> Iterator[memoryview]:
    """Consecutive frames, up to the first position without one."""
    position = 0
    while (body := frame_at(data, position)) is not None:
        yield body
        position += _FRAME.size + len(body)


def whole_bytes(data: memoryview) -> int:
    return sum(_FRAME.size + len(body) for body in frames(data))


def has_frame_behind(data: memoryview, position: int) -> bool:
    """Whether a complete frame exists anywhere at or after the position."""
    raw = bytes(data)
    while (position := raw.find(MAGIC, position)) >= 0:
        if frame_at(data, position) is not None:
            return True
        position += 1
    return False


def records(body: memoryview) -> Iterator[JournalItem]:
    """A frame's CRC is valid, so an unknown record was written by a newer version."""
    at = 0
    while at < len(body):
        kind = body[at]
        if kind == _ENTRY_RECORD:
            _, term, index, entry_kind, size_bytes = _ENTRY.unpack_from(body, at)
            at += _ENTRY.size
            yield Entry(term, index, EntryKind(entry_kind), bytes(body[at : at + size_bytes]))
            at += size_bytes
        elif kind == _HARD_STATE_RECORD:
            yield HardState(*_HARD_STATE.unpack_from(body, at)[1:])
            at += _HARD_STATE.size
        elif kind == _BASE_RECORD:
            yield Base(*_BASE.unpack_from(body, at)[1:])
            at += _BASE.size
        else:
            raise MalformedMessage(f"journal record of kind {kind}: written by a newer version, upgrade this node")


class Replayed(NamedTuple):
    hard_state: HardState
    base: Base
    entries: Sequence[Entry]  # exactly one per index, contiguous after the base
    record_count: int  # entry records read, including overwritten ones
    hole_at: int  # index of a record that left a gap; 0: none


def replay(stream: Iterable[JournalItem]) -> Replayed:
    """The state after the records. A later write at index i voids everything at or after i, whatever the terms."""
    hard_state, base = HardState(), Base(0, 0)
    entries: list[Entry] = []
    record_count = 0
    for record in stream:
        if isinstance(record, HardState):
            hard_state = record
        elif isinstance(record, Base):
            base = record
            entries.clear()
        else:
            record_count += 1
            place = record.index - base.base_index - 1
            if not 0 <= place <= len(entries):
                return Replayed(hard_state, base, entries, record_count, record.index)
            del entries[place:]
            entries.append(record)
    check(
        not entries or entries[-1].index == base.base_index + len(entries),
        "28 entries that are read back follow each other",
        base=base.base_index,
        count=len(entries),
    )
    return Replayed(hard_state, base, entries, record_count, 0)


_SNAPSHOT_FILE = struct.Struct(">4sI")
_SNAPSHOT_MAGIC = b"CRS1"


def encode_snapshot_file(snapshot: Snapshot) -> bytes:
    body = encode_snapshot(snapshot)
    return _SNAPSHOT_FILE.pack(_SNAPSHOT_MAGIC, zlib.crc32(body)) + body


def decode_snapshot_file(data: bytes) -> Snapshot:
    view = memoryview(data)
    if len(view) < _SNAPSHOT_FILE.size:
        raise MalformedMessage("the snapshot file is too short")
    magic, crc = _SNAPSHOT_FILE.unpack_from(view)
    if magic != _SNAPSHOT_MAGIC or zlib.crc32(view[_SNAPSHOT_FILE.size :]) != crc:
        raise MalformedMessage("the snapshot file's checksum is wrong")
    return decode_snapshot(view, _SNAPSHOT_FILE.size)[0]
