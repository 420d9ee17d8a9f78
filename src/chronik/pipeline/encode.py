"""Columns of rows into records of batches, many rows at once, with Arrow and numpy. Pure; the inverse of `decode`.

Handles what nearly all rows of a sink are: records without headers, with the time of writing. The output is, byte for
byte, that of `wire.records.encode`, and a key gets the partition that `client.partitioners` gives it. Rows keep their
order within a partition.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronik.client.batching import RECORD_OVERHEAD_BYTES
from chronik.client.partitioners import MULTIPLIER, SEED, SHIFT
from chronik.runtime.invariants import check
from chronik.wire.records import EncodedRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Ints = NDArray[np.int64]

BY_KEY: Final = -1  # instead of a partition: none is named
KEYLESS: Final = -1  # instead of a partition: the producer chooses
NULL_LENGTH: Final = -1


class Rows(NamedTuple):
    """Columns of equal length, as Arrow binary arrays. Without keys, `keys` is None."""

    keys: Any
    values: Any

    def taken(self, order: Ints) -> Rows:
        indices = pa.array(order)
        return Rows(None if self.keys is None else self.keys.take(indices), self.values.take(indices))

    def slice(self, start: int, end: int) -> Rows:
        keys = None if self.keys is None else self.keys.slice(start, end - start)
        return Rows(keys, self.values.slice(start, end - start))


class PartitionRecords(NamedTuple):
    partition: int  # or KEYLESS
    records: EncodedRecords


def sizes_bytes(rows: Rows) -> Ints:
    """The largest size of each record in a batch, as `client.batching.record_bytes` computes it."""
    sizes = RECORD_OVERHEAD_BYTES + np.maximum(lengths(rows.values), 0)
    return sizes if rows.keys is None else sizes + np.maximum(lengths(rows.keys), 0)


def encoded(
    rows: Rows, named: Ints | None, partition_count: int, *, timestamp: int, batch_bytes_max: int
) -> Iterator[PartitionRecords]:
    """The rows as batches of at most `batch_bytes_max`, if no single record is larger. `named` are the partitions that
    rows name, or BY_KEY."""
    partitions = partitions_by_key(rows, partition_count)
    if named is not None:
        partitions = np.where(named == BY_KEY, partitions, named)
    order = np.argsort(partitions, kind="stable")
    partitions = partitions[order]
    rows = rows.taken(order)
    ends = np.cumsum(sizes_bytes(rows))
    borders = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
    count = 0
    for first, end in pairwise(borders):
        start = first
        while start < end:
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + batch_bytes_max, side="right"))
            stop = min(end, max(start + 1, stop))
            records = section(rows.slice(start, stop), timestamp, int(ends[stop - 1]) - before)
            count += records.count
            yield PartitionRecords(int(partitions[start]), records)
            start = stop
    check(count == len(partitions), "19 each row is written once", rows=len(partitions), written=count)


def section(rows: Rows, timestamp: int, size_bytes: int) -> EncodedRecords:
    """The records of one batch. `size_bytes` is the sum of `sizes_bytes`.

    A record is a head (its size, two zeros, its offset, the length of the key), the key, a tail (the length of the
    value), the value, and the number of headers, which is zero. Numpy makes heads and tails, and Arrow joins them with
    keys and values. The last zero of a record is in front of the next record's head.
    """
    count = len(rows.values)
    offsets = np.arange(count, dtype=np.int64)
    value_lengths = lengths(rows.values)
    key_lengths = np.full(count, NULL_LENGTH) if rows.keys is None else lengths(rows.keys)
    folded_offsets, folded_keys, folded_values = offsets << 1, _fold(key_lengths), _fold(value_lengths)
    offset_sizes, key_sizes, value_sizes = map(_varint_sizes, (folded_offsets, folded_keys, folded_values))
    bodies = 3 + offset_sizes + key_sizes + value_sizes + np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    folded_bodies = bodies << 1
    body_sizes = _varint_sizes(folded_bodies)
    is_later = offsets > 0  # the zero of the record before it
    head_sizes = is_later + body_sizes + 2 + offset_sizes + key_sizes  # sizes of the heads
    head = np.zeros(int(head_sizes.sum()), np.uint8)
    at = np.cumsum(head_sizes) - head_sizes + is_later
    _write_varints(head, at, folded_bodies, body_sizes)
    at = at + body_sizes + 2  # attributes, and the difference to the batch's timestamp, are zero
    _write_varints(head, at, folded_offsets, offset_sizes)
    _write_varints(head, at + offset_sizes, folded_keys, key_sizes)
    tail = np.zeros(int(value_sizes.sum()), np.uint8)
    _write_varints(tail, np.cumsum(value_sizes) - value_sizes, folded_values, value_sizes)
    heads, tails = _binary(head, head_sizes), _binary(tail, value_sizes)
    parts = (heads, tails, rows.values) if rows.keys is None else (heads, rows.keys, tails, rows.values)
    joined = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    data = joined.buffers()[2]
    size = int(
        head_sizes.sum() + value_sizes.sum() + np.maximum(key_lengths, 0).sum() + np.maximum(value_lengths, 0).sum()
    )
    return EncodedRecords(b"".join((memoryview(data)[:size], b"\x00")), count, timestamp, size_bytes)


def _binary(data: Bytes, sizes: Ints) -> Any:
    """Consecutive pieces of a buffer as an Arrow array."""
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def partitions_by_key(rows: Rows, partition_count: int) -> Ints:
    """The partition of each row, or KEYLESS."""
    if rows.keys is None:
        return np.full(len(rows.values), KEYLESS)
    found = (murmur2(rows.keys).astype(np.int64) & 0x7FFFFFFF) % partition_count
    return np.where(lengths(rows.keys) == NULL_LENGTH, KEYLESS, found)


def murmur2(keys: Any) -> NDArray[np.uint32]:
    """As `client.partitioners.murmur2`, for all keys. Keys of one length are computed together."""
    starts, data, sizes = _layout(keys)
    found = np.zeros(len(sizes), np.uint32)
    for length in np.unique(sizes).tolist():
        these = np.flatnonzero(sizes == length)
        whole = length & ~3
        padded = np.zeros((len(these), (length + 3) & ~3), np.uint8)
        if length:
            padded[:, :length] = data[starts[these][:, None] + np.arange(length)]
        words = padded.view("<u4")
        value = np.full(len(these), SEED ^ length, np.uint32)
        multiplier = np.uint32(MULTIPLIER)
        for column in range(whole // 4):
            word = words[:, column] * multiplier
            word = (word ^ word >> np.uint32(SHIFT)) * multiplier
            value = value * multiplier ^ word
        if length > whole:
            value = (value ^ words[:, -1]) * multiplier
        value = (value ^ value >> np.uint32(13)) * multiplier
        found[these] = value ^ value >> np.uint32(15)
    return found


def lengths(column: Any) -> Ints:
    """The length of each value; of null, NULL_LENGTH."""
    _, _, sizes = _layout(column)
    if column.null_count:
        sizes = np.where(column.is_null().to_numpy(zero_copy_only=False), NULL_LENGTH, sizes)
    return sizes


def _layout(column: Any) -> tuple[Ints, Bytes, Ints]:
    """Where each value starts in the column's data, the data, and each size. The size of null is arbitrary."""
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return offsets[:-1], data, np.diff(offsets)


def _fold(numbers: Ints) -> Ints:
    """Zigzag, as varints encode signed integers."""
    return (numbers << 1) ^ (numbers >> 63)


def _varint_sizes(folded: Ints) -> Ints:
    sizes = np.ones(len(folded), np.int64)
    limit = 1 << 7
    while (longer := folded >= limit).any():
        sizes += longer
        limit <<= 7
    return sizes


def _write_varints(buffer: Bytes, at: Ints, folded: Ints, sizes: Ints) -> None:
    for index in range(int(sizes.max(initial=0))):
        these = np.flatnonzero(sizes > index)
        bits = (folded[these] >> 7 * index & 0x7F) | (sizes[these] > index + 1).astype(np.int64) << 7
        buffer[at[these] + index] = bits
