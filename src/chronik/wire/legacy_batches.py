"""Message sets of magic 0 and 1, the formats of clients before Kafka 0.11: reading and writing, compressed or not.

    offset int64, size int32, crc int32, magic int8, attributes int8, [magic 1: timestamp int64], key, value

A set is a sequence of messages. A compressed message is a wrapper: its value is another set, one level deep, and its
own offset is that of its last inner message. Inner offsets are absolute in magic 0 and relative in magic 1, where the
wrapper's offset defines their base. A wrapper with LogAppendTime gives its time to all inner messages.

Readers are generators and check each message's CRC-32 (in C) before they yield it; invalid data raises Malformed. This
module knows nothing of magic 2: `conversion` converts between the formats.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the standard library's only lower-case exception
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from chronik.wire.compression import Codec, codec_of, compress, decompress
from chronik.wire.errors import CorruptBatch, InvalidRecord, Unencodable, UnsupportedCompression
from chronik.wire.records import NO_TIMESTAMP, Record, TimestampType
from chronik.wire.varints import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOG_APPEND_TIME: Final = 0x08  # only in magic 1
MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 17
SIZE_COVERS_FROM: Final = 12  # `size` does not count the offset and itself
CRC_COVERS_FROM: Final = 16
SIZE_BYTES_MIN: Final = 14  # crc, magic, attributes, two lengths

_HEADS = (Struct(">qiIbb"), Struct(">qiIbbq"))  # by magic
_SIZE = Struct(">i")
_OFFSET_AND_SIZE = Struct(">qi")
_CRC = Struct(">I")


class Message(NamedTuple):
    """One message of the outer level."""

    offset: int
    size_bytes: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME


def iterate(buffer: memoryview, output_bytes_max: int, *, cut_tail: bool = False) -> Iterator[Record]:
    """The records of a set, including those inside wrappers; offsets are absolute, as far as the set defines them.

    A wrapper decompresses to at most `output_bytes_max` bytes. `cut_tail` omits an incomplete last message: a fetch
    returns up to a number of bytes, not of messages.
    """
    for message in messages(buffer, cut_tail=cut_tail):
        if message.codec is Codec.NONE:
            yield Record(message.offset, message.timestamp, message.key, message.value)
        else:
            yield from unwrap(message, output_bytes_max)


def messages(buffer: memoryview, *, cut_tail: bool = False) -> Iterator[Message]:
    """The messages of the outer level; wrappers stay compressed."""
    at = 0
    end = len(buffer)
    while at < end:
        left = end - at
        size = _SIZE.unpack_from(buffer, at + 8)[0] + SIZE_COVERS_FROM if left >= SIZE_COVERS_FROM else 0
        if left < SIZE_COVERS_FROM or size > left:
            if cut_tail:
                return
            raise CorruptBatch("message set", at, f"{left} bytes are left, too few for the next message")
        yield _read(buffer, at, size)
        at += size


def whole_bytes(data: bytes | bytearray, size_bytes_max: int) -> int:
    """The size of the messages that are entirely within the first `size_bytes_max` bytes."""
    end = min(len(data), size_bytes_max)
    at = 0
    while end - at >= SIZE_COVERS_FROM:
        size = _SIZE.unpack_from(data, at + 8)[0] + SIZE_COVERS_FROM
        if at + size > end:
            break
        at += size
    return at


def _read(buffer: memoryview, at: int, size: int) -> Message:
    if size < SIZE_COVERS_FROM + SIZE_BYTES_MIN:
        raise CorruptBatch("message", at + 8, f"claims {size - SIZE_COVERS_FROM} bytes, {SIZE_BYTES_MIN} are the least")
    magic = buffer[at + MAGIC_AT]
    if magic >= len(_HEADS):
        raise CorruptBatch("message", at + MAGIC_AT, f"magic is {magic}, not 0 or 1")
    end = at + size
    head = _HEADS[magic]
    found = crc32(buffer[at + CRC_COVERS_FROM : end])
    try:
        offset, _, crc, _, attributes, *timestamp = head.unpack_from(buffer[:end], at)
        if crc != found:
            raise CorruptBatch("message", at + 12, f"CRC-32 is {found:#010x}, the message says {crc:#010x}")
        key, value_at = _read_bytes(buffer, at + head.size, end)
        value, stop = _read_bytes(buffer, value_at, end)
    except StructError:
        raise CorruptBatch("message", end, "ends inside a field") from None
    if stop != end:
        raise CorruptBatch("message", stop, f"its fields end here, its size says byte {end}")
    return Message(offset, size, magic, attributes, timestamp[0] if timestamp else NO_TIMESTAMP, key, value)


def _read_bytes(buffer: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(buffer[:end], at)
    at += _SIZE.size
    if size < 0:
        return None, at
    if size > end - at:
        raise CorruptBatch("message", at, f"a key or value of {size} bytes, {end - at} are left")
    return bytes(buffer[at : at + size]), at + size


def unwrap(wrapper: Message, output_bytes_max: int) -> Iterator[Record]:
    """The records inside a compressed message."""
    what = f"compressed message at offset {wrapper.offset}"
    codec = wrapper.codec
    if codec is Codec.ZSTD:
        raise UnsupportedCompression(what, 0, f"zstd does not exist in magic {wrapper.magic}")
    if wrapper.value is None:
        raise InvalidRecord(what, 0, "has no value")
    inner = memoryview(decompress(codec, wrapper.value, output_bytes_max, broken_lz4=wrapper.magic == 0))
    if not inner:
        raise InvalidRecord(what, 0, "holds no messages")
    base_offset = _base_offset(wrapper, inner)
    append_timestamp = wrapper.timestamp if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    for message in messages(inner):
        if message.magic != wrapper.magic or message.codec is not Codec.NONE:
            raise InvalidRecord(
                what, 0, f"holds a message of magic {message.magic} and codec {message.codec.name.lower()}"
            )
        offset = base_offset + message.offset
        if not INT64_MIN <= offset <= INT64_MAX:
            raise InvalidRecord(what, 0, f"holds a message at offset {offset}, which does not fit 64 bits")
        timestamp = message.timestamp if append_timestamp is None else append_timestamp
        yield Record(offset, timestamp, message.key, message.value)


def _base_offset(wrapper: Message, inner: memoryview) -> int:
    """The base of the inner offsets, computed from the last one, which equals the wrapper's."""
    if wrapper.magic == 0:
        return 0
    at = last = 0
    while len(inner) - at >= SIZE_COVERS_FROM:
        last, size = _OFFSET_AND_SIZE.unpack_from(inner, at)
        if size < SIZE_BYTES_MIN:
            break  # `messages` reports the error
        at += SIZE_COVERS_FROM + size
    if wrapper.offset == 0:
        return 0  # a produced set: some clients let the broker assign the wrapper's offset
    if last > wrapper.offset:
        raise InvalidRecord(
            f"compressed message at offset {wrapper.offset}", 0, f"its last inner message has relative offset {last}"
        )
    return wrapper.offset - last


def build(
    records: Iterable[Record],
    magic: int,
    codec: Codec = Codec.NONE,
    *,
    level: int | None = None,
    append_timestamp: int | None = None,
) -> bytes:
    """A set with the records' own offsets; empty without records. `append_timestamp` selects LogAppendTime.

    Magic 0 drops timestamps; both magics drop headers.
    """
    if codec is Codec.ZSTD:
        raise Unencodable(f"zstd does not exist in magic {magic}")
    attributes = 0 if append_timestamp is None or magic == 0 else LOG_APPEND_TIME
    is_relative = magic == 1 and codec is not Codec.NONE
    base_offset = last_offset = 0
    max_timestamp = NO_TIMESTAMP
    built = bytearray()  # grows in place: a list of messages would need several times the memory
    for last_offset, timestamp, key, value, _ in records:
        if is_relative and not built:
            base_offset = last_offset
        stamp = timestamp if append_timestamp is None else append_timestamp
        max_timestamp = max(max_timestamp, stamp)
        built += _message(magic, attributes, last_offset - base_offset, stamp, key, value)
    if codec is Codec.NONE or not built:
        return bytes(built)
    wrapped = compress(codec, built, level, broken_lz4=magic == 0)
    return _message(magic, attributes | codec, last_offset, max_timestamp, None, wrapped)


def _message(magic: int, attributes: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    head = _HEADS[magic]
    body = b"".join((_sized(key), _sized(value)))
    size = head.size - SIZE_COVERS_FROM + len(body)
    try:
        packed = head.pack(offset, size, 0, magic, attributes, *((timestamp,) if magic else ()))
    except StructError as error:
        raise Unencodable(f"a field of the message at offset {offset} does not fit: {error}") from None
    crc = crc32(body, crc32(packed[CRC_COVERS_FROM:]))
    return b"".join((packed[:SIZE_COVERS_FROM], _CRC.pack(crc), packed[CRC_COVERS_FROM:], body))


def _sized(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else _SIZE.pack(len(data)) + data
