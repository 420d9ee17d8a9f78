"""Whole batches into Arrow, against the reader that goes record by record."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.pipeline import decode as decoding
from chronik.pipeline.columns import COLUMNS, COLUMNS_WITH_HEADERS, arrow_schema
from chronik.pipeline.decode import Aborted, decode_batches
from chronik.pipeline.errors import PipelineError
from chronik.wire import records as record_codec
from chronik.wire.batches import build, patch, split
from chronik.wire.checksums import crc32c
from chronik.wire.compression import Codec
from chronik.wire.errors import Malformed
from chronik.wire.records import ControlType, Record, TimestampType, marker
from chronik.wire.varints import INT64_MAX
from tests.wire.record_fixtures import ORDINARY, Fixture, name_of

ANYWHERE = -(2**40)  # damaged offsets may be negative, and rows outside the range are not looked at
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[Any, ...]


def rows_of(data: bytes, *, columns: Sequence[str] = COLUMNS_WITH_HEADERS, **asked: Any) -> list[Row]:
    tables = list(decode_batches(data, topic="orders", partition=3, columns=columns, **asked))
    for table in tables:
        assert table.schema.equals(arrow_schema(columns))
        table.validate(full=True)
        assert 0 < table.num_rows <= decoding.ROWS_MAX
    return [tuple(row[name] for name in columns) for table in tables for row in table.to_pylist()]


def rows_by_twin(
    data: bytes, start_offset: int = 0, end_offset: int = INT64_MAX, aborted_producers: Iterable[int] = ()
) -> list[Row]:
    """The same rows from `wire.records`. Producers named here have all their transactional batches left out."""
    rows: list[Row] = []
    for batch in split(memoryview(data), cut_tail=True):
        if batch.is_control or (batch.is_transactional and batch.producer_id in aborted_producers):
            continue
        found = record_codec.iterate(batch, 1 << 30)
        kind = int(batch.timestamp_type)
        rows += [row_of(record, kind) for record in found if start_offset <= record.offset < end_offset]
    return rows


def row_of(record: Record, timestamp_type: int = 0) -> Row:
    at = EPOCH + timedelta(milliseconds=record.timestamp)
    headers = [
        {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
        for key, value in record.headers
    ]
    return (record.key, record.value, "orders", 3, record.offset, at, timestamp_type, headers or None)


def some(count: int, first: int = 0, value: Callable[[int], bytes | None] = lambda i: b"v%d" % i) -> list[Record]:
    return [Record(first + i, 1_700_000_000_000 + i, b"k%d" % i, value(i)) for i in range(count)]


def test_literal_bytes_become_the_row_that_they_say() -> None:
    """A table of literal bytes: were writer and reader wrong in the same way, only this would tell."""
    # Lengths by hand: 1 attributes, 1 + 1 deltas, 2 key, 3 value, 1 count, 2 header key, 2 header value = 13.
    first = bytes.fromhex("1a 00 00 00 026b 047676 02 0268 0278")
    second = bytes.fromhex("0c 00 02 02 01 01 00")  # 1 ms and 1 offset later, key and value null
    # Attributes, last offset delta, base timestamp, largest timestamp, no producer, two records.
    fields = bytes.fromhex("0000 00000001 0000018bcfe56800 0000018bcfe56801 ffffffffffffffff ffff ffffffff 00000002")
    covered = fields + first + second
    data = (
        (100).to_bytes(8, "big")
        + (9 + len(covered)).to_bytes(4, "big")
        + bytes.fromhex("00000000 02")
        + crc32c(covered).to_bytes(4, "big")
        + covered
    )
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert rows_of(data) == [
        (b"k", b"vv", "orders", 3, 100, at, 0, [{"key": "h", "value": b"x"}]),
        (None, None, "orders", 3, 101, at + timedelta(milliseconds=1), 0, None),
    ]


@pytest.mark.parametrize("fixture", [each for each in ORDINARY if each.magic == 2], ids=name_of)
def test_what_other_peoples_software_wrote_is_read_as_they_meant_it(fixture: Fixture) -> None:
    """Batches of Java's client, librdkafka and others, every codec: not one byte of them was written by us."""
    kind = int(fixture.name.endswith("append_time"))
    assert rows_of(fixture.data) == [row_of(record, kind) for record in fixture.expected]


KEYS = st.none() | st.binary(max_size=8)
VALUES = st.none() | st.binary(max_size=80) | st.integers(100, 20_000).map(lambda size: b"x" * size)
HEADERS = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=4).map(tuple)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Consecutive batches as in a partition: gaps, every codec, both kinds of time, markers between them."""
    offset = draw(st.sampled_from([0, 7, 2**31, 2**40]))
    found = []
    for _ in range(draw(st.integers(1, 5))):
        offset += draw(st.sampled_from([0, 0, 1, 1000]))
        if draw(st.integers(0, 5)) == 0:
            found.append(build([marker(offset, 0, ControlType.COMMIT, 0)], is_control=True, producer_id=5))
            offset += 1
            continue
        records = []
        base = offset
        for _ in range(draw(st.integers(1, 12))):
            timestamp = draw(st.sampled_from([0, 1_700_000_000_000, -1]) | st.integers(0, 2**41))
            records.append(Record(offset, timestamp, draw(KEYS), draw(VALUES), draw(HEADERS)))
            offset += draw(st.sampled_from([1, 1, 1, 2, 200]))
        kind = draw(st.sampled_from(TimestampType))
        codec = draw(st.sampled_from(Codec))
        found.append(build(records, codec, base_offset=base, last_offset=offset - 1, timestamp_type=kind))
    return b"".join(found)


@given(logs(), st.data())
def test_it_agrees_with_the_reader_of_single_records(data: bytes, draw: st.DataObject) -> None:
    """Two readers that share no code for records: it is unlikely that both have the same bug."""
    every = rows_by_twin(data)
    assert rows_of(data) == every
    assert rows_of(data, columns=COLUMNS) == [row[:-1] for row in every]
    offsets = [row[4] for row in every]
    if offsets:
        start = draw.draw(st.integers(offsets[0] - 1, offsets[-1] + 1))
        end = draw.draw(st.integers(start, offsets[-1] + 2))
        assert rows_of(data, start_offset=start, end_offset=end) == rows_by_twin(data, start, end)


@given(logs())
def test_many_batches_are_decoded_as_each_of_them_alone(data: bytes) -> None:
    """Groups exist for speed; where one ends must not show."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decoding, "ROWS_MAX", 3)
        assert rows_of(data) == rows_by_twin(data)


def test_rows_come_in_tables_of_bounded_size() -> None:
    """A worker's memory must not grow with the topic, nor with one batch of very many tiny records."""
    count = 2 * decoding.ROWS_MAX + 10
    data = build([Record(i, 0, None, b"") for i in range(count)], Codec.ZSTD)
    sizes = [table.num_rows for table in decode_batches(data, topic="t", partition=0)]
    assert sizes == [decoding.ROWS_MAX, decoding.ROWS_MAX, 10]
    large = b"".join(build(some(1, first=i, value=lambda _: bytes(1 << 20))) for i in range(40))
    assert [table.num_rows for table in decode_batches(large, topic="t", partition=0)] == [16, 16, 8]


def test_a_batch_cut_short_at_the_end_is_left_out_whatever_its_length() -> None:
    """A fetch answers a number of bytes, not of batches."""
    whole, cut = build(some(3)), build(some(3, first=3))
    for size in (1, 12, 60, 61, len(cut) - 1):
        assert rows_of(whole + cut[:size]) == rows_by_twin(whole)


def test_records_of_aborted_transactions_are_not_shown() -> None:
    """Producer 1 aborts, then commits; producer 2 commits in between; records outside transactions stay."""

    def batch(first: int, producer_id: int, *, in_transaction: bool = True) -> bytes:
        return build(some(2, first), producer_id=producer_id, base_sequence=0, is_transactional=in_transaction)

    def end(offset: int, producer_id: int, outcome: ControlType) -> bytes:
        return build([marker(offset, 0, outcome, 0)], is_control=True, is_transactional=True, producer_id=producer_id)

    data = b"".join(
        [
            batch(0, 1),
            batch(2, 2),
            batch(4, 1, in_transaction=False),
            end(6, 1, ControlType.ABORT),
            end(7, 2, ControlType.COMMIT),
            batch(8, 1),
            end(10, 1, ControlType.COMMIT),
        ]
    )
    seen = rows_of(data, aborted=[Aborted(0, 1)], columns=["offset"])
    assert [offset for (offset,) in seen] == [2, 3, 4, 5, 8, 9]
    # A response for uncommitted records lists no aborted transactions.
    assert len(rows_of(data, columns=["offset"])) == 8
    later = data[len(batch(0, 1)) :]  # a fetch that starts inside the transaction lists it too
    assert [offset for (offset,) in rows_of(later, aborted=[Aborted(0, 1)], columns=["offset"])] == [2, 3, 4, 5, 8, 9]


def test_a_header_key_that_is_no_text_gets_replacement_characters() -> None:
    """A column of strings must be UTF-8 for Spark; one bad producer must not stop the query."""
    data = build([Record(0, 0, None, None, (("\udcff", b"1"), ("ok", None)))])
    assert rows_of(data, columns=["headers"]) == [
        ([{"key": "\N{REPLACEMENT CHARACTER}", "value": b"1"}, {"key": "ok", "value": None}],)
    ]


def test_a_time_that_microseconds_cannot_hold_is_refused_by_name_and_can_be_left_out() -> None:
    """A wrapped-around time would be a wrong one, and a poison record must have a way around it."""
    data = build([*some(2), Record(2, INT64_MAX // 1000 + 1, None, b"poison")])
    with pytest.raises(PipelineError) as refused:
        rows_of(data)
    assert refused.value == PipelineError(
        "TIMESTAMP_OUT_OF_RANGE", topic="orders", partition=3, offset=2, timestamp_ms=INT64_MAX // 1000 + 1
    )
    assert rows_of(data, columns=["value"])[-1] == (b"poison",)
    wrapped = build([Record(0, INT64_MAX, None, None), Record(1, INT64_MAX - 1, None, None)], base_timestamp=INT64_MAX)
    with pytest.raises(PipelineError, match="TIMESTAMP_OUT_OF_RANGE"):
        rows_of(wrapped)


def test_every_range_inside_a_batch_is_cut_exactly() -> None:
    """Tasks begin and end inside batches; one record too many or too few would be doubled or lost."""
    data = build(some(5, first=10))
    for start in range(9, 16):
        for end in range(start, 17):
            found = rows_of(data, columns=["offset"], start_offset=start, end_offset=end)
            assert found == [(offset,) for offset in range(max(start, 10), min(end, 15))]


def with_byte(data: bytes, at: int, byte: int) -> bytes:
    changed = bytearray(data)
    changed[at] = byte
    changed[17:21] = crc32c(changed[21:]).to_bytes(4, "big")
    return bytes(changed)


def test_lengths_that_lie_are_refused_though_the_next_record_is_found() -> None:
    """A record is length, attributes, two deltas, key, value, header count; the chain of lengths proves none."""
    data = build([Record(i, 0, None, b"aaaa") for i in range(2)])
    assert data[61:67] == bytes.fromhex("14 00 00 00 01 08")
    for at, byte, why in ((61, 0x15, "negative"), (66, 0x0A, "headers"), (66, 0x06, "headers"), (65, 0x02, "")):
        with pytest.raises(PipelineError, match=rf"UNREADABLE_BATCH.*{why}"):
            rows_of(with_byte(data, at, byte), columns=["value"])


def test_a_wrong_checksum_is_refused_with_the_batch_named() -> None:
    """One check per batch is the only protection against a wrong row because of a flipped bit on disk."""
    data = bytearray(build(some(3)) + build(some(3, first=3)))
    data[-2] ^= 1  # of a value: everything else in the batch is right
    with pytest.raises(PipelineError) as refused:
        rows_of(bytes(data))
    assert refused.value.condition == "UNREADABLE_BATCH"
    assert refused.value.parameters["offset"] == 3


@pytest.mark.parametrize("seed", range(4))
def test_damaged_records_with_a_right_checksum_are_refused_exactly_when_the_twin_refuses(seed: int) -> None:
    """A client may compute a valid checksum of invalid data: no wrong row, no crash, and a helpful error."""
    chance = random.Random(seed)
    refused_count = 0
    for _ in range(400):
        headers = (("h", b"1"), ("i", None)) if chance.random() < 0.5 else ()
        records = [each._replace(headers=headers) for each in some(5, value=lambda i: bytes(chance.choice([1, 70])))]
        data = bytearray(build(records))
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(61, len(data))] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
        try:
            expected = rows_by_twin(bytes(data), ANYWHERE)
        except (Malformed, OverflowError):
            refused_count += 1
            with pytest.raises(PipelineError, match=r"UNREADABLE_BATCH|TIMESTAMP_OUT_OF_RANGE"):
                rows_of(bytes(data), start_offset=ANYWHERE)
        else:
            assert rows_of(bytes(data), start_offset=ANYWHERE) == expected
    assert 50 < refused_count < 350


def test_no_prefix_of_the_records_passes_for_the_whole() -> None:
    """A batch whose header is right and whose records are cut anywhere is refused, compressed or not."""
    whole = build([each._replace(headers=(("h", b"1"),)) for each in some(3)])
    for size in range(61, len(whole)):
        cut = bytearray(whole[:size])
        cut[8:12] = (size - 12).to_bytes(4, "big")
        cut[17:21] = crc32c(cut[21:]).to_bytes(4, "big")
        with pytest.raises(PipelineError, match="UNREADABLE_BATCH"):
            rows_of(bytes(cut))


def test_a_batch_of_an_old_magic_is_refused_in_words() -> None:
    """No broker of today writes them; one that does must not end in a stack trace of numpy's."""
    data = bytearray(build(some(1)))
    data[16] = 1
    with pytest.raises(PipelineError, match="magic is 1"):
        rows_of(bytes(data))


def test_an_unknown_column_is_refused_with_the_nearest_name() -> None:
    """Column pruning is by the names that the user writes."""
    with pytest.raises(PipelineError) as refused:
        rows_of(b"", columns=["vaule"])
    assert refused.value.condition == "UNKNOWN_COLUMN"
    assert "did you mean 'value'" in str(refused.value)


def test_patched_offsets_count() -> None:
    """Base offsets are the broker's: they are not covered by the checksum, and are all that says where records are."""
    data = bytearray(build(some(2)))
    patch(data, 0, 5_000_000_000, 7)
    assert [row[4] for row in rows_of(bytes(data))] == [5_000_000_000, 5_000_000_001]
