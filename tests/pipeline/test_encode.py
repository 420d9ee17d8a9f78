"""Columns of rows as records, compared with the encoder and the partitioner that take one record at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa

from chronik.client import partitioners
from chronik.client.batching import record_bytes
from chronik.pipeline.encode import BY_KEY, KEYLESS, Rows, encoded, murmur2, section, sizes_bytes
from chronik.pipeline.sink_options import SinkOptions
from chronik.pipeline.sink_rows import columns_of, gathered, rows_of
from chronik.wire import records
from chronik.wire.batches import build_encoded, split
from chronik.wire.compression import Codec
from chronik.wire.records import Record

NOW_MS = 1_700_000_000_000
LENGTHS = st.sampled_from([0, 1, 3, 4, 7, 57, 58, 63, 64, 65, 127, 128, 200, 9_000])  # around those of longer varints
TEXTS = st.none() | st.binary(max_size=12) | LENGTHS.map(lambda size: b"x" * size)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=150)
Pair = tuple[bytes | None, bytes | None]


def rows_with(pairs: Sequence[Pair], *, padding: int = 0) -> Rows:
    """As columns, which may be slices of longer ones."""
    extra = [b"-"] * padding
    columns = [pa.array([*extra, *column, *extra], pa.binary()) for column in zip(*pairs, strict=True)]
    keys, values = (column.slice(padding, len(pairs)) for column in columns)
    return Rows(None if keys.null_count == len(pairs) else keys, values)


@given(PAIRS, st.sampled_from([0, 2]))
def test_records_are_those_of_the_encoder_for_one_record(pairs: list[Pair], padding: int) -> None:
    """Byte for byte, so that everything that reads one reads the other."""
    rows = rows_with(pairs, padding=padding)
    made = section(rows, NOW_MS, int(sizes_bytes(rows).sum()))
    expected = [Record(offset, NOW_MS, key, value, ()) for offset, (key, value) in enumerate(pairs)]
    assert made.section == records.encode(expected, 0, NOW_MS)
    assert (made.count, made.timestamp) == (len(pairs), NOW_MS)
    assert made.size_bytes == sum(record_bytes(key, value, ()) for key, value in pairs)


def test_offsets_have_varints_of_every_length() -> None:
    """Offset differences of one, two and three bytes."""
    pairs: list[Pair] = [(None, b"")] * 20_000
    made = section(rows_with(pairs), NOW_MS, 0)
    assert made.section == records.encode([Record(n, NOW_MS, None, b"", ()) for n in range(20_000)], 0, NOW_MS)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=50))
def test_keys_get_the_hash_of_kafka_clients(keys: list[bytes]) -> None:
    found = murmur2(pa.array(keys, pa.binary()))
    assert found.tolist() == [partitioners.murmur2(key) for key in keys]


@given(PAIRS, st.integers(1, 7), st.integers(60, 3_000), st.data())
def test_each_row_is_in_one_batch_of_its_partition_in_order(
    pairs: list[Pair], partition_count: int, batch_bytes_max: int, data: st.DataObject
) -> None:
    choices = st.lists(st.integers(BY_KEY, partition_count - 1), min_size=len(pairs), max_size=len(pairs))
    named = data.draw(st.none() | choices)
    expected: dict[int, list[Pair]] = {}
    for index, (key, value) in enumerate(pairs):
        partition = KEYLESS if key is None else partitioners.partition_of_key(key, partition_count)
        if named is not None and named[index] != BY_KEY:
            partition = named[index]
        expected.setdefault(partition, []).append((key, value))
    made = list(
        encoded(
            rows_with(pairs),
            None if named is None else np.array(named, np.int64),
            partition_count,
            timestamp=NOW_MS,
            batch_bytes_max=batch_bytes_max,
        )
    )
    found: dict[int, list[Pair]] = {}
    for partition, batch in made:
        [view] = split(memoryview(build_encoded(batch, Codec.LZ4)))
        found.setdefault(partition, []).extend(
            (each.key, each.value) for each in records.iterate(view, len(batch.section))
        )
    assert found == expected
    assert all(batch.size_bytes <= batch_bytes_max or batch.count == 1 for _, batch in made)


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ONE_HEADER = pa.array([[{"key": "a", "value": b"1"}]], HEADERS)


@pytest.mark.parametrize(
    ("columns", "topic", "goes_as_columns"),
    [
        ({}, "t", True),
        ({"key": pa.array(["text"])}, "t", True),
        ({"headers": pa.nulls(1, HEADERS)}, "t", True),
        ({"headers": ONE_HEADER}, "t", False),
        ({"topic": pa.array(["mine"])}, None, True),
        ({"topic": pa.array([None], pa.string())}, None, False),
        ({"partition": pa.array([3], pa.int32())}, "t", True),
        ({"partition": pa.array([-1], pa.int32())}, "t", False),
        ({"value": pa.array([b"x" * 900])}, "t", False),
    ],
)
def test_rows_with_something_special_go_one_by_one(
    columns: dict[str, Any], topic: str | None, goes_as_columns: bool
) -> None:
    """What the columns cannot say must not be lost."""
    batch = pa.record_batch({"value": pa.array([b"v"]), **columns})
    found = columns_of(batch, SinkOptions("b", topic=topic, record_bytes_max=900))
    assert (found is not None) == goes_as_columns
    assert found is None or found.topic == topic or topic is None


@given(st.lists(st.integers(0, 40_000), max_size=6))
def test_small_batches_of_rows_are_joined(sizes: list[int]) -> None:
    """Partitions share the rows that are encoded together: a batch for each should not be tiny."""
    batches = [pa.record_batch({"value": pa.array([b"%d" % n for n in range(size)], pa.binary())}) for size in sizes]
    joined = list(gathered(batches))
    assert [row for each in joined for row in rows_of(each)] == [row for each in batches for row in rows_of(each)]
    assert len(joined) <= sum(sizes) // 50_000 + 1
