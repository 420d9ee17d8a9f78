"""Kafka's five codecs: none, gzip, snappy, lz4, zstd. Output is bounded before it is produced.

`decompress` never produces more than `output_bytes_max` bytes; longer data raises TooLarge. It never allocates what a
header merely claims: buffers grow with the data found, or the input's length proves their size.

Libraries: gzip is the standard library's zlib, whose decompressor accepts a limit. The other three are cramjam's, which
writes into a given buffer and stops when it is full, so the buffer is the limit. (`lz4` and `zstandard` were as fast on
1 MB batches, but silently accept truncated frames, and neither includes snappy.)

The output is readable by every client, because Kafka's own Java client writes the same: snappy in xerial framing with
32 KiB blocks, lz4 frames of independent 64 KiB blocks without checksums and content size. More is accepted on input:
raw snappy (librdkafka's), linked lz4 blocks, block and content checksums. Bytes after the end of a gzip or lz4 stream
are an error: no client writes them, and a stream of a million empty members would cost a peer little and the broker
much.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final

import cramjam

from chronik.wire.errors import CorruptBatch, TooLarge, Unencodable, UnsupportedCompression

if TYPE_CHECKING:
    from collections.abc import Iterator

Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODECS: Final = tuple(Codec)
CODEC_BITS: Final = 0x07

# The ranges of Kafka's compression.{gzip,lz4,zstd}.level. Snappy has no levels.
LEVELS: Final = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(-131072, 23)}
LEVEL_DEFAULT: Final = {Codec.GZIP: 6, Codec.LZ4: 1, Codec.ZSTD: 3}


def codec_of(attributes: int) -> Codec:
    """The codec in a batch's attributes."""
    code = attributes & CODEC_BITS
    if code >= len(CODECS):
        raise UnsupportedCompression("attributes", 0, f"there is no codec {code}: 0 none to 4 zstd exist")
    return CODECS[code]


def compress(codec: Codec, data: Buffer, level: int | None = None, *, broken_lz4: bool = False) -> bytes:
    """`broken_lz4` writes the frame header that magic 0 requires (see `_lz4_header`)."""
    if level is not None and level not in LEVELS.get(codec, ()):
        raise Unencodable(f"{codec.name.lower()} has no level {level}: {LEVELS.get(codec, 'it has none at all')}")
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.SNAPPY:
        return _compress_snappy(data)
    if level is None:
        level = LEVEL_DEFAULT[codec]
    if codec is Codec.GZIP:
        return zlib.compress(data, level, wbits=GZIP_WBITS)
    if codec is Codec.LZ4:
        return _compress_lz4(data, level, broken=broken_lz4)
    return bytes(cramjam.zstd.compress(data, level))


def decompress(codec: Codec, data: Buffer, output_bytes_max: int, *, broken_lz4: bool = False) -> bytes:
    """Decompresses the output of any client. `broken_lz4` accepts a wrong lz4 header checksum."""
    if codec is Codec.NONE:
        if len(data) > output_bytes_max:
            raise _over(codec, output_bytes_max)
        return bytes(data)
    if codec is Codec.GZIP:
        return _decompress_gzip(data, output_bytes_max)
    if codec is Codec.SNAPPY:
        return _decompress_snappy(data, output_bytes_max)
    if codec is Codec.LZ4:
        return _decompress_lz4(data, output_bytes_max, broken=broken_lz4)
    return _decompress_zstd(data, output_bytes_max)


def _over(codec: Codec, output_bytes_max: int) -> TooLarge:
    return TooLarge(f"{codec.name.lower()} stream", 0, f"holds more than the {output_bytes_max} bytes allowed")


def _corrupt(codec: Codec, at: int, reason: object) -> CorruptBatch:
    return CorruptBatch(f"{codec.name.lower()} stream", at, str(reason))


# gzip

GZIP_WBITS: Final = 31  # the window of 2^15, plus 16 for gzip's header and trailer


def _decompress_gzip(data: Buffer, output_bytes_max: int) -> bytes:
    stream = zlib.decompressobj(wbits=GZIP_WBITS)
    try:
        # One byte more than allowed distinguishes data at the limit from data above it.
        output = stream.decompress(data, output_bytes_max + 1)
    except zlib.error as error:
        raise _corrupt(Codec.GZIP, 0, error) from None
    if len(output) > output_bytes_max:
        raise _over(Codec.GZIP, output_bytes_max)
    if not stream.eof:
        raise _corrupt(Codec.GZIP, len(data), "ends before its trailer")
    if stream.unused_data:
        raise _corrupt(Codec.GZIP, len(data) - len(stream.unused_data), "goes on after its trailer")
    return output


# snappy: either one raw block, or xerial framing: a 16-byte header, then blocks with a 4-byte length each

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable since version 1
XERIAL_BLOCK_BYTES: Final = 32 * 1024
# No snappy element expands fewer than 3 bytes to more than 64, so a larger claim is false.
SNAPPY_RATIO_MAX: Final = 22
_INT32_BIG = Struct(">i")


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    pieces = [XERIAL_HEADER]
    for at in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + XERIAL_BLOCK_BYTES]))
        pieces += (_INT32_BIG.pack(len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: Buffer, output_bytes_max: int) -> bytes:
    view = memoryview(data)
    # Readers of this framing ignore version and compatibility: some writers have the bytes of both in the wrong order.
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decompress_snappy_block(view, 0, output_bytes_max, output_bytes_max)
    end = len(view)
    at = len(XERIAL_HEADER)
    if at > end:
        raise _corrupt(Codec.SNAPPY, end, "ends inside its header")
    pieces = []
    room = output_bytes_max
    while at < end:
        if end - at < _INT32_BIG.size:
            raise _corrupt(Codec.SNAPPY, at, "ends inside a block's length")
        (size,) = _INT32_BIG.unpack_from(view, at)
        at += _INT32_BIG.size
        if not 0 < size <= end - at:
            raise _corrupt(Codec.SNAPPY, at, f"a block claims {size} bytes, {end - at} are left")
        block = _decompress_snappy_block(view[at : at + size], at, room, output_bytes_max)
        room -= len(block)
        pieces.append(block)
        at += size
    return b"".join(pieces)


def _decompress_snappy_block(block: memoryview, at: int, room: int, output_bytes_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * SNAPPY_RATIO_MAX:
            raise _corrupt(Codec.SNAPPY, at, f"a block of {len(block)} bytes claims to hold {size}")
        if size > room:
            raise _over(Codec.SNAPPY, output_bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block, size))
    except cramjam.DecompressionError as error:
        raise _corrupt(Codec.SNAPPY, at, error) from None


# lz4: magic, FLG, BD, [content size], header checksum, then blocks: length, bytes, [checksum]; a length of 0 ends it

LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
LZ4_VERSION_BITS: Final = 0x40
LZ4_INDEPENDENT: Final = 0x20
LZ4_BLOCK_CHECKSUM: Final = 0x10
LZ4_CONTENT_SIZE: Final = 0x08
LZ4_CONTENT_CHECKSUM: Final = 0x04
LZ4_RESERVED: Final = 0x02
LZ4_DICTIONARY: Final = 0x01
LZ4_BLOCK_64_KIB: Final = 0x40
LZ4_STORED: Final = 0x8000_0000  # set in a block's length: the block is not compressed
LZ4_RATIO_MAX: Final = 255  # one byte of a length produces at most 255 bytes of output
_INT32_LITTLE = Struct("<I")


def _lz4_header(flags_and_size: bytes, *, broken: bool) -> bytes:
    """A frame header with its checksum: the second byte of xxh32 over everything between magic and checksum.

    Kafka before 0.10 included the magic in the hash. Such headers are `broken`: every reader and writer of magic 0
    expects them, every other lz4 reader refuses them.
    """
    covered = LZ4_MAGIC + flags_and_size if broken else flags_and_size
    return LZ4_MAGIC + flags_and_size + bytes([xxh32_of_short(covered) >> 8 & 0xFF])


def _compress_lz4(data: Buffer, level: int, *, broken: bool) -> bytes:
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # this call of the library only accepts bytes
    written = bytes(compressor.finish())
    # The library adds a checksum to each block; the batch has its own, and Kafka's writers omit these.
    flags = LZ4_VERSION_BITS | LZ4_INDEPENDENT
    blocks = _lz4_blocks(memoryview(written), _lz4_header_bytes(written[4]), written[4])
    return b"".join(
        (
            _lz4_header(bytes([flags, written[5]]), broken=broken),
            *(written[at - 4 : at + size] for at, size, _ in blocks),
            _INT32_LITTLE.pack(0),
        )
    )


def _decompress_lz4(data: Buffer, output_bytes_max: int, *, broken: bool) -> bytes:
    view = memoryview(data)
    if len(view) < 7 or bytes(view[:4]) != LZ4_MAGIC:
        raise _corrupt(Codec.LZ4, 0, "does not start with a frame header")
    flags, block_size = view[4], view[5]
    if flags & 0xC0 != LZ4_VERSION_BITS or flags & (LZ4_RESERVED | LZ4_DICTIONARY):
        raise _corrupt(Codec.LZ4, 4, f"flags {flags:#04x} are not those of a version 1 frame without dictionary")
    if block_size & 0x8F or block_size < LZ4_BLOCK_64_KIB:
        raise _corrupt(Codec.LZ4, 5, f"{block_size:#04x} is no block size")
    block_bytes_max = 1 << (8 + 2 * (block_size >> 4))
    first = _lz4_header_bytes(flags)
    # The maximum output of the blocks, from their compressed sizes: the buffer is never larger.
    holds = 0
    for _, size, stored in _lz4_blocks(view, first, flags):
        if size > block_bytes_max:
            raise _corrupt(Codec.LZ4, first, f"a block of {size} bytes, above the frame's {block_bytes_max}")
        holds += size if stored else min(size * LZ4_RATIO_MAX, block_bytes_max)
    if broken:
        # In magic 0 Kafka ignores the header checksum. The library does not, so insert the right one.
        view = memoryview(_lz4_header(bytes(view[4 : first - 1]), broken=False) + bytes(view[first:]))
    return _fill(Codec.LZ4, view, min(holds, output_bytes_max), output_bytes_max)


def _lz4_header_bytes(flags: int) -> int:
    return 15 if flags & LZ4_CONTENT_SIZE else 7


def _lz4_blocks(frame: memoryview, first: int, flags: int) -> Iterator[tuple[int, int, bool]]:
    """(start, size, whether it is stored uncompressed) of each block; the frame must end with the data."""
    end = len(frame)
    at = first
    trailer = 4 if flags & LZ4_CONTENT_CHECKSUM else 0
    block_trailer = 4 if flags & LZ4_BLOCK_CHECKSUM else 0
    while True:
        if end - at < 4:
            raise _corrupt(Codec.LZ4, at, "ends before its end mark")
        (size,) = _INT32_LITTLE.unpack_from(frame, at)
        at += 4
        if size == 0:
            break
        stored = size >= LZ4_STORED
        size &= LZ4_STORED - 1
        if size + block_trailer > end - at:
            raise _corrupt(Codec.LZ4, at, f"a block claims {size} bytes, {end - at} are left")
        yield at, size, stored
        at += size + block_trailer
    if at + trailer != end:
        raise _corrupt(
            Codec.LZ4, at, "ends inside its checksum" if at + trailer > end else "goes on after its end mark"
        )


def xxh32_of_short(data: bytes) -> int:
    """xxHash (32 bits, seed 0) of fewer than 16 bytes, enough for a frame header."""
    prime_1, prime_2, prime_3, prime_4, prime_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = prime_5 + len(data) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * prime_3 & mask
        value = (value << 17 | value >> 15) * prime_4 & mask
    for byte in data[whole:]:
        value = value + byte * prime_5 & mask
        value = (value << 11 | value >> 21) * prime_1 & mask
    value = (value ^ value >> 15) * prime_2 & mask
    value = (value ^ value >> 13) * prime_3 & mask
    return value ^ value >> 16


# zstd

ZSTD_FIRST_RATIO: Final = 16  # buffer ratio of the first try; most records compress less
ZSTD_FIRST_BYTES: Final = 64 * 1024


def _decompress_zstd(data: Buffer, output_bytes_max: int) -> bytes:
    # A frame may omit its content size, or claim a false one: the first try uses the input's length.
    return _fill(Codec.ZSTD, memoryview(data), len(data) * ZSTD_FIRST_RATIO + ZSTD_FIRST_BYTES, output_bytes_max)


def _fill(codec: Codec, data: memoryview, room: int, output_bytes_max: int) -> bytes:
    """Decompresses into a buffer of `room` bytes; if that is too small, into one four times as large, up to the
    limit."""
    decompress_into = cramjam.lz4.decompress_into if codec is Codec.LZ4 else cramjam.zstd.decompress_into
    while True:
        room = min(room, output_bytes_max)
        output = bytearray(room)
        try:
            size = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):  # the library's message for "the buffer is full"
                raise _corrupt(codec, 0, error) from None
            if room == output_bytes_max:
                raise _over(codec, output_bytes_max) from None
            room = room * 4 + 1
        else:
            return bytes(memoryview(output)[:size])
