"""Record batches of magic 2 into Arrow, whole batches at a time. No Spark, no socket: bytes in, tables out.

    for table in decode_batches(fetched, topic="orders", partition=0, start_offset=7, end_offset=100): ...

Public and stable: the source, `chronik sql` and tables use it. `wire.records` reads the same bytes one record at a time
and is the reference: tests compare the two, and when this module finds invalid bytes, it uses the other one to report
why.

For speed, only the chain of record lengths is walked in Python, one step per record, because a record's position
depends on the previous one. Everything else is read for all records at once. Keys and values are not copied in Python:
the buffer is presented to Arrow as one long array of alternating wanted and unwanted pieces, and Arrow takes the wanted
ones. Batches are decoded together up to ROWS_MAX rows or BYTES_MAX bytes, since most batches are too small to justify
separate numpy calls.

Omits control records, records of aborted transactions if these are given, and records outside the requested offsets.
The CRC of every decoded batch is checked, once. Headers are decoded only if requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from chronik.pipeline.columns import COLUMNS, arrow_schema
from chronik.pipeline.decode_headers import header_column
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.gathering import chosen_of, gather
from chronik.pipeline.varint_arrays import BadVarint, read_lengths, read_varints, read_varlongs
from chronik.runtime.invariants import broken, check
from chronik.wire import records as record_codec
from chronik.wire.batches import LOG_APPEND_TIME, BatchView, crc_holds, split
from chronik.wire.compression import Codec, decompress
from chronik.wire.errors import Malformed
from chronik.wire.records import RECORD_BYTES_MIN, ControlType
from chronik.wire.varints import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chronik.pipeline.varint_arrays import Bytes, Ints, Mask

ROWS_MAX: Final = 64 * 1024
BYTES_MAX: Final = 16 << 20
DECOMPRESSED_BYTES_MAX: Final = 1 << 30  # per batch; positions in the buffer must fit 31 bits
TIMESTAMP_MS_MAX: Final = INT64_MAX // 1000  # beyond this, microseconds do not fit
SUMMANDS_MAX: Final = 1 << 62  # the sum of a base and a delta below this cannot overflow

# The distance from one record to the next, by the first two bytes of its length. Longer lengths have no entry.
_STEP: Final = tuple(
    tuple(1 + (first >> 1) if first < 0x80 else 2 + ((first - 0x80 + (second << 7)) >> 1) for second in range(count))
    for first, count in ((first, 256 if first < 0x80 else 128) for first in range(256))
)


class Aborted(NamedTuple):
    """An aborted transaction, as listed in a fetch response for committed records."""

    first_offset: int
    producer_id: int


def decode_batches(
    data: bytes | bytearray | memoryview,
    *,
    topic: str,
    partition: int,
    start_offset: int = 0,
    end_offset: int = INT64_MAX,
    columns: Sequence[str] = COLUMNS,
    aborted: Iterable[Aborted] = (),
) -> Iterator[pa.RecordBatch]:
    """The records with `start_offset` <= offset < `end_offset` in consecutive batches.

    An incomplete last batch is omitted, because a fetch may end inside one. Raises UNREADABLE_BATCH.
    """
    decoder = Decoder(topic, partition, columns)
    try:
        batches = split(memoryview(data), cut_tail=True)
    except Malformed as fault:
        raise decoder.unreadable(start_offset, fault) from None
    yield from decoder.decode(batches, start_offset, end_offset, aborted)


class Decoder:
    """Decodes the fetched data of one partition. Columns that are equal in every row are built once."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str] = COLUMNS) -> None:
        self.topic = topic
        self.partition = partition
        self.schema = arrow_schema(columns)
        self._constants: dict[str, Any] = {}

    def decode(
        self, batches: Iterable[BatchView], start_offset: int, end_offset: int, aborted: Iterable[Aborted] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Like `decode_batches`, for already split batches."""
        group: list[BatchView] = []
        pieces: list[bytes | memoryview] = []
        row_count = size_bytes = 0
        for batch in self._visible(batches, aborted):
            if batch.base_offset >= end_offset or batch.last_offset < start_offset or batch.record_count == 0:
                continue
            piece = self._payload(batch)
            group.append(batch)
            pieces.append(piece)
            row_count += batch.record_count
            size_bytes += len(piece)
            if row_count >= ROWS_MAX or size_bytes >= BYTES_MAX:
                yield from self._decode_group(group, pieces, start_offset, end_offset)
                group, pieces = [], []
                row_count = size_bytes = 0
        if group:
            yield from self._decode_group(group, pieces, start_offset, end_offset)

    def unreadable(self, offset: int, reason: object) -> PipelineError:
        return PipelineError(
            "UNREADABLE_BATCH", topic=self.topic, partition=self.partition, offset=offset, reason=str(reason)
        )

    # --- which batches

    def _visible(self, batches: Iterable[BatchView], aborted: Iterable[Aborted]) -> Iterator[BatchView]:
        """Visible batches of records, with verified checksums."""
        coming = sorted(aborted, reverse=True)
        aborting: set[int] = set()  # producers with an aborted transaction at this point of the log
        for batch in batches:
            if not crc_holds(batch):
                raise self.unreadable(batch.base_offset, "it fails its checksum: damaged on the way or on disk")
            while coming and coming[-1].first_offset <= batch.last_offset:
                aborting.add(coming.pop().producer_id)
            if batch.is_control:
                if self._is_abort(batch):
                    aborting.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborting):
                yield batch

    def _is_abort(self, batch: BatchView) -> bool:
        try:
            marker = next(record_codec.iterate(batch, DECOMPRESSED_BYTES_MAX), None)
            return marker is not None and record_codec.control_type(marker) is ControlType.ABORT
        except Malformed as fault:
            raise self.unreadable(batch.base_offset, fault) from None

    def _payload(self, batch: BatchView) -> bytes | memoryview:
        if batch.compression is Codec.NONE:
            return batch.payload
        try:
            return decompress(batch.compression, batch.payload, DECOMPRESSED_BYTES_MAX)
        except Malformed as fault:
            raise self.unreadable(batch.base_offset, fault) from None

    # --- from bytes to columns

    def _decode_group(
        self, group: list[BatchView], pieces: list[bytes | memoryview], start_offset: int, end_offset: int
    ) -> Iterator[pa.RecordBatch]:
        data = b"".join(pieces)
        fields = _read_fields(data, group, [len(piece) for piece in pieces])
        if fields is None:
            raise self._explain(group)
        chosen: Mask | None = None
        if fields.offset.min() < start_offset or fields.offset.max() >= end_offset:
            chosen = (fields.offset >= start_offset) & (fields.offset < end_offset)
            if not chosen.any():
                return
        try:
            arrays = {name: self._column(name, fields, chosen) for name in self.schema.names}
        except BadVarint:
            raise self._explain(group) from None
        table = pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)
        check(
            table.num_rows == (len(fields.offset) if chosen is None else int(np.count_nonzero(chosen))),
            "19 every record that was chosen is a row",
            topic=self.topic,
            partition=self.partition,
            rows=table.num_rows,
        )
        check(
            int(fields.counts.sum()) == len(fields.offset),
            "19 a batch gives as many rows as it has records",
            topic=self.topic,
            partition=self.partition,
            records=int(fields.counts.sum()),
            rows=len(fields.offset),
        )
        for first in range(0, table.num_rows, ROWS_MAX):
            yield table.slice(first, ROWS_MAX)

    def _column(self, name: str, fields: _Fields, chosen: Mask | None) -> pa.Array:
        count = len(fields.offset) if chosen is None else int(np.count_nonzero(chosen))
        if name == "topic":
            return self._constant(name, pa.scalar(self.topic), count)
        if name == "partition":
            return self._constant(name, pa.scalar(self.partition, pa.int32()), count)
        if name == "timestampType":
            first = int(fields.timestamp_type[0])
            if (fields.timestamp_type == first).all():
                return self._constant(f"{name}{first}", pa.scalar(first, pa.int32()), count)
            return pa.array(chosen_of(chosen, np.repeat(fields.timestamp_type, fields.counts)))
        if name == "offset":
            return pa.array(chosen_of(chosen, fields.offset))
        if name == "timestamp":
            times = chosen_of(chosen, fields.timestamp_ms)
            if times.min() < -TIMESTAMP_MS_MAX or times.max() > TIMESTAMP_MS_MAX:
                raise self._beyond_time(times, chosen_of(chosen, fields.offset))
            return pa.array(times * 1000).view(self.schema.field(name).type)
        if name == "headers":
            counts, at, end = (chosen_of(chosen, each) for each in (fields.header_count, fields.headers_at, fields.end))
            return header_column(fields.data, counts, at, end)
        return gather(fields.data, *(fields.key if name == "key" else fields.value), chosen)

    def _constant(self, name: str, value: pa.Scalar, count: int) -> pa.Array:
        made = self._constants.get(name)
        if made is None or len(made) < count:
            made = self._constants[name] = pa.repeat(value, max(count, ROWS_MAX))
        return made.slice(0, count)

    def _beyond_time(self, times: Ints, offsets: Ints) -> PipelineError:
        index = int(np.flatnonzero((times < -TIMESTAMP_MS_MAX) | (times > TIMESTAMP_MS_MAX))[0])
        return PipelineError(
            "TIMESTAMP_OUT_OF_RANGE",
            topic=self.topic,
            partition=self.partition,
            offset=int(offsets[index]),
            timestamp_ms=int(times[index]),
        )

    def _explain(self, group: list[BatchView]) -> PipelineError:
        """Some record of these batches is invalid: the record-by-record reader reports which, and why."""
        for batch in group:
            try:
                for _ in record_codec.iterate(batch, DECOMPRESSED_BYTES_MAX):
                    pass
            except Malformed as fault:
                return self.unreadable(batch.base_offset, fault)
        first, last = group[0].base_offset, group[-1].last_offset
        return broken(
            "19 records that can be read are read", topic=self.topic, partition=self.partition, first=first, last=last
        )


class _Fields(NamedTuple):
    """Positions of all fields in `data`, per record, and the values that a batch stores once, per batch."""

    data: Bytes
    counts: Ints  # records per batch
    timestamp_type: Any  # int32, per batch
    offset: Ints
    timestamp_ms: Ints
    key: tuple[Ints, Ints, Mask | None]  # start, length, is null
    value: tuple[Ints, Ints, Mask | None]
    header_count: Ints
    headers_at: Ints
    end: Ints


def _read_fields(data: bytes, group: list[BatchView], sizes: list[int]) -> _Fields | None:
    """None if some record does not fit its batch or its own length."""
    ends: list[int] = []
    at = 0
    for batch, size in zip(group, sizes, strict=True):
        if not 0 <= batch.record_count * RECORD_BYTES_MIN <= size:
            return None
        found = _walk(data, at, batch.record_count)
        at += size
        if found is None or found[-1] != at:
            return None
        ends += found
    end = np.fromiter(ends, np.int64, len(ends))
    start = np.empty_like(end)
    start[0], start[1:] = 0, end[:-1]
    buffer = np.frombuffer(data, np.uint8)
    counts = np.array([batch.record_count for batch in group], np.int64)
    base_offset = np.array([batch.base_offset for batch in group], np.int64)
    base_timestamp = np.array([batch.base_timestamp for batch in group], np.int64)
    try:
        _, is_negative, place = read_lengths(buffer, start)
        timestamp, place = read_varlongs(buffer, place + 1)  # after the attributes, which are unused
        offset, place = read_varints(buffer, place)
        key_length, key_is_null, key_at = read_lengths(buffer, place)
        value_length, value_is_null, value_at = read_lengths(buffer, key_at + key_length)
        headers_at = value_at + value_length
        header_count, after = read_varints(buffer, headers_at)
    except BadVarint:
        return None
    # Positions only increase from field to field, so if the last field is inside the record, all fields are.
    is_whole = np.where(header_count == 0, after == end, (header_count > 0) & (after < end))
    if is_negative is not None or not is_whole.all():
        return None
    if int(base_offset.max()) > INT64_MAX - INT32_MAX or int(base_offset.min()) < INT64_MIN - INT32_MIN:
        return None
    if any(int(each.max()) > SUMMANDS_MAX or int(each.min()) < -SUMMANDS_MAX for each in (base_timestamp, timestamp)):
        timestamp = _sum_exactly(group, timestamp)
    else:
        timestamp = np.repeat(base_timestamp, counts) + timestamp
    kinds = np.array([1 if batch.attributes & LOG_APPEND_TIME else 0 for batch in group], np.int32)
    if kinds.any():  # in a batch with LogAppendTime all records have the batch's largest timestamp
        appended_at = np.array([batch.max_timestamp for batch in group], np.int64)
        timestamp = np.where(np.repeat(kinds, counts) == 1, np.repeat(appended_at, counts), timestamp)
    return _Fields(
        buffer,
        counts,
        kinds,
        np.repeat(base_offset, counts) + offset,
        timestamp,
        (key_at, key_length, key_is_null),
        (value_at, value_length, value_is_null),
        header_count,
        headers_at,
        end,
    )


def _walk(data: bytes, at: int, count: int) -> list[int] | None:
    """The end of each of `count` records; None if one exceeds the data."""
    step = _STEP
    start = at
    try:
        return [at := at + step[data[at]][data[at + 1]] for _ in range(count)]
    except IndexError:
        return _walk_long(data, start, count)


def _walk_long(data: bytes, at: int, count: int) -> list[int] | None:
    """Like `_walk`, for records of 8 KiB and more."""
    ends = []
    try:
        for _ in range(count):
            length, at = read_varint(data, at)
            at += max(length, 0)
            ends.append(at)
    except (IndexError, ValueError):
        return None
    return ends


def _sum_exactly(group: list[BatchView], deltas: Ints) -> Ints:
    """Timestamps near the limits of 64 bits, one by one. An overflow becomes the largest value, which columns
    refuse."""
    sums: list[int] = []
    at = 0
    for batch in group:
        exact = [batch.base_timestamp + delta for delta in deltas[at : at + batch.record_count].tolist()]
        sums += [min(max(each, -INT64_MAX), INT64_MAX) for each in exact]
        at += batch.record_count
    return np.array(sums, np.int64)
