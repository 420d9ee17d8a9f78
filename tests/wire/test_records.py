"""Records of magic 2: literal bytes, other people's batches, damage, and the walk that a header cannot replace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire import batches, records
from chronik.wire.compression import Codec
from chronik.wire.errors import InvalidRecord, InvalidTimestamp, Malformed, TooLarge, Unencodable
from chronik.wire.records import NO_TIMESTAMP, ControlType, Record, TimestampType
from chronik.wire.varints import encode_varint
from tests.wire import kafka_python
from tests.wire import record_fixtures as fixtures
from tests.wire.record_fixtures import JAVA, MIXED, ROOM, T, is_fine_or_malformed, name_of, peak_bytes, with_crc

MIB = 1 << 20
HEADER = JAVA["magic2.none.from0"].data[:61]


def batch_of(payload: bytes, count: int, attributes: int = 0, base_offset: int = 0) -> batches.BatchView:
    """A batch around record bytes that the test wrote itself."""
    header = bytearray(HEADER)
    header[0:8] = base_offset.to_bytes(8, "big")
    header[8:12] = (49 + len(payload)).to_bytes(4, "big")
    header[21:23] = attributes.to_bytes(2, "big")
    header[23:27] = (max(count, 1) - 1).to_bytes(4, "big")
    header[57:61] = count.to_bytes(4, "big", signed=True)
    (batch,) = batches.split(memoryview(with_crc(bytes(header) + payload)))
    return batch


# length, attributes, timestamp delta, offset delta, key, value, header count and headers; the base timestamp is T
LITERAL = [
    ("0c 00 00 00 01 01 00", Record(0, T, None, None)),
    ("0c 00 00 00 00 00 00", Record(0, T, b"", b"")),
    ("12 00 0a 04 02 6b 04 7677 00", Record(2, T + 5, b"k", b"vw")),
    ("10 00 01 03 01 04 7677 00", Record(-2, T - 1, None, b"vw")),
    ("10 00 80a80f 00 01 00 00", Record(0, T + 125_440, None, b"")),
    (
        "20 00 00 00 01 01 06 02 61 02 62 00 01 04 c3a4 00",
        Record(0, T, None, None, (("a", b"b"), ("", None), ("ä", b""))),
    ),
    ("14 00 00 00 01 01 02 04 ff61 01", Record(0, T, None, None, (("\udcffa", None),))),
    ("9201 00 00 00 01 8401" + "41" * 66 + "00", Record(0, T, None, b"A" * 66)),
]


@pytest.mark.parametrize(("hexed", "record"), LITERAL)
def test_a_record_has_these_bytes(hexed: str, record: Record):
    """Laid out by the format's description: nulls, empties, negative deltas, headers, long varints."""
    payload = bytes.fromhex(hexed)
    assert list(records.iterate(batch_of(payload, 1), ROOM)) == [record]
    if record.offset >= 0:
        assert records.encode([record], 0, T) == payload


@pytest.mark.parametrize("fixture", [each for each in fixtures.ALL if each.magic == 2], ids=name_of)
def test_our_reader_and_kafka_pythons_agree(fixture: fixtures.Fixture):
    """On every batch of every client, control and compacted ones included."""
    assert fixtures.read(fixture.data, 2) == kafka_python.read(fixture.data)


@given(fixtures.records(offsets_step_max=200))
def test_any_records_are_read_back(given_records: list[Record]):
    """Round trip of the records' section alone."""
    base = given_records[0]
    payload = records.encode(given_records, base.offset, base.timestamp)
    made = batches.build(given_records)
    assert made[61:] == payload
    (batch,) = batches.split(memoryview(made))
    assert list(records.iterate(batch, ROOM)) == given_records


def test_with_log_append_time_every_record_has_the_time_of_the_append():
    """The producers' own times are still in the deltas, and must not show."""
    (batch,) = batches.split(memoryview(JAVA["magic2.none.append_time"].data))
    assert {record.timestamp for record in records.iterate(batch, ROOM)} == {fixtures.APPENDED_AT}


def test_a_delete_horizon_does_not_change_the_times_of_records():
    """Deltas are then relative to the horizon, which replaces the base timestamp."""
    (batch,) = batches.split(memoryview(JAVA["magic2.delete_horizon"].data))
    assert batch.has_delete_horizon
    assert batch.base_timestamp == T + 86_400_000
    assert list(records.iterate(batch, ROOM)) == [Record(1001, T + 5, b"a", b"1"), Record(1003, T + 9, b"b", None)]


def test_a_header_key_that_is_not_utf_8_is_written_again_as_it_was():
    """A broker that compacts must not repair its users' bytes."""
    payload = bytes.fromhex("14 00 00 00 01 01 02 04 ff61 01")
    (record,) = records.iterate(batch_of(payload, 1), ROOM)
    assert records.encode([record], 0, T) == payload


def test_a_header_key_that_no_bytes_stand_for_is_unencodable():
    """Half a surrogate pair is a Python string, but no text."""
    with pytest.raises(Unencodable):
        records.encode([Record(0, T, None, None, (("\ud800", None),))], 0, T)


@pytest.mark.parametrize("offset", [-1, 2**31])
def test_an_offset_too_far_from_its_base_is_unencodable(offset: int):
    """The delta has 31 bits, and the base is the lowest."""
    with pytest.raises(Unencodable):
        records.encode([Record(offset, T, None, None)], 0, T)


# Damage


@pytest.mark.parametrize(
    ("hexed", "count"),
    [
        ("", 1),  # nothing there
        ("0c 00 00 00 01 01 00", 2),  # one too few
        ("0c 00 00 00 01 01 00", 0),  # one too many
        ("0c 00 00 00 01 01 00", -1),
        ("0c 00 00 00 01 01 00 00", 1),  # a byte left over
        ("0e 00 00 00 01 01 00 00", 1),  # a byte left over inside the record
        ("0a 00 00 00 01 01 00", 1),  # length one short
        ("0b 00 00 00 01 01 00", 1),  # length negative
        ("fe ff ff ff 0f 00 00 00", 1),  # length huge
        ("ff ff ff ff ff ff ff 00", 1),  # a varint without end
        ("0c 00 00 00 7e 01 00", 1),  # key longer than the record
        ("0c 00 00 00 01 7e 00", 1),  # value longer than the record
        ("0e 00 00 00 01 01 02 00", 1),  # a header without value
        ("0e 00 00 00 01 01 01 00", 1),  # header count negative
        ("10 00 00 00 01 01 02 01 00", 1),  # header key null
        ("10 00 00 00 01 01 02 06 00", 1),  # header key longer than the record
        ("10 00 00 00 01 01 02 00 06", 1),  # header value longer than the record
        ("10 00 00 00 01 01 7e 00 00", 1),  # more headers than bytes
        ("1e 00 ffffffffffffffffff7f 00 01 00 00", 1),  # timestamp delta of 65 bits and more
        ("14 00 00 ffffffff7f 01 00 00", 1),  # offset delta of 33 bits and more
    ],
)
def test_a_broken_record_is_invalid(hexed: str, count: int):
    """Each breaks one rule; none may be read as something else."""
    with pytest.raises(InvalidRecord):
        list(records.iterate(batch_of(bytes.fromhex(hexed), count), ROOM))


def test_a_record_that_goes_on_after_the_batch_is_never_given_out():
    """Its last header lacks two of four bytes; a reader that truncated it would return a record that no client sent."""
    payload = bytes.fromhex("18 00 00 00 01 01 02 00 08 6162")
    with pytest.raises(InvalidRecord):
        next(records.iterate(batch_of(payload, 1), ROOM))


@pytest.mark.parametrize(
    ("base_timestamp", "delta"),
    [(2**63 - 1, 1), (-(2**63), -1), (2**63 - 8000, 8191), (2**62, 2**62), (T, 2**63 - 1), (-2, -(2**63))],
)
def test_a_time_beyond_64_bits_is_invalid(base_timestamp: int, delta: int):
    """It could be read but never written again, so a conversion of a client's data would fail."""
    body = b"\x00" + encode_varint(delta) + bytes.fromhex("00 01 01 00")
    data = bytearray(batch_of(encode_varint(len(body)) + body, 1).data)
    data[27:35] = base_timestamp.to_bytes(8, "big", signed=True)
    (batch,) = batches.split(memoryview(data))
    with pytest.raises(InvalidRecord, match="64 bits"):
        list(records.iterate(batch, ROOM))
    data[27:35] = (0).to_bytes(8, "big")
    (batch,) = batches.split(memoryview(data))
    assert [record.timestamp for record in records.iterate(batch, ROOM)] == [delta]


@pytest.mark.parametrize("base_offset", [2**63 - 2**31 + 1, -(2**63)])
def test_an_offset_beyond_64_bits_is_invalid(base_offset: int):
    """No log gets that far; a header that says so is wrong."""
    data = bytearray(JAVA["magic2.none.from0"].data)
    data[0:8] = base_offset.to_bytes(8, "big", signed=True)
    (batch,) = batches.split(memoryview(data))
    with pytest.raises(InvalidRecord, match="base offset"):
        list(records.iterate(batch, ROOM))


@pytest.mark.parametrize("negative", ["01", "03", "7f", "ff01"])
def test_any_negative_length_of_key_or_value_is_null(negative: str):
    """As Kafka's reader has it."""
    length = 2 * (4 + 2 * len(bytes.fromhex(negative)))
    payload = bytes([length]) + bytes.fromhex("00 00 00" + negative + negative + "00")
    assert list(records.iterate(batch_of(payload, 1), ROOM)) == [Record(0, T, None, None)]


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_damage_inside_a_batch_raises_nothing_but_malformed(codec: str):
    """Each byte of the records changed in several ways, the checksum put right again."""
    data = bytearray(JAVA[f"magic2.{codec}.from0"].data)
    for at in range(61, len(data)):
        for change in (0x01, 0x80, 0xFF):
            data[at] ^= change
            (batch,) = batches.split(memoryview(data))
            is_fine_or_malformed(lambda batch: list(records.iterate(batch, ROOM)), batch)
            data[at] ^= change


@given(st.binary(max_size=120), st.integers(-1, 20), st.integers(0, 4))
def test_any_bytes_are_records_or_malformed(payload: bytes, count: int, codec: int):
    """No input raises any other exception."""
    is_fine_or_malformed(lambda: list(records.iterate(batch_of(payload, count, codec), ROOM)))


@given(fixtures.records(), st.data())
def test_a_cut_or_longer_payload_is_invalid(given_records: list[Record], data: st.DataObject):
    """The number of records is known, so every cut shows, and so does every byte too many."""
    payload = batches.build(given_records)[61:]
    cut = payload[: data.draw(st.integers(0, len(payload) - 1))]
    longer = payload + data.draw(st.binary(min_size=1, max_size=5))
    for wrong in (cut, longer):
        with pytest.raises(Malformed):
            list(records.iterate(batch_of(wrong, len(given_records)), ROOM))


# Limits


def test_a_batch_is_not_decompressed_beyond_the_limit():
    """Whatever it claims."""
    (batch,) = batches.split(memoryview(JAVA["magic2.zstd.long"].data))
    with pytest.raises(TooLarge):
        list(records.iterate(batch, 70_000))
    assert len(list(records.iterate(batch, 71_000))) == 1


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (bytes.fromhex("0c000000010100") * 5_000, 5_000),
        (records.encode([Record(0, T, None, None, (("", None),) * 30_000)], 0, T), 1),
        (records.encode([Record(0, T, None, None, (("\udcff\udcfe", b"ab"),) * 30_000)], 0, T), 1),
        (records.encode([Record(0, T, None, None, (("\U0001f600" * 4, b"ab" * 5),) * 10_000)], 0, T), 1),
        (records.encode([Record(0, T, None, bytes(MIB))], 0, T), 1),
    ],
    ids=["tiny records", "tiny headers", "escaped headers", "wide headers", "one large value"],
)
def test_reading_stays_within_its_memory(payload: bytes, count: int):
    """16 times the input and 1 MiB, whatever the shape; a caller that keeps all records decides so itself."""
    batch = batch_of(payload, count)

    def read() -> None:
        for _ in records.iterate(batch, 16 * MIB):
            pass

    assert peak_bytes(lambda: is_fine_or_malformed(read)) < 16 * len(payload) + MIB


def test_thousands_of_headers_of_ordinary_size_are_read():
    """The memory limit must not exclude anything that real clients write."""
    record = Record(0, T, None, None, tuple((f"header-number-{i}", b"with a value") for i in range(20_000)))
    (batch,) = batches.split(memoryview(batches.build([record])))
    assert list(records.iterate(batch, ROOM)) == [record]


# A topic's requirements for records


def test_a_compacted_topic_names_the_records_without_key():
    """The producer learns which of its records to blame."""
    (batch,) = batches.split(
        memoryview(batches.build([r._replace(key=None) if r.offset in (1, 3) else r for r in MIXED]))
    )
    records.verify(batch, ROOM)
    with pytest.raises(InvalidRecord) as raised:
        records.verify(batch, ROOM, keys_required=True)
    assert not isinstance(raised.value, InvalidTimestamp)
    assert [index for index, _ in raised.value.record_errors] == [1, 3]


def test_times_outside_the_topics_bounds_are_named():
    """A record without a timestamp is never outside."""
    (batch,) = batches.split(memoryview(batches.build([*MIXED, Record(5, NO_TIMESTAMP, b"", b"")])))
    records.verify(batch, ROOM, timestamp_ms_min=T, timestamp_ms_max=T + 70_000)
    with pytest.raises(InvalidTimestamp) as raised:
        records.verify(batch, ROOM, timestamp_ms_min=T + 3, timestamp_ms_max=T + 69_999)
    assert [index for index, _ in raised.value.record_errors] == [0, 2, 4]


def test_offsets_that_do_not_count_up_are_refused():
    """Two records of a partition must never get one offset."""
    for offsets in ([0, 2], [0, 0], [1, 2]):
        made = [Record(offset, T, b"", b"") for offset in offsets]
        (batch,) = batches.split(memoryview(batches.build(made, base_offset=0)))
        with pytest.raises(InvalidRecord, match="is due"):
            records.verify(batch, ROOM)


def test_an_answer_names_at_most_a_hundred_records():
    """A batch of a hundred thousand bad records must not make an answer of ten megabytes."""
    (batch,) = batches.split(memoryview(batches.build([Record(i, T, None, b"") for i in range(1000)])))
    with pytest.raises(InvalidRecord, match="1000 of 1000") as raised:
        records.verify(batch, ROOM, keys_required=True)
    assert len(raised.value.record_errors) == 100


# Control records


@pytest.mark.parametrize(
    ("name", "expected"),
    [("commit", ControlType.COMMIT), ("abort", ControlType.ABORT), ("leader_change", ControlType.LEADER_CHANGE)],
)
def test_control_records_of_kafka_are_understood(name: str, expected: ControlType):
    """Written by Kafka's own classes."""
    (batch,) = batches.split(memoryview(JAVA[f"magic2.{name}"].data))
    assert batch.is_control
    (record,) = records.iterate(batch, ROOM)
    assert records.control_type(record) is expected
    if name != "leader_change":
        assert records.coordinator_epoch(record) == 9


@pytest.mark.parametrize(("name", "outcome"), [("commit", ControlType.COMMIT), ("abort", ControlType.ABORT)])
def test_a_marker_is_written_as_kafka_writes_it(name: str, outcome: ControlType):
    """Old consumers need these bytes to skip aborted records."""
    (theirs,) = batches.split(memoryview(JAVA[f"magic2.{name}"].data))
    ours = batches.build(
        [records.marker(theirs.base_offset, T, outcome, 9)],
        leader_epoch=5,
        producer_id=4_000_000_001,
        producer_epoch=3,
        is_transactional=True,
        is_control=True,
    )
    assert ours == JAVA[f"magic2.{name}"].data


@pytest.mark.parametrize(
    ("key", "expected"),
    [("0000 0063", ControlType.UNKNOWN), ("0005 0001", ControlType.COMMIT), ("0000 0000 ffff", ControlType.ABORT)],
)
def test_newer_control_records_are_read_as_far_as_they_are_known(key: str, expected: ControlType):
    """A later version only adds to the key; a type that we do not know is skipped, not an error."""
    assert records.control_type(Record(0, T, bytes.fromhex(key), None)) is expected


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", bytes.fromhex("ffff0000")])
def test_a_control_record_without_a_proper_key_is_invalid(key: bytes | None):
    """Three bytes are not a version and a type, and versions start at 0."""
    with pytest.raises(InvalidRecord):
        records.control_type(Record(0, T, key, b""))


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x00\x00", bytes.fromhex("ffff00000000")])
def test_a_marker_without_a_proper_value_is_invalid(value: bytes | None):
    """The epoch fences old coordinators; it must not be made up."""
    with pytest.raises(InvalidRecord):
        records.coordinator_epoch(Record(0, T, b"\x00\x00\x00\x01", value))


def test_timestamp_types_have_kafkas_numbers():
    """They appear in configuration answers and in attributes."""
    assert (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME) == (0, 1)


@given(
    stamps=st.lists(st.integers(-1, 2**40), min_size=1, max_size=30),
    base_ms=st.integers(0, 2**40),
    codec=st.sampled_from(list(Codec)),
)
def test_the_range_of_timestamps_is_that_of_the_records(stamps: list[int], base_ms: int, codec: Codec) -> None:
    """Retention deletes by it, and reads only two fields of each record to find it."""
    made = [Record(index, stamp, None, b"v" * (stamp % 200)) for index, stamp in enumerate(stamps)]
    batch = batches.split(memoryview(batches.build(made, codec, base_timestamp=base_ms, max_timestamp=7)))[0]
    assert records.timestamp_range(batch, 1 << 20) == (min(stamps), max(stamps))
