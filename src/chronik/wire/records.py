"""Records in a batch of magic 2: reads them one by one, writes them, and interprets control records.

A record is: length, attributes (unused), timestamp delta, offset delta, key, value, headers; all lengths and deltas are
zigzag varints, relative to the batch. `batches` parses a batch's header and passes a `BatchView`.

The reader is a generator, so a batch of many tiny records does not become many objects at once unless the caller keeps
them. It is deliberately inlined: one- and two-byte varints, nearly all there are, are read in place, and two checks per
record (it starts and ends where its length says) replace one check per field. Invalid data raises InvalidRecord.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.wire import compression
from chronik.wire.errors import InvalidRecord, InvalidTimestamp, Unencodable
from chronik.wire.varints import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, encode_varint, read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronik.wire.batches import BatchView

Headers = tuple[tuple[str, bytes | None], ...]

RECORD_BYTES_MIN: Final = 7  # length, attributes, two deltas, two lengths, header count: one byte each
# A header of two bytes becomes about 200 bytes of objects. Up to this many are accepted whatever their size; beyond it,
# they must be long enough for the objects to stay within the decoder's bound (16 times the input plus 1 MiB).
HEADERS_OF_ANY_SIZE_MAX: Final = 4_000
HEADER_BYTES_OTHERWISE_MIN: Final = 24
NO_TIMESTAMP: Final = -1
# A two-byte delta cannot overflow from here.
TIMESTAMP_SURE_MIN, TIMESTAMP_SURE_MAX = INT64_MIN + 8192, INT64_MAX - 8192
NULL: Final = b"\x01"  # the varint -1
RECORD_ERRORS_MAX: Final = 100  # listed individually in a response; the rest is counted
HEADER_KEY_ERRORS: Final = "surrogateescape"  # a key that is not UTF-8 round-trips unchanged


class TimestampType(IntEnum):
    """The source of timestamps: the producer, or the broker at the append (message.timestamp.type)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """One record of any magic. `timestamp` is in ms; NO_TIMESTAMP if the format had none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate(batch: BatchView, output_bytes_max: int) -> Iterator[Record]:
    """The records of a batch, in order. Decompresses at most `output_bytes_max` bytes; checks no CRC."""
    count = batch.record_count
    payload = batch.payload
    if count == 0 and not payload:
        return  # with any codec: empty data need not be a valid stream
    data = compression.decompress(batch.compression, payload, output_bytes_max)
    if not 0 <= count * RECORD_BYTES_MIN <= len(data):
        raise _invalid(0, 0, f"the batch claims {count} records in {len(data)} bytes")
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    # An offset beyond 64 bits could not be encoded. No log reaches that; timestamps are checked per record below.
    if not INT64_MIN <= base_offset + INT32_MIN <= base_offset + INT32_MAX <= INT64_MAX:
        raise _invalid(0, 0, f"a base offset of {base_offset} leaves no room for deltas")
    may_overflow = not TIMESTAMP_SURE_MIN <= base_timestamp <= TIMESTAMP_SURE_MAX
    # With LogAppendTime all records have the append time, which is the batch's largest timestamp.
    append_timestamp = batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    new = tuple.__new__
    end = len(data)
    at = index = 0
    try:
        for index in range(count):
            byte = data[at]
            at += 1
            if byte >= 0x80:
                if (second := data[at]) < 0x80:
                    byte += (second << 7) - 0x80
                    at += 1
                else:
                    length, at = read_varint(data, at - 1)
                    byte = length << 1 if length >= 0 else 1
            record_end = at + (byte >> 1)
            if byte & 1 or record_end > end:
                raise _invalid(index, at, f"a length that is negative or above the {end - at} bytes left")
            at += 1  # attributes

            byte = data[at]
            at += 1
            if byte < 0x80:
                timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
            elif (second := data[at]) < 0x80:
                byte += (second << 7) - 0x80
                timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
                at += 1
            else:
                delta, at = read_varlong(data, at - 1)
                timestamp = base_timestamp + delta
                may_overflow = True

            byte = data[at]
            at += 1
            if byte < 0x80:
                offset = base_offset + ((byte >> 1) ^ -(byte & 1))
            elif (second := data[at]) < 0x80:
                byte += (second << 7) - 0x80
                offset = base_offset + ((byte >> 1) ^ -(byte & 1))
                at += 1
            else:
                delta, at = read_varint(data, at - 1)
                offset = base_offset + delta

            byte = data[at]
            at += 1
            if byte >= 0x80:
                if (second := data[at]) < 0x80:
                    byte += (second << 7) - 0x80
                    at += 1
                else:
                    length, at = read_varint(data, at - 1)
                    byte = length << 1 if length >= 0 else 1
            if byte & 1:  # every negative length means null
                key = None
            else:
                stop = at + (byte >> 1)
                key = data[at:stop]
                at = stop

            byte = data[at]
            at += 1
            if byte >= 0x80:
                if (second := data[at]) < 0x80:
                    byte += (second << 7) - 0x80
                    at += 1
                else:
                    length, at = read_varint(data, at - 1)
                    byte = length << 1 if length >= 0 else 1
            if byte & 1:
                value = None
            else:
                stop = at + (byte >> 1)
                value = data[at:stop]
                at = stop

            if data[at]:
                headers, at = _read_headers(data, at, record_end)
            else:
                headers = ()
                at += 1
            if at != record_end:
                raise _invalid(index, at, f"ends here, its length says byte {record_end}")
            if may_overflow and not INT64_MIN <= timestamp <= INT64_MAX:
                raise _invalid(index, at, f"a timestamp of {timestamp} does not fit 64 bits")
            yield new(
                Record,
                (offset, timestamp if append_timestamp is None else append_timestamp, key, value, headers),
            )
    except IndexError:
        raise _invalid(index, end, "goes on after the end of the batch") from None
    except ValueError as error:
        raise _invalid(index, at, str(error)) from None
    if at != end:
        raise _invalid(count, at, f"{end - at} bytes are left after the last record")


def _read_headers(data: bytes, at: int, record_end: int) -> tuple[Headers, int]:
    count, at = read_varint(data, at)
    left = record_end - at
    if not 0 <= count * 2 <= left or count > HEADERS_OF_ANY_SIZE_MAX + left // HEADER_BYTES_OTHERWISE_MIN:
        raise ValueError(f"{count} headers in {left} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        byte = data[at]
        if byte < 0x80 and not byte & 1:
            at += 1
            stop = at + (byte >> 1)
        else:
            size, at = read_varint(data, at)
            if size < 0:
                raise ValueError(f"a header's key has length {size}")
            stop = at + size
        if stop > record_end:
            raise ValueError(f"a header's key of {stop - at} bytes, {record_end - at} are left")
        key = data[at:stop].decode("utf-8", HEADER_KEY_ERRORS)
        byte = data[stop]
        if byte < 0x80 and not byte & 1:
            at = stop + 1
            stop = at + (byte >> 1)
        else:
            size, at = read_varint(data, stop)
            if size < 0:
                headers.append((key, None))
                continue
            stop = at + size
        headers.append((key, data[at:stop]))
        at = stop
    return tuple(headers), at


def verify(
    batch: BatchView,
    output_bytes_max: int,
    *,
    keys_required: bool = False,
    timestamp_ms_min: int = INT64_MIN,
    timestamp_ms_max: int = INT64_MAX,
) -> None:
    """Checks a produced batch for the rules that its header cannot prove.

    Needed for a compacted topic (every record needs a key), or if the header does not prove that all timestamps are
    within the topic's limits; a record without a timestamp always is. Offsets must count up from the base.
    """
    offset = batch.base_offset
    errors: list[tuple[int, str]] = []
    rejected_count = 0
    rejects_time = False
    for index, record in enumerate(iterate(batch, output_bytes_max)):
        if record.offset != offset:
            raise _invalid(index, 0, f"has offset {record.offset} where {offset} is due")
        offset += 1
        if keys_required and record.key is None:
            reason = "has no key, which a compacted topic needs"
        elif record.timestamp != NO_TIMESTAMP and not timestamp_ms_min <= record.timestamp <= timestamp_ms_max:
            reason = f"has timestamp {record.timestamp}, outside {timestamp_ms_min} to {timestamp_ms_max}"
            rejects_time = True
        else:
            continue
        rejected_count += 1
        if len(errors) < RECORD_ERRORS_MAX:
            errors.append((index, reason))
    if errors:
        kind = InvalidTimestamp if rejects_time else InvalidRecord
        index, reason = errors[0]
        text = f"{reason} ({rejected_count} of {batch.record_count} records are rejected)"
        raise kind(f"record {index} of the batch", 0, text, tuple(errors))


def timestamp_range(batch: BatchView, output_bytes_max: int) -> tuple[int, int]:
    """The smallest and the largest timestamp of a batch's records, independently of its header.

    Reads only a record's length and timestamp, so it costs a fraction of `iterate`. For a batch without records both
    are NO_TIMESTAMP.
    """
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return batch.max_timestamp, batch.max_timestamp
    count = batch.record_count
    if count <= 0:
        return NO_TIMESTAMP, NO_TIMESTAMP
    data = compression.decompress(batch.compression, batch.payload, output_bytes_max)
    end = len(data)
    if count * RECORD_BYTES_MIN > end:
        raise _invalid(0, 0, f"the batch claims {count} records in {end} bytes")
    at = index = 0
    smallest, largest = INT64_MAX, INT64_MIN
    try:
        for index in range(count):
            byte = data[at]
            if byte < 0x80:
                at += 1
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, at = read_varint(data, at)
            if not 0 <= length <= end - at:
                raise _invalid(index, at, f"a length that is negative or above the {end - at} bytes left")
            byte = data[at + 1]  # after the attributes
            delta = (byte >> 1) ^ -(byte & 1) if byte < 0x80 else read_varlong(data, at + 1)[0]
            smallest, largest = min(smallest, delta), max(largest, delta)
            at += length
    except IndexError:
        raise _invalid(index, end, "goes on after the end of the batch") from None
    except ValueError as error:
        raise _invalid(index, at, str(error)) from None
    return batch.base_timestamp + smallest, batch.base_timestamp + largest


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """The records' section of a batch, not compressed: offsets from 0, all with one timestamp."""

    section: bytes
    count: int
    timestamp: int
    size_bytes: int  # for memory and limits: the largest size that the same records could have


def encode(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The records' section of a batch, not compressed."""
    pieces: list[bytes] = []
    append = pieces.append
    varint = encode_varint
    join = b"".join
    for offset, timestamp, key, value, headers in records:
        delta = offset - base_offset
        if not 0 <= delta <= INT32_MAX:
            raise Unencodable(f"offset {offset} is too far from the batch's base offset {base_offset}")
        body = join(
            (
                b"\x00",
                varint(timestamp - base_timestamp),
                varint(delta),
                NULL if key is None else varint(len(key)) + key,
                NULL if value is None else varint(len(value)) + value,
                _encode_headers(headers) if headers else b"\x00",
            )
        )
        append(varint(len(body)))
        append(body)
    return join(pieces)


def _encode_headers(headers: Headers) -> bytes:
    pieces = [encode_varint(len(headers))]
    for key, value in headers:
        try:
            name = key.encode("utf-8", HEADER_KEY_ERRORS)
        except UnicodeEncodeError as error:
            raise Unencodable(f"header key {key!r}: {error.reason}") from None
        pieces += (encode_varint(len(name)), name)
        pieces += (NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(pieces)


def _invalid(index: int, at: int, reason: str) -> InvalidRecord:
    return InvalidRecord(f"record {index} of the batch", at, reason)


class ControlType(IntEnum):
    """The type of a control record. Readers skip unknown types."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_KEY = Struct(">hh")  # version, type
_MARKER_VALUE = Struct(">hi")  # version, coordinator epoch
_CONTROL_TYPES: Final = {int(each): each for each in ControlType}


def control_type(record: Record) -> ControlType:
    """The type of a record of a control batch. Ignores its version: newer ones only extend the key."""
    key = record.key
    if key is None or len(key) < _CONTROL_KEY.size:
        raise InvalidRecord(f"control record at offset {record.offset}", 0, "has no key of version and type")
    version, code = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"control record at offset {record.offset}", 0, f"has version {version}")
    return _CONTROL_TYPES.get(code, ControlType.UNKNOWN)


def coordinator_epoch(marker: Record) -> int:
    """The epoch of the transaction coordinator that wrote a COMMIT or ABORT marker."""
    value = marker.value
    if value is None or len(value) < _MARKER_VALUE.size:
        raise InvalidRecord(f"control record at offset {marker.offset}", 0, "has no value of version and epoch")
    version, epoch = _MARKER_VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"control record at offset {marker.offset}", 0, f"has version {version}")
    return int(epoch)


def marker(offset: int, timestamp: int, outcome: ControlType, epoch: int) -> Record:
    """The marker that ends a transaction on one partition: COMMIT or ABORT."""
    return Record(offset, timestamp, _CONTROL_KEY.pack(0, outcome), _MARKER_VALUE.pack(0, epoch))
