"""Converts between record formats: sets of magic 0 and 1 from old producers, and sets for old consumers.

The log holds only magic 2. `up_convert` turns the data of Produce v0 to v2 into one batch; `down_convert` turns stored
batches into the format of Fetch v0 and v1 (magic 0) or v2 and v3 (magic 1). Codecs are kept. Data that the old formats
cannot represent is dropped: headers, control batches and, in magic 0, timestamps.

Nothing here assigns offsets: the leader patches them into the result of `up_convert`, as into any produced batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.wire import batches, legacy_batches, records
from chronik.wire.compression import Codec
from chronik.wire.errors import InvalidRecord, InvalidTimestamp, UnsupportedCompression
from chronik.wire.records import NO_TIMESTAMP, Record, TimestampType

if TYPE_CHECKING:
    from collections.abc import Iterator


def up_convert(buffer: memoryview, output_bytes_max: int, *, append_timestamp: int | None = None) -> bytes:
    """One batch of magic 2, offsets from 0, from a produced set: either plain messages of one magic, or one wrapper.

    Ignores the client's offsets, which old clients set arbitrarily. `append_timestamp` is for a topic with
    LogAppendTime. A wrapper decompresses to at most `output_bytes_max` bytes.
    """
    messages = legacy_batches.messages(buffer)
    first = next(messages, None)
    if first is None:
        raise InvalidRecord("produced message set", 0, "holds no message")
    _check(first, first)
    codec = first.codec
    found: list[Record] = []
    if codec is Codec.NONE:
        found.append(Record(0, first.timestamp, first.key, first.value))
        for message in messages:
            _check(message, first)
            found.append(Record(len(found), message.timestamp, message.key, message.value))
    else:
        if next(messages, None) is not None:
            raise InvalidRecord("produced message set", first.size_bytes, "goes on after a compressed message")
        for record in legacy_batches.unwrap(first, output_bytes_max):
            found.append(record._replace(offset=len(found)))
    # A batch stores times as differences, which opposite extremes could overflow; Kafka accepts no negative ones.
    if min([record.timestamp for record in found]) < NO_TIMESTAMP:
        raise InvalidTimestamp("produced message set", 0, "holds a negative timestamp")
    if append_timestamp is None:
        return batches.build(found, codec)
    return batches.build(found, codec, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=append_timestamp)


def _check(message: legacy_batches.Message, first: legacy_batches.Message) -> None:
    what = f"produced message at offset {message.offset}"
    if message.magic != first.magic:
        raise InvalidRecord(what, legacy_batches.MAGIC_AT, f"magic is {message.magic}, the first has {first.magic}")
    if message.codec is not first.codec:
        raise InvalidRecord(what, 0, "compressed and plain messages are mixed")
    if message.magic and message.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise InvalidTimestamp(what, 0, "says LogAppendTime, which only the broker sets")


def down_convert(buffer: memoryview, magic: int, first_offset: int, output_bytes_max: int) -> bytes:
    """Converts the batches of magic 2 in `buffer` to a set of `magic`, for a fetch from `first_offset` on.

    Omits records before `first_offset` where that is free: a plain set can start anywhere, while old clients skip
    records inside a wrapper themselves. A compressed batch decompresses to at most `output_bytes_max` bytes. Old
    formats take more bytes: messages beyond the size of `buffer`, the client's limit, are left for the next fetch; the
    first batch is returned whatever its converted size.
    """
    converted = bytearray()
    size_bytes_max = len(buffer)
    for batch in batches.split(buffer):
        if len(converted) > size_bytes_max:
            break
        if batch.is_control:
            continue
        is_first = not converted
        codec = batch.compression
        if codec is Codec.ZSTD and converted:
            break  # the client gets the error when it fetches from here
        if codec is Codec.ZSTD:
            raise UnsupportedCompression(
                f"batch at offset {batch.base_offset}", 0, f"zstd cannot be sent to a client that reads magic {magic}"
            )
        skip_before = first_offset if codec is Codec.NONE else 0
        converted += legacy_batches.build(
            _from(records.iterate(batch, output_bytes_max), skip_before),
            magic,
            codec,
            append_timestamp=batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        )
        if is_first:
            size_bytes_max = max(size_bytes_max, len(converted))
    return bytes(converted[: legacy_batches.whole_bytes(converted, size_bytes_max)])


def _from(found: Iterator[Record], offset: int) -> Iterator[Record]:
    return (record for record in found if record.offset >= offset)
