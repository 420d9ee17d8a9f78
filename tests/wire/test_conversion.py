"""Between the record formats, compared with what Kafka 3.9.1 made of the same sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire import batches, legacy_batches, records
from chronik.wire.compression import Codec, decompress
from chronik.wire.conversion import down_convert, up_convert
from chronik.wire.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    Malformed,
    TooLarge,
    UnsupportedCompression,
)
from chronik.wire.records import NO_TIMESTAMP, Record, TimestampType
from tests.wire import kafka_python
from tests.wire import record_fixtures as fixtures
from tests.wire.record_fixtures import (
    APPENDED_AT,
    JAVA,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    MIXED,
    ROOM,
    T,
    is_fine_or_malformed,
    name_of,
    peak_bytes,
)

MIB = 1 << 20
OLD_CODECS = [codec for codec in Codec if codec is not Codec.ZSTD]
STORED = {name.removeprefix("magic2."): each.data for name, each in JAVA.items() if each.magic == 2}
STORED["transaction"] = STORED["transactional"] + STORED["commit"]
STORED["only_control"] = STORED["commit"] + STORED["abort"]


def only(data: bytes) -> batches.BatchView:
    (batch,) = batches.split(memoryview(data))
    assert batches.crc_holds(batch)
    return batch


# Up


@pytest.mark.parametrize(
    ("name", "expected"), [line for line in fixtures.lines("java-conversions.hex") if line[0].startswith("up.")]
)
def test_a_produced_set_becomes_what_kafka_makes_of_it(name: str, expected: str):
    """Byte for byte, except for the compressors' output."""
    source, _, stamp = name.removeprefix("up.").rpartition(".")
    appended_at = APPENDED_AT if stamp == "LogAppendTime" else None
    ours = up_convert(memoryview(JAVA[source].data), ROOM, append_timestamp=appended_at)
    our_batch, their_batch = only(ours), only(bytes.fromhex(expected))
    varies = {"length_bytes": 0, "crc": 0, "data": b""}
    assert our_batch._replace(**varies) == their_batch._replace(**varies)
    payloads = [decompress(batch.compression, batch.payload, ROOM) for batch in (our_batch, their_batch)]
    assert payloads[0] == payloads[1]
    if our_batch.compression is Codec.NONE:
        assert ours.hex() == expected


@pytest.mark.parametrize(
    "fixture",
    [
        each
        for each in (*LIBRDKAFKA.values(), *KAFKA_PYTHON.values())
        if each.magic < 2 and each.name.endswith((".from0", ".long"))
    ],
    ids=name_of,
)
def test_sets_that_old_clients_produce_become_valid_batches(fixture: fixtures.Fixture):
    """The result is validated like a new client's batch, and contains the old client's records."""
    batch = batches.validate_produced(memoryview(up_convert(memoryview(fixture.data), ROOM)), ROOM)
    assert list(records.iterate(batch, ROOM)) == fixture.expected
    assert batch.compression is fixture.codec


def test_offsets_of_the_client_are_not_looked_at():
    """Old clients send arbitrary offsets: zeros, a count, or those of fetched messages."""
    made = [Record(offset, T, None, b"%d" % index) for index, offset in enumerate((900, 3, 3))]
    batch = only(up_convert(memoryview(legacy_batches.build(made, 1)), ROOM))
    assert [(r.offset, r.value) for r in records.iterate(batch, ROOM)] == [(0, b"0"), (1, b"1"), (2, b"2")]
    wrapped = [Record(offset, T, None, None) for offset in (900, 905, 910)]
    batch = only(up_convert(memoryview(legacy_batches.build(wrapped, 1, Codec.GZIP)), ROOM))
    assert [r.offset for r in records.iterate(batch, ROOM)] == [0, 1, 2]


PLAIN_0, PLAIN_1 = (legacy_batches.build([Record(0, T, None, b"v")], magic) for magic in (0, 1))
GZIP_1 = legacy_batches.build([Record(0, T, None, b"v")], 1, Codec.GZIP)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", InvalidRecord),
        (PLAIN_0 + PLAIN_1, InvalidRecord),
        (PLAIN_1 + GZIP_1, InvalidRecord),
        (GZIP_1 + PLAIN_1, InvalidRecord),
        (GZIP_1 + GZIP_1, InvalidRecord),
        (legacy_batches.build(MIXED, 1, append_timestamp=T), InvalidTimestamp),
        (legacy_batches.build(MIXED, 1, Codec.GZIP, append_timestamp=T), InvalidTimestamp),
        (legacy_batches.build([Record(0, -2, None, b"")], 1), InvalidTimestamp),
        (legacy_batches.build([Record(0, 2**63 - 1, None, b""), Record(1, -(2**63), None, b"")], 1), InvalidTimestamp),
        (PLAIN_1 + PLAIN_1[:-1], CorruptBatch),
        (PLAIN_1[:-1] + b"!", CorruptBatch),
        (JAVA["magic2.none.from0"].data, CorruptBatch),
    ],
    ids=[
        "nothing",
        "two magics",
        "plain, then compressed",
        "compressed, then plain",
        "compressed twice",
        "append time",
        "append time, compressed",
        "negative time",
        "times too far apart",
        "cut",
        "damaged",
        "magic 2",
    ],
)
def test_a_set_that_kafka_would_not_take_is_refused(data: bytes, error: type[Malformed]):
    """One batch must be able to represent the whole set."""
    with pytest.raises(error):
        up_convert(memoryview(data), ROOM)


def test_a_produced_wrapper_is_not_decompressed_beyond_the_limit():
    """The broker decompresses what old clients send, so this is where a bomb would go off."""
    data = legacy_batches.build([Record(0, T, None, bytes(5 * MIB))], 1, Codec.GZIP)
    with pytest.raises(TooLarge):
        up_convert(memoryview(data), MIB)


# Down


@pytest.mark.parametrize(
    ("name", "expected"), [line for line in fixtures.lines("java-conversions.hex") if line[0].startswith("down.")]
)
def test_stored_batches_become_what_kafka_sends_to_old_clients(name: str, expected: str):
    """Byte for byte, except for the compressors' output: without headers and control batches, with the same offsets."""
    stem, _, magic_text = name.removeprefix("down.").rpartition(".to")
    source, _, first_offset = stem.rpartition(".from")
    magic = int(magic_text)
    ours = down_convert(memoryview(STORED[source.removeprefix("magic2.")]), magic, int(first_offset), ROOM)
    theirs = bytes.fromhex(expected)
    our_messages, their_messages = (list(legacy_batches.messages(memoryview(each))) for each in (ours, theirs))
    if any(each.codec for each in their_messages):
        assert unwrapped(our_messages) == unwrapped(their_messages)
    else:
        assert ours.hex() == expected


def unwrapped(found: list[legacy_batches.Message]) -> list[object]:
    """All of the wrappers but the compressor's choices, and the bytes inside."""
    return [
        (each._replace(value=None, size_bytes=0), decompress(each.codec, each.value, ROOM, broken_lz4=each.magic == 0))
        for each in found
    ]


@given(
    fixtures.records(offsets_step_max=3), st.sampled_from(OLD_CODECS), st.sampled_from([0, 1]), st.integers(0, 2**40)
)
def test_old_clients_find_every_record_they_asked_for(stored: list[Record], codec: Codec, magic: int, first: int):
    """Read by kafka-python. Nothing before the asked offset is sent where it can be left out."""
    data = down_convert(memoryview(batches.build(stored, codec)), magic, first, ROOM)
    wanted = stored if codec else [record for record in stored if record.offset >= first]
    expected = [r._replace(headers=(), timestamp=r.timestamp if magic else NO_TIMESTAMP) for r in wanted]
    assert kafka_python.read(data) == expected


@given(fixtures.records(with_headers=False), st.sampled_from(OLD_CODECS), st.sampled_from([0, 1]))
def test_up_and_down_again_gives_the_same_records(stored: list[Record], codec: Codec, magic: int):
    """An old producer and an old consumer see no difference."""
    counted = [record._replace(offset=index) for index, record in enumerate(stored)]
    produced = legacy_batches.build(counted, magic, codec)
    fetched = down_convert(memoryview(up_convert(memoryview(produced), ROOM)), magic, 0, ROOM)
    assert fetched == produced


def test_zstd_cannot_be_sent_to_an_old_client():
    """Kafka returns UNSUPPORTED_COMPRESSION_TYPE rather than recompress."""
    for magic in (0, 1):
        with pytest.raises(UnsupportedCompression):
            down_convert(memoryview(STORED["zstd.from1000"]), magic, 0, ROOM)


def test_a_stored_batch_is_not_decompressed_beyond_the_limit():
    """Stored records were not parsed on arrival, so they may be a decompression bomb."""
    data = batches.build([Record(0, T, None, bytes(5 * MIB))], Codec.LZ4)
    with pytest.raises(TooLarge):
        down_convert(memoryview(data), 1, 0, MIB)


def test_a_batch_of_log_append_time_keeps_its_time():
    """In magic 1; magic 0 knows none."""
    data = memoryview(STORED["gzip.append_time"])
    (wrapper,) = legacy_batches.messages(memoryview(down_convert(data, 1, 0, ROOM)))
    assert (wrapper.timestamp, wrapper.timestamp_type) == (APPENDED_AT, TimestampType.LOG_APPEND_TIME)


# Damage and limits


@pytest.mark.parametrize("fixture", [each for each in JAVA.values() if each.name.endswith(".from0")], ids=name_of)
def test_a_damaged_set_raises_nothing_but_malformed(fixture: fixtures.Fixture):
    """Whichever way it is converted."""
    damaged = bytearray(fixture.data)
    for at in range(0, len(damaged), 3):
        damaged[at] ^= 0xFF
        view = memoryview(bytes(damaged))
        if fixture.magic == 2:
            is_fine_or_malformed(down_convert, view, 1, 0, ROOM)
        else:
            is_fine_or_malformed(up_convert, view, ROOM)
        damaged[at] ^= 0xFF


@given(st.binary(max_size=150))
def test_any_bytes_are_converted_or_malformed(data: bytes):
    """No input raises any other exception."""
    is_fine_or_malformed(up_convert, memoryview(data), ROOM)
    is_fine_or_malformed(down_convert, memoryview(data), 0, 0, ROOM)


@pytest.mark.parametrize("magic", [0, 1])
def test_converting_up_stays_within_its_memory(magic: int):
    """16 times the input (and 1 MiB, of which nothing is used here), at the worst: the shortest messages there are."""
    data = memoryview(legacy_batches.build([Record(i, T + i, None, None) for i in range(3_000)], magic))
    up_convert(data, ROOM)  # fills the cache of varints, which is no cost of this call
    assert peak_bytes(lambda: up_convert(data, ROOM)) < 16 * len(data)


@pytest.mark.parametrize("magic", [0, 1])
def test_converting_down_stays_within_its_memory(magic: int):
    """The same, with the shortest records there are, which grow fivefold."""
    data = memoryview(batches.build([Record(i, T, None, None) for i in range(3_000)]))
    assert peak_bytes(lambda: down_convert(data, magic, 0, ROOM)) < 16 * len(data)
