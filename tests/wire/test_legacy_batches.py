"""Message sets of magic 0 and 1, as clients before Kafka 0.11 and their successors write them."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire import legacy_batches
from chronik.wire.compression import Codec, compress, decompress
from chronik.wire.errors import CorruptBatch, InvalidRecord, TooLarge, Unencodable, UnsupportedCompression
from chronik.wire.records import NO_TIMESTAMP, Record, TimestampType
from tests.wire import kafka_python
from tests.wire import record_fixtures as fixtures
from tests.wire.record_fixtures import APPENDED_AT, MIXED, ROOM, T, is_fine_or_malformed, name_of, peak_bytes

MIB = 1 << 20
OLD = [each for each in fixtures.ORDINARY if each.magic < 2]
OLD_CODECS = [codec for codec in Codec if codec is not Codec.ZSTD]


def message(
    magic: int, attributes: int, offset: int, key: bytes | None, value: bytes | None, timestamp: int = T, crc: int = 0
) -> bytes:
    """A message put together without the code under test. `crc` changes the right checksum."""

    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    times = struct.pack(">q", timestamp) if magic == 1 else b""
    covered = struct.pack(">bb", magic, attributes) + times + sized(key) + sized(value)
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered) ^ crc) + covered


def repaired(data: bytes) -> bytes:
    """The set with the outer messages' checksums put right, as far as sizes lead from one to the next."""
    made = bytearray(data)
    at = 0
    while len(made) - at >= 26:
        (size,) = struct.unpack_from(">i", made, at + 8)
        if not 14 <= size <= len(made) - at - 12:
            break
        struct.pack_into(">I", made, at + 12, zlib.crc32(made[at + 16 : at + 12 + size]))
        at += 12 + size
    return bytes(made)


def read(data: bytes, **options: bool) -> list[Record]:
    return list(legacy_batches.iterate(memoryview(data), ROOM, **options))


# Reading and writing


def test_a_message_of_magic_0_has_these_bytes():
    """Literal: no timestamp in it."""
    data = bytes.fromhex("0000000000000007 00000012 57e7496e 00 00 00000002 6b31 00000002 7631")
    assert read(data) == [Record(7, NO_TIMESTAMP, b"k1", b"v1")]
    assert legacy_batches.build([Record(7, T, b"k1", b"v1", (("dropped", None),))], 0) == data


def test_a_message_of_magic_1_has_these_bytes():
    """Literal: the timestamp precedes the key, and the checksum covers it."""
    data = bytes.fromhex("0000000000000007 0000001a a5da6a62 01 00 0000018bcfe56800 00000002 6b31 00000002 7631")
    assert read(data) == [Record(7, T, b"k1", b"v1")]
    assert legacy_batches.build([Record(7, T, b"k1", b"v1", (("dropped", None),))], 1) == data


@pytest.mark.parametrize("fixture", OLD, ids=name_of)
def test_sets_of_other_clients_hold_what_they_wrote(fixture: fixtures.Fixture):
    """Java, librdkafka and kafka-python; wrappers with absolute, relative and unset offsets, both lz4 headers."""
    assert read(fixture.data) == fixture.expected


@pytest.mark.parametrize("fixture", OLD, ids=name_of)
def test_our_reader_and_kafka_pythons_agree(fixture: fixtures.Fixture):
    """Two readers that share no line."""
    assert read(fixture.data) == kafka_python.read(fixture.data)


@pytest.mark.parametrize("fixture", [each for each in OLD if each.codec is Codec.NONE], ids=name_of)
def test_a_set_without_compression_is_written_again_byte_for_byte(fixture: fixtures.Fixture):
    """As the client wrote it, LogAppendTime included."""
    stamp = APPENDED_AT if fixture.name.endswith("append_time") else None
    assert legacy_batches.build(read(fixture.data), fixture.magic, append_timestamp=stamp) == fixture.data


@pytest.mark.parametrize("fixture", [each for each in OLD if each.codec and each.writer == "java"], ids=name_of)
def test_a_wrapper_is_written_as_java_writes_it_but_for_the_compressors_choices(fixture: fixtures.Fixture):
    """Offset, timestamp and attributes of the wrapper, and every byte inside it."""
    stamp = APPENDED_AT if fixture.name.endswith("append_time") else None
    ours = legacy_batches.build(read(fixture.data), fixture.magic, fixture.codec, append_timestamp=stamp)
    (our_wrapper,), (their_wrapper,) = (list(legacy_batches.messages(memoryview(x))) for x in (ours, fixture.data))
    assert our_wrapper._replace(value=None, size_bytes=0) == their_wrapper._replace(value=None, size_bytes=0)
    inside = [
        decompress(fixture.codec, wrapper.value, ROOM, broken_lz4=fixture.magic == 0)
        for wrapper in (our_wrapper, their_wrapper)
    ]
    assert inside[0] == inside[1]


plain_records = fixtures.records(offsets_step_max=3, with_headers=False)


@given(plain_records, st.sampled_from(OLD_CODECS), st.sampled_from([0, 1]), st.none() | st.just(APPENDED_AT))
def test_what_is_built_is_read_back(records: list[Record], codec: Codec, magic: int, stamp: int | None):
    """Offsets with gaps, as compaction leaves them; in magic 0 the times are gone."""
    data = legacy_batches.build(records, magic, codec, append_timestamp=stamp)
    expected = [r._replace(timestamp=NO_TIMESTAMP if magic == 0 else stamp or r.timestamp) for r in records]
    assert read(data) == expected
    assert kafka_python.read(data) == expected


def test_no_records_make_no_bytes():
    """There is no such thing as an empty message set with a header."""
    assert legacy_batches.build([], 1) == legacy_batches.build([], 1, Codec.GZIP) == b""
    assert read(b"") == []


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_does_not_exist_in_old_sets(magic: int):
    """It is two years younger than they are; no old client could read it."""
    with pytest.raises(Unencodable):
        legacy_batches.build(MIXED, magic, Codec.ZSTD)
    with pytest.raises(UnsupportedCompression):
        read(message(magic, Codec.ZSTD, 0, None, compress(Codec.ZSTD, message(magic, 0, 0, None, b"v"))))


def test_a_field_that_does_not_fit_is_unencodable():
    """A caller's mistake must not surface as struct.error."""
    with pytest.raises(Unencodable):
        legacy_batches.build([Record(2**63, T, None, None)], 1)


# Wrappers


def wrapper(magic: int, offset: int, *inner: bytes, attributes: int = Codec.GZIP, timestamp: int = T) -> bytes:
    value = compress(Codec(attributes & 7), b"".join(inner))
    return message(magic, attributes, offset, None, value, timestamp)


def test_inner_offsets_of_magic_1_count_up_to_the_wrappers():
    """The last is the wrapper's own, whatever number the inner ones start from."""
    for first in (0, 5):
        inner = [message(1, 0, first + i, None, b"%d" % i) for i in (0, 1, 3)]
        assert [record.offset for record in read(wrapper(1, 1003, *inner))] == [1000, 1001, 1003]


def test_inner_offsets_of_magic_1_are_kept_when_the_wrapper_has_none():
    """Produced sets of some clients: the broker has not filled in the wrapper's offset."""
    inner = [message(1, 0, i, None, b"%d" % i) for i in range(3)]
    assert [record.offset for record in read(wrapper(1, 0, *inner))] == [0, 1, 2]


def test_inner_offsets_of_magic_0_are_absolute():
    """The broker of that time decompressed every set to write them."""
    inner = [message(0, 0, 1000 + i, None, b"%d" % i) for i in range(3)]
    assert [record.offset for record in read(wrapper(0, 1002, *inner))] == [1000, 1001, 1002]


def test_a_wrapper_of_log_append_time_gives_its_time_to_all():
    """The broker of that time changed the wrapper alone, without compressing again."""
    inner = [message(1, 0, i, None, b"%d" % i, timestamp=T + i) for i in range(2)]
    data = wrapper(1, 1, *inner, attributes=Codec.GZIP | 0x08, timestamp=APPENDED_AT)
    assert [record.timestamp for record in read(data)] == [APPENDED_AT, APPENDED_AT]
    (outer,) = legacy_batches.messages(memoryview(data))
    assert outer.timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize(
    "data",
    [
        message(1, Codec.GZIP, 0, None, None),
        wrapper(1, 0),
        wrapper(1, 0, message(0, 0, 0, None, b"v")),
        wrapper(1, 0, message(1, Codec.GZIP, 0, None, compress(Codec.GZIP, message(1, 0, 0, None, b"v")))),
        wrapper(1, 1, message(1, 0, 2, None, b"v")),
        wrapper(1, 2**63 - 1, message(1, 0, 5, None, b"v"), message(1, 0, 0, None, b"v")),
    ],
    ids=[
        "no value",
        "nothing inside",
        "another magic inside",
        "a wrapper inside",
        "inner offset above the wrapper's",
        "64 bits",
    ],
)
def test_a_wrapper_that_contradicts_itself_is_invalid(data: bytes):
    """Among them a wrapper in a wrapper, which would otherwise be a bomb with a fuse of any length."""
    with pytest.raises(InvalidRecord):
        read(data)


@pytest.mark.parametrize(
    "inner",
    [message(1, 0, 0, None, b"v", crc=1), message(1, 0, 0, None, b"v")[:-1], b"\x00" * 11, b"\x00" * 40],
    ids=["checksum", "cut", "too short", "no message"],
)
def test_damage_inside_a_wrapper_is_found(inner: bytes):
    """The wrapper's checksum covers the compressed bytes, not the producer's data."""
    with pytest.raises(CorruptBatch):
        read(wrapper(1, 0, inner))


def test_a_wrapper_is_not_decompressed_beyond_the_limit():
    """Whatever it holds."""
    data = memoryview(wrapper(1, 0, message(1, 0, 0, None, bytes(5 * MIB))))
    with pytest.raises(TooLarge):
        list(legacy_batches.iterate(data, MIB))
    assert len(list(legacy_batches.iterate(data, 6 * MIB))) == 1


# Damage


@pytest.mark.parametrize(
    "data",
    [
        message(0, 0, 0, b"k", b"v", crc=1),
        message(1, 0, 0, b"k", b"v", crc=1),
        repaired(message(1, 0, 0, b"k", b"v")[:16] + b"\x02" + message(1, 0, 0, b"k", b"v")[17:]),
        repaired(struct.pack(">qi", 0, 14) + bytes(14)[:4] + b"\x01" + bytes(9)),  # magic 1 without room for its time
        repaired(struct.pack(">qi", 0, 15) + bytes(15)),  # a byte after the value
        repaired(struct.pack(">qi", 0, 14) + bytes(6) + struct.pack(">ii", 100, -1)),  # key beyond the end
        struct.pack(">qi", 0, 13) + bytes(13),
        struct.pack(">qi", 0, -1) + bytes(20),
    ],
    ids=["crc 0", "crc 1", "magic", "no time", "byte left", "key", "size 13", "size negative"],
)
@pytest.mark.parametrize("cut_tail", [False, True])
def test_a_broken_message_is_corrupt(data: bytes, cut_tail: bool):
    """Each breaks one rule. A reader that accepts a cut tail accepts nothing else."""
    with pytest.raises(CorruptBatch):
        read(data, cut_tail=cut_tail)


@pytest.mark.parametrize("fixture", OLD, ids=name_of)
def test_a_prefix_of_a_set_is_malformed_unless_it_ends_between_messages(fixture: fixtures.Fixture):
    """And a reader of a fetch answer gets exactly the messages that are there in full."""
    ends = {0}
    for each in legacy_batches.messages(memoryview(fixture.data)):
        ends.add(max(ends) + each.size_bytes)
    everything = read(fixture.data)
    for end in fixtures.positions(fixture.data):
        prefix = fixture.data[:end]
        if end in ends:
            assert read(prefix) == everything[: sorted(ends).index(end)]
        else:
            with pytest.raises(CorruptBatch):
                read(prefix)
            whole = max(each for each in ends if each <= end)
            assert read(prefix, cut_tail=True) == read(fixture.data[:whole])


@pytest.mark.parametrize("fixture", [each for each in OLD if not each.name.endswith("long")], ids=name_of)
def test_a_damaged_set_raises_nothing_but_malformed(fixture: fixtures.Fixture):
    """With the outer checksums put right again, so that the damage is looked at."""
    damaged = bytearray(fixture.data)
    for at in range(len(damaged)):
        damaged[at] ^= 0xFF
        is_fine_or_malformed(read, repaired(bytes(damaged)))
        damaged[at] ^= 0xFF


@pytest.mark.parametrize("fixture", OLD, ids=name_of)
def test_a_changed_byte_is_noticed(fixture: fixtures.Fixture):
    """The checksum covers all of a message but its offset and size."""
    damaged = bytearray(fixture.data)
    for at in fixtures.positions(fixture.data):
        if at >= 12:
            damaged[at] ^= 0x10
            found = is_fine_or_malformed(read, bytes(damaged))
            assert found is None or [r[1:] for r in found] == [r[1:] for r in fixture.expected]
            damaged[at] ^= 0x10


@given(st.binary(max_size=200))
def test_any_bytes_are_a_set_or_malformed(data: bytes):
    """No input raises any other exception, with or without valid checksums."""
    for each in (data, repaired(data)):
        is_fine_or_malformed(read, each)
        is_fine_or_malformed(read, each, cut_tail=True)


@pytest.mark.parametrize("magic", [0, 1])
def test_reading_stays_within_its_memory(magic: int):
    """It keeps one message at a time, however many there are."""
    data = memoryview(legacy_batches.build([Record(i, T, None, None) for i in range(3_000)], magic))

    def walk() -> None:
        for _ in legacy_batches.iterate(data, ROOM):
            pass

    assert peak_bytes(walk) < 16 * 1024
