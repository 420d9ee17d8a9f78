"""Record batches of magic 2: header, checks, patches, writing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire import batches, legacy_batches
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import CorruptBatch, InvalidRecord, Malformed, TooLarge, Unencodable
from chronik.wire.records import NO_TIMESTAMP, Record, TimestampType, iterate, verify
from tests.wire import kafka_python
from tests.wire import record_fixtures as fixtures
from tests.wire.jvm import run_java
from tests.wire.record_fixtures import APPENDED_AT, JAVA, MIXED, ROOM, T, name_of, with_crc

MAGIC_2 = [each for each in fixtures.ALL if each.magic == 2]
ORDINARY = [each for each in fixtures.ORDINARY if each.magic == 2]
PRODUCED = [each for each in MAGIC_2 if each.name.endswith((".from0", ".long", "idempotent", "transactional"))]
BATCH_BYTES_MAX = 1_048_588  # Kafka's default of max.message.bytes


def only(data: bytes) -> batches.BatchView:
    (batch,) = batches.split(memoryview(data))
    return batch


def rebuilt(batch: batches.BatchView) -> bytes:
    """The batch, encoded again from its decoded contents."""
    return batches.build(
        list(iterate(batch, ROOM)),
        batch.compression,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        timestamp_type=batch.timestamp_type,
        leader_epoch=batch.partition_leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        has_delete_horizon=batch.has_delete_horizon,
    )


# Reading and writing batches of other software


@pytest.mark.parametrize("fixture", ORDINARY, ids=name_of)
def test_batches_of_other_clients_hold_what_they_wrote(fixture: fixtures.Fixture):
    """Java, librdkafka and kafka-python with every codec: each client must be able to read the others' batches."""
    assert fixtures.read(fixture.data, 2) == fixture.expected
    assert only(fixture.data).compression is fixture.codec


@pytest.mark.parametrize(
    "fixture", [each for each in MAGIC_2 if ".none." in each.name or each.name.count(".") == 1], ids=name_of
)
def test_a_batch_without_compression_is_written_again_byte_for_byte(fixture: fixtures.Fixture):
    """Compaction rewrites batches; nothing but the dropped records may change."""
    batch = only(fixture.data)
    # Deltas keep their reference: with LogAppendTime the read timestamps are the append's, and cannot restore them.
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        records = [r._replace(offset=r.offset + 1000) for r in MIXED]
        assert batches.build(records, timestamp_type=batch.timestamp_type, max_timestamp=APPENDED_AT) == fixture.data
    else:
        assert rebuilt(batch) == fixture.data


@pytest.mark.parametrize("fixture", [each for each in ORDINARY if each.codec], ids=name_of)
def test_a_compressed_batch_written_again_holds_the_same(fixture: fixtures.Fixture):
    """Compressors differ in their bytes, but not in the decompressed data."""
    again = rebuilt(only(fixture.data))
    assert fixtures.read(again, 2) == fixture.expected


def test_a_header_is_read_field_by_field():
    """Literal bytes, so that two fields exchanged in both reader and writer show."""
    data = bytes.fromhex(
        "0000000000000005 00000031 00000007 02 00000000 0030 00000009 0000000000000bb8 0000000000000fa0"
        "00000000ee6b2801 0003 0000004d 00000000"
    )
    batch = only(data)
    assert batch[:-1] == (5, 49, 7, 2, 0, 0x30, 9, 3000, 4000, 4_000_000_001, 3, 77, 0)
    assert (batch.size_bytes, batch.last_offset, batch.next_offset) == (61, 14, 15)
    assert (batch.is_transactional, batch.is_control, batch.has_delete_horizon) == (True, True, False)
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert bytes(batch.data) == data
    assert bytes(batch.payload) == b""


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (0x0000, (Codec.NONE, TimestampType.CREATE_TIME, False, False, False)),
        (0x0001, (Codec.GZIP, TimestampType.CREATE_TIME, False, False, False)),
        (0x0004, (Codec.ZSTD, TimestampType.CREATE_TIME, False, False, False)),
        (0x000B, (Codec.LZ4, TimestampType.LOG_APPEND_TIME, False, False, False)),
        (0x0010, (Codec.NONE, TimestampType.CREATE_TIME, True, False, False)),
        (0x0020, (Codec.NONE, TimestampType.CREATE_TIME, False, True, False)),
        (0x0040, (Codec.NONE, TimestampType.CREATE_TIME, False, False, True)),
        (0x7F80, (Codec.NONE, TimestampType.CREATE_TIME, False, False, False)),
    ],
)
def test_attributes_are_read_bit_by_bit(attributes: int, expected: tuple[object, ...]):
    """Undefined bits must not change the meaning of the others."""
    data = bytearray(JAVA["magic2.empty"].data)
    data[21:23] = attributes.to_bytes(2, "big")
    batch = only(bytes(data))
    found = (
        batch.compression,
        batch.timestamp_type,
        batch.is_transactional,
        batch.is_control,
        batch.has_delete_horizon,
    )
    assert found == expected


def test_an_empty_batch_keeps_its_offsets_and_producer():
    """Compaction leaves such a batch when it removes the last record, so that the sequence is not lost."""
    batch = only(JAVA["magic2.empty"].data)
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (1000, 1004, 0)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4_000_000_001, 3, 77)
    assert list(iterate(batch, ROOM)) == []


@pytest.mark.parametrize("codec", Codec)
def test_an_empty_batch_is_read_whatever_codec_it_names(codec: Codec):
    """Others may keep the codec when they drop the last record; we do not write it."""
    data = bytearray(JAVA["magic2.empty"].data)
    data[22] |= codec
    assert list(iterate(only(bytes(data)), ROOM)) == []
    ours = only(batches.build([], codec, base_offset=1000, last_offset=1004))
    assert (ours.compression, ours.size_bytes, list(iterate(ours, ROOM))) == (Codec.NONE, 61, [])


def test_a_batch_without_records_needs_its_offsets_given():
    """There is nothing to take them from."""
    with pytest.raises(Unencodable):
        batches.build([])


def test_header_fields_that_do_not_fit_are_refused():
    """A caller's mistake must not surface as struct.error somewhere below."""
    with pytest.raises(Unencodable):
        batches.build(MIXED, producer_epoch=40_000)
    with pytest.raises(Unencodable):
        batches.build([Record(0, T, None, b""), Record(2**31, T, None, b"")])


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_by_another_codec_is_the_same_batch(codec: Codec):
    """A topic may require a certain codec; offsets, times, producer and records stay the client's."""
    records = [Record(n, T + n, b"key", b"value" * n, (("h", b"1"),)) for n in range(50)]
    kept = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11, "is_transactional": True, "leader_epoch": 5}
    for written in Codec:
        [before] = batches.split(memoryview(batches.build(records, written, **kept)))
        [after] = batches.split(memoryview(batches.recompressed(before, codec, None, ROOM)))
        assert batches.crc_holds(after)
        assert (after.compression, list(iterate(after, ROOM))) == (codec, records)
        same = {"length_bytes": 0, "crc": 0, "attributes": 0, "data": memoryview(b"")}
        assert after._replace(**same) == before._replace(**same)
        assert after.is_transactional
        with pytest.raises(TooLarge):
            batches.recompressed(before, codec, None, 100)


@given(fixtures.records(offsets_step_max=3), st.sampled_from(Codec))
def test_what_is_built_is_read_back(records: list[Record], codec: Codec):
    """For any records, with gaps between the offsets as compaction leaves them."""
    data = batches.build(records, codec)
    batch = only(data)
    assert batches.crc_holds(batch)
    assert list(iterate(batch, ROOM)) == records
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (
        records[0].offset,
        records[-1].offset,
        len(records),
    )


@given(fixtures.records(offsets_step_max=3), st.sampled_from(Codec))
def test_kafka_python_reads_our_batches_as_we_do(records: list[Record], codec: Codec):
    """A reader that shares no line with ours."""
    assert kafka_python.read(batches.build(records, codec)) == records


@pytest.mark.java
def test_the_java_client_reads_our_batches(java_sets: dict[str, tuple[bytes, list[Record]]]):
    """Every magic and codec, written by us and read by Kafka's own classes with all checksums verified."""
    sent = "".join(f"{name} {data.hex()}\n" for name, (data, _) in java_sets.items())
    expected = [as_java_prints(name, record) for name, (_, records) in java_sets.items() for record in records]
    assert run_java("ReadRecords.java", sent).splitlines() == expected


@pytest.fixture
def java_sets() -> dict[str, tuple[bytes, list[Record]]]:
    noise = [Record(i, T + i, None, bytes(b * 7 * i % 251 for b in range(3000))) for i in range(60)]
    sets = {}
    for name, records in (("mixed", MIXED), ("long", fixtures.LONG), ("noise", noise)):
        for codec in Codec:
            sets[f"2.{codec.name}.{name}"] = (batches.build(records, codec), records)
            for magic in (0, 1):
                if codec is not Codec.ZSTD:
                    plain = [
                        r._replace(headers=(), timestamp=r.timestamp if magic else NO_TIMESTAMP, offset=r.offset + 7)
                        for r in records
                    ]
                    sets[f"{magic}.{codec.name}.{name}"] = (legacy_batches.build(plain, magic, codec), plain)
    for codec, level in (
        (Codec.GZIP, 1),
        (Codec.GZIP, 9),
        (Codec.LZ4, 9),
        (Codec.LZ4, 17),
        (Codec.ZSTD, -5),
        (Codec.ZSTD, 19),
    ):
        sets[f"2.{codec.name}.level{level}"] = (batches.build(noise, codec, level=level), noise)
    return sets


def as_java_prints(name: str, record: Record) -> str:
    def hexed(data: bytes | None) -> str:
        return "-" if data is None else data.hex()

    headers = [f"{key.encode().hex()}={hexed(value)}" for key, value in record.headers]
    return " ".join([name, str(record.offset), str(record.timestamp), hexed(record.key), hexed(record.value), *headers])


# Checking what clients and leaders sent


@pytest.mark.parametrize("fixture", PRODUCED, ids=name_of)
def test_batches_that_clients_produce_are_accepted(fixture: fixtures.Fixture):
    """A rule too strict would shut out a real client."""
    batch = batches.validate_produced(memoryview(fixture.data), BATCH_BYTES_MAX)
    assert batch == only(fixture.data)
    verify(batch, ROOM)


# Where we differ from the broker that was asked, and why.
STRICTER = {
    "trailing_bytes": ErrorCode.INVALID_RECORD,  # it drops them and reports success
    "log_append_time": ErrorCode.INVALID_TIMESTAMP,  # it takes the type back and rewrites the batch
    "walk.offset_deltas_not_in_order": ErrorCode.INVALID_RECORD,  # it stores two records with one offset
}
NOT_OURS = {"transactional_bit_alone"}  # depends on the request, so the handler checks it
WALKED = {"walk.", "compacted."}


@pytest.mark.parametrize(("case", "code", "hexed"), fixtures.lines("kafka-verdicts.hex"))
def test_a_produced_batch_gets_the_answer_that_kafka_gives(case: str, code: str, hexed: str):
    """Each case breaks one rule; the expected codes are those of a real Kafka 4.3.1. Its -1 stands for an unexpected
    exception."""
    data = b"" if hexed == "-" else bytes.fromhex(hexed)
    if case == "too_large":
        data += bytes(1_100_000)
    expected = STRICTER.get(case, ErrorCode(int(code)))
    found = ErrorCode.NONE
    try:
        batch = batches.validate_produced(memoryview(data), BATCH_BYTES_MAX)
        if case.startswith(("walk.", "compacted.")):
            verify(batch, ROOM, keys_required=case.startswith("compacted."))
    except Malformed as error:
        found = error.kafka_error
    if expected is ErrorCode.UNKNOWN_SERVER_ERROR:
        assert found is not ErrorCode.NONE
    elif case not in NOT_OURS:
        assert found is expected


def test_the_largest_batch_allowed_is_accepted():
    """The limit is the last size that is allowed, not the first that is not."""
    data = memoryview(JAVA["magic2.none.from0"].data)
    assert batches.validate_produced(data, len(data)).size_bytes == len(data)
    with pytest.raises(TooLarge, match=r"max\.message\.bytes"):
        batches.validate_produced(data, len(data) - 1)


def test_more_records_than_the_bytes_can_hold_are_refused():
    """Code that allocates for `record_count` records must be able to trust it."""
    data = bytearray(JAVA["magic2.none.from0"].data)
    data[23:27] = (60).to_bytes(4, "big")
    data[57:61] = (61).to_bytes(4, "big")
    with pytest.raises(InvalidRecord, match="cannot fit"):
        batches.validate_produced(memoryview(with_crc(bytes(data))), BATCH_BYTES_MAX)


@pytest.mark.parametrize("fixture", PRODUCED, ids=name_of)
def test_a_produced_batch_with_any_byte_changed_is_refused(fixture: fixtures.Fixture):
    """The CRC covers all but 21 bytes; of those only the epoch, which the leader overwrites, may be anything."""
    data = bytearray(fixture.data)
    for at in fixtures.positions(fixture.data):
        data[at] ^= 0x41
        if at in range(12, 16):
            batches.validate_produced(memoryview(data), BATCH_BYTES_MAX)
        else:
            with pytest.raises(Malformed):
                batches.validate_produced(memoryview(data), BATCH_BYTES_MAX)
        data[at] ^= 0x41


@pytest.mark.parametrize("fixture", MAGIC_2, ids=name_of)
def test_every_prefix_of_a_batch_is_malformed(fixture: fixtures.Fixture):
    """A truncated batch is never accepted as a shorter one."""
    for end in fixtures.positions(fixture.data):
        view = memoryview(fixture.data)[:end]
        with pytest.raises(Malformed):
            batches.validate_produced(view, BATCH_BYTES_MAX)
        if end:
            with pytest.raises(CorruptBatch):
                batches.split(view)
        assert batches.split(view, cut_tail=True) == []


@given(st.binary(max_size=200) | st.binary(max_size=100).map(JAVA["magic2.none.from0"].data[:61].__add__))
def test_any_bytes_are_a_batch_or_malformed(data: bytes):
    """No input raises any other exception."""
    view = memoryview(data)
    fixtures.is_fine_or_malformed(batches.validate_produced, view, BATCH_BYTES_MAX)
    fixtures.is_fine_or_malformed(batches.validate_replicated, view, 0)
    fixtures.is_fine_or_malformed(batches.split, view)
    fixtures.is_fine_or_malformed(batches.split, view, cut_tail=True)


def test_batches_one_after_the_other_are_split():
    """A fetch answers many, and may cut the last one short."""
    first, second = JAVA["magic2.none.from1000"].data, JAVA["magic2.commit"].data
    both = memoryview(first + second)
    assert [bytes(batch.data) for batch in batches.split(both)] == [first, second]
    assert [bytes(batch.data) for batch in batches.split(both[:-1], cut_tail=True)] == [first]
    with pytest.raises(CorruptBatch):
        batches.split(both[:-1])


def test_a_codec_that_does_not_exist_is_found_before_anybody_asks_for_it():
    """`BatchView.compression` must not be able to fail."""
    data = bytearray(JAVA["magic2.empty"].data)
    data[22] = 5
    with pytest.raises(Malformed) as raised:
        batches.split(memoryview(data))
    assert raised.value.kafka_error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_follower_takes_batches_in_order_and_intact():
    """Offsets increase, gaps come from compaction, and damaged batches are never stored."""
    ordered = JAVA["magic2.none.from1000"].data + JAVA["magic2.commit"].data
    assert [b.base_offset for b in batches.validate_replicated(memoryview(ordered), 1000)] == [1000, 1005]
    assert [b.base_offset for b in batches.validate_replicated(memoryview(ordered[:-3]), 900)] == [1000]
    for bad in (
        JAVA["magic2.commit"].data + JAVA["magic2.none.from1000"].data,  # backwards
        ordered[:-1] + b"!",  # damaged
    ):
        with pytest.raises(CorruptBatch):
            batches.validate_replicated(memoryview(bad), 1000)
    with pytest.raises(CorruptBatch):
        batches.validate_replicated(memoryview(ordered), 1001)
    epoch = max(batch.partition_leader_epoch for batch in batches.split(memoryview(ordered)))
    batches.validate_replicated(memoryview(ordered), 1000, epoch)
    with pytest.raises(CorruptBatch, match="leader epoch"):
        batches.validate_replicated(memoryview(ordered), 1000, epoch - 1)


def test_splitting_stays_within_its_memory():
    """16 times the input (and 1 MiB, of which nothing is used here), at the worst: batches without records."""
    data = memoryview(JAVA["magic2.empty"].data * 2_000)
    assert fixtures.peak_bytes(lambda: batches.split(data)) < 16 * len(data)


# Patching


def test_offset_and_epoch_are_patched_without_touching_the_checksum():
    """The leader stamps each batch it appends, and cannot afford to compute the CRC again."""
    data = bytearray(b"before" + JAVA["magic2.none.from0"].data + b"after")
    batches.patch(data, 6, 1000, -1)
    assert bytes(data) == b"before" + JAVA["magic2.none.from1000"].data + b"after"
    batches.patch(data, 6, 2**62, 5)
    batch = only(bytes(data[6:-5]))
    assert (batch.base_offset, batch.partition_leader_epoch) == (2**62, 5)
    assert batches.crc_holds(batch)


def test_a_batch_that_cannot_be_written_to_is_stamped_with_a_new_head():
    """Request frames are immutable bytes; the log writes the header and the rest separately instead of copying the
    batch."""
    batch = only(JAVA["magic2.none.from0"].data)
    head, rest = batches.STAMP.pack(1000, batch.length_bytes, 9), batch.data[batches.STAMP_BYTES :]
    expected = bytearray(JAVA["magic2.none.from0"].data)
    batches.patch(expected, 0, 1000, 9)
    assert head + bytes(rest) == bytes(expected)


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_log_append_time_is_patched_as_the_java_client_writes_it(codec: str):
    """Type, largest timestamp and checksum; the compressed records stay as they are."""
    data = bytearray(b"before" + JAVA[f"magic2.{codec}.from1000"].data + b"after")
    batches.patch_append_time(data, 6, APPENDED_AT)
    assert bytes(data) == b"before" + JAVA[f"magic2.{codec}.append_time"].data + b"after"
