"""Codecs: compatible with other software in both directions, and with limits that hold."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import textwrap
import zlib

import lz4.frame
import pytest
import snappy
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire.compression import LEVELS, Codec, codec_of, compress, decompress, xxh32_of_short
from chronik.wire.errors import CorruptBatch, Malformed, TooLarge, Unencodable, UnsupportedCompression
from tests.wire.record_fixtures import is_fine_or_malformed, peak_bytes

REAL = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"the quick brown fox jumps over the lazy dog, " * 3000  # several snappy and lz4 blocks
MIB = 1 << 20

# Streams written by hand or by the formats' own libraries, with their contents.
LITERAL = {
    "snappy raw": (Codec.SNAPPY, "05 10 68656c6c6f", b"hello"),
    "snappy xerial": (
        Codec.SNAPPY,
        "82534e4150505900 00000001 00000001 00000007 05 10 68656c6c6f 00000003 01 00 21",
        b"hello!",
    ),
    "snappy xerial with its versions the wrong way round": (
        Codec.SNAPPY,
        "82534e4150505900 01000000 01000000 00000007 05 10 68656c6c6f",
        b"hello",
    ),
    "snappy xerial, nothing in it": (Codec.SNAPPY, "82534e4150505900 00000001 00000001", b""),
    "lz4 stored block": (Codec.LZ4, "04224d18 60 40 82 05000080 68656c6c6f 00000000", b"hello"),
    "lz4 compressed block": (
        Codec.LZ4,
        "04224d18 60 40 82 0a000000 13 61 0100 50 6262626262 00000000",
        b"a" * 8 + b"bbbbb",
    ),
    "lz4, nothing in it": (Codec.LZ4, "04224d18 60 40 82 00000000", b""),
    "gzip": (Codec.GZIP, gzip.compress(b"hello", mtime=0).hex(), b"hello"),
    "zstd raw block": (Codec.ZSTD, "28b52ffd 20 05 290000 68656c6c6f", b"hello"),
    "zstd repeated byte, size not said": (Codec.ZSTD, "28b52ffd 00 58 230000 61", b"aaaa"),
}


@pytest.mark.parametrize("name", LITERAL)
def test_literal_streams_are_read(name: str):
    """Bytes laid out by the formats' descriptions, not by the code under test."""
    codec, hexed, content = LITERAL[name]
    assert decompress(codec, bytes.fromhex(hexed), 100) == content


def linked_lz4(content: bytes) -> bytes:
    return lz4.frame.compress(content, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=True, store_size=False)


# (codec, compressor of another library)
FOREIGN = {
    "gzip of zlib": (Codec.GZIP, lambda content: zlib.compress(content, 9, 31)),
    "raw snappy, as librdkafka": (Codec.SNAPPY, snappy.compress),
    "lz4 with content size, as kafka-python": (
        Codec.LZ4,
        lambda content: lz4.frame.compress(content, block_linked=False),
    ),
    "lz4 with linked blocks": (Codec.LZ4, linked_lz4),
    "lz4 with all checksums": (
        Codec.LZ4,
        lambda content: lz4.frame.compress(content, content_checksum=True, block_checksum=True, block_linked=False),
    ),
    "lz4 with 4 MiB blocks": (
        Codec.LZ4,
        lambda content: lz4.frame.compress(content, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
    ),
    "zstd with its size": (Codec.ZSTD, zstandard.ZstdCompressor().compress),
    "zstd without its size, as the Java client": (
        Codec.ZSTD,
        zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress,
    ),
    "zstd in two frames": (
        Codec.ZSTD,
        lambda content: zstandard.compress(content[:100]) + zstandard.compress(content[100:]),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("content", [b"", b"x", TEXT, bytes(300_000)], ids=["nothing", "a byte", "text", "zeros"])
def test_streams_of_other_libraries_are_read(name: str, content: bytes):
    """Every framing that some client writes."""
    codec, write = FOREIGN[name]
    stream = write(content)
    assert decompress(codec, stream, len(content)) == content
    assert decompress(codec, memoryview(bytearray(stream)), len(content) + 1) == content


def read_xerial(stream: bytes) -> bytes:
    assert stream[:16] == bytes.fromhex("82534e41505059000000000100000001")
    content, at = b"", 16
    while at < len(stream):
        (size,) = struct.unpack_from(">i", stream, at)
        block = snappy.decompress(stream[at + 4 : at + 4 + size])
        assert len(block) <= 32 * 1024
        content, at = content + block, at + 4 + size
    return content


OTHER_READERS = {
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: read_xerial,
    Codec.LZ4: lz4.frame.decompress,
    Codec.ZSTD: zstandard.ZstdDecompressor().decompress,
}


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.parametrize("content", [b"x", TEXT, bytes(300_000)], ids=["a byte", "text", "zeros"])
def test_other_libraries_read_what_we_write(codec: Codec, content: bytes):
    """And with it every client that uses them."""
    assert OTHER_READERS[codec](compress(codec, content)) == content


@given(st.binary(max_size=3000) | st.builds(lambda piece: piece * 300, st.binary(max_size=300)), st.sampled_from(Codec))
def test_what_was_compressed_comes_back(content: bytes, codec: Codec):
    """Given as any kind of buffer, with and without the broken lz4 header, at exactly the limit."""
    for given_as in (content, bytearray(content), memoryview(content)):
        assert decompress(codec, compress(codec, given_as), len(content)) == content
    broken = compress(codec, content, broken_lz4=True)
    assert decompress(codec, broken, len(content), broken_lz4=True) == content


@pytest.mark.parametrize("codec", LEVELS)
def test_levels_are_kafkas_and_make_a_difference(codec: Codec):
    """The ranges that compression.*.level allows; a level that changed nothing would be a lie to the user."""
    content = bytes(zlib.crc32(b"%d" % index) >> 24 & 0x1F for index in range(30_000)) + TEXT
    low, high = (-50, 19) if codec is Codec.ZSTD else (LEVELS[codec][0], LEVELS[codec][-1])
    smallest, largest = compress(codec, content, high), compress(codec, content, low)
    assert len(smallest) < len(largest)
    assert decompress(codec, smallest, len(content)) == decompress(codec, largest, len(content)) == content
    for level in (LEVELS[codec][0] - 1, LEVELS[codec][-1] + 1):
        with pytest.raises(Unencodable):
            compress(codec, content, level)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_codecs_without_levels_take_none(codec: Codec):
    """A level for snappy is a configuration error."""
    with pytest.raises(Unencodable):
        compress(codec, b"", 1)


@pytest.mark.parametrize("size", range(16))
def test_the_header_hash_is_xxh32(size: int):
    """Against the library of that name, for every length that a header can have."""
    data = bytes(range(200, 200 + size))
    assert xxh32_of_short(data) == xxhash.xxh32(data).intdigest()


def test_the_broken_lz4_header_is_accepted_only_where_it_belongs():
    """Like Kafka, readers of magic 0 accept any header checksum; everywhere else a wrong one is damage."""
    broken = compress(Codec.LZ4, TEXT, broken_lz4=True)
    right = compress(Codec.LZ4, TEXT)
    assert broken[:7].hex() == "04224d1860401a"  # the bytes of the Java client and of kafka-python in magic 0
    assert right[:7].hex() == "04224d18604082"
    assert broken[7:] == right[7:]
    assert decompress(Codec.LZ4, right, MIB, broken_lz4=True) == TEXT
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, broken, MIB)
    sized = bytearray(lz4.frame.compress(TEXT, block_linked=False))
    sized[14] ^= 0xFF  # with a content size, the checksum is eight bytes later
    assert decompress(Codec.LZ4, sized, MIB, broken_lz4=True) == TEXT


# Limits


def rle_zstd(block_count: int) -> bytes:
    """128 KiB of one byte in every 4 bytes, with the largest window that readers take, and no size in the header."""
    blocks = b"".join(
        ((131072 << 3 | 2 | (i == block_count - 1)).to_bytes(3, "little") + b"A") for i in range(block_count)
    )
    return bytes.fromhex("28b52ffd0088") + blocks


BOMBS = {
    "gzip": (Codec.GZIP, zlib.compress(bytes(64 * MIB), 9, 31)),
    "snappy raw": (Codec.SNAPPY, snappy.compress(bytes(64 * MIB))),
    "snappy xerial": (Codec.SNAPPY, compress(Codec.SNAPPY, bytes(64 * MIB))),
    "lz4": (Codec.LZ4, compress(Codec.LZ4, bytes(64 * MIB))),
    "lz4 linked": (Codec.LZ4, linked_lz4(bytes(64 * MIB))),
    "zstd": (Codec.ZSTD, compress(Codec.ZSTD, bytes(64 * MIB))),
    "zstd of repeated blocks": (Codec.ZSTD, rle_zstd(8000)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_stopped_at_the_limit(name: str):
    """A few kilobytes that would become 64 MiB and more: neither the bytes nor the room for them come into being."""
    codec, stream = BOMBS[name]
    limit = MIB

    def defuse() -> None:
        with pytest.raises(TooLarge, match=str(limit)):
            decompress(codec, stream, limit)

    assert peak_bytes(defuse) < 3 * limit + 2 * len(stream)


@pytest.mark.skipif(sys.platform != "linux", reason="reads a process's peak memory from /proc")
def test_bombs_do_not_grow_the_process():
    """tracemalloc does not see memory of libraries, so a separate process is measured as a whole."""
    program = textwrap.dedent("""
        import sys
        from chronik.wire.compression import Codec, decompress
        from chronik.wire.errors import TooLarge

        def kilobytes(name):
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith(name))

        streams = [line.split() for line in sys.stdin]
        streams = [(Codec(int(codec)), bytes.fromhex(hexed)) for codec, hexed in streams]
        before = kilobytes("VmRSS:")
        for codec, stream in streams:
            try:
                decompress(codec, stream, 1 << 20)
            except TooLarge:
                pass
        print(kilobytes("VmHWM:") - before)
        """)
    sent = "\n".join(f"{int(codec)} {stream.hex()}" for codec, stream in BOMBS.values())
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=sent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert int(done.stdout) < 24 * 1024


@pytest.mark.parametrize(
    ("codec", "hexed"),
    [
        (Codec.SNAPPY, "8080808002 00 00"),  # claims 512 MiB
        (Codec.ZSTD, "28b52ffd e0 0000000001000000 010000"),  # claims 4 GiB
        (Codec.LZ4, "04224d18 68 70 0000000001000000 57 00000000"),
    ],
)
def test_no_room_is_made_for_what_is_merely_claimed(codec: Codec, hexed: str):
    """The limit is high, the input short: memory follows the input."""

    def read() -> None:
        # Snappy has to be caught by its claim: its room would not be Python's, and would not show below.
        with pytest.raises(Malformed, match="claims" if codec is Codec.SNAPPY else None):
            decompress(codec, bytes.fromhex(hexed), 1 << 30)

    assert peak_bytes(read) < MIB


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec: Codec):
    """As many bytes as allowed pass, one more does not."""
    stream = compress(codec, TEXT)
    assert len(decompress(codec, stream, len(TEXT))) == len(TEXT)
    with pytest.raises(TooLarge):
        decompress(codec, stream, len(TEXT) - 1)
    with pytest.raises(TooLarge):
        decompress(codec, stream, 0)


# Damage

STREAMS = {f"ours: {codec.name}": (codec, compress(codec, TEXT[:500])) for codec in REAL} | {
    name: (codec, write(TEXT[:500])) for name, (codec, write) in FOREIGN.items()
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_prefix_of_a_stream_is_malformed(name: str):
    """A truncated stream is never accepted as a shorter one."""
    codec, stream = STREAMS[name]
    # These end where a block or frame does, and nothing in the format says that more should come.
    whole_before = (
        {len(zstandard.compress(TEXT[:100]))} if "two frames" in name else {16} if name == "ours: SNAPPY" else ()
    )
    for end in range(len(stream)):
        if end not in whole_before:
            with pytest.raises(Malformed):
                decompress(codec, stream[:end], MIB)


@pytest.mark.parametrize("name", STREAMS)
def test_a_damaged_stream_raises_nothing_but_malformed(name: str):
    """Not every format notices every change; none may break the reader."""
    codec, stream = STREAMS[name]
    damaged = bytearray(stream)
    for at in range(len(stream)):
        for change in (0x01, 0x80, 0xFF):
            damaged[at] ^= change
            output = is_fine_or_malformed(decompress, codec, damaged, 2000)
            assert output is None or len(output) <= 2000
            damaged[at] ^= change


@given(st.binary(max_size=300), st.sampled_from(REAL), st.booleans())
def test_any_bytes_are_a_stream_or_malformed(data: bytes, codec: Codec, broken_lz4: bool):
    """With the start that each format insists on, or without."""
    for start in (
        b"",
        b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01",
        bytes.fromhex("04224d18604082"),
        b"\x1f\x8b\x08\x00",
        b"\x28\xb5\x2f\xfd",
    ):
        output = is_fine_or_malformed(decompress, codec, start + data, 5000, broken_lz4=broken_lz4)
        assert output is None or len(output) <= 5000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_bytes_after_the_end_of_a_stream_are_malformed(codec: Codec):
    """Among them a second stream: a million empty ones would be cheap to send and dear to read."""
    stream = compress(codec, TEXT)
    for rest in (b"\x00", stream):
        with pytest.raises(CorruptBatch, match="goes on"):
            decompress(codec, stream + rest, 2 * len(TEXT))


@pytest.mark.parametrize("attributes", [5, 6, 7, 0x0F])
def test_a_codec_that_does_not_exist_is_unsupported(attributes: int):
    """Three bits hold eight codes, five are taken."""
    with pytest.raises(UnsupportedCompression):
        codec_of(attributes)
    assert codec_of(0x7FF8 | Codec.ZSTD) is Codec.ZSTD
