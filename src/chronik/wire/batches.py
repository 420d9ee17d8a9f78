"""Record batches of magic 2: a 61-byte header, a view of it, its checks, its patches, and writing whole batches.

    bytes   0 base_offset  8 length  12 partition_leader_epoch  16 magic  17 crc  21 attributes  23 last_offset_delta
           27 base_timestamp  35 max_timestamp  43 producer_id  51 producer_epoch  53 base_sequence  57 record_count

The CRC-32C covers everything from the attributes on, so base offset and epoch can be patched into any batch. Nothing
here walks records: `validate_produced` is the broker's only cost for a produced batch, and for a valid batch it is one
unpack, one checksum and one chain of comparisons. Only an invalid one is examined field by field.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - the standard library's only lower-case exception
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.wire import records as record_codec
from chronik.wire.checksums import crc32c
from chronik.wire.compression import CODEC_BITS, CODECS, Codec, compress, decompress
from chronik.wire.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    Malformed,
    NotOneBatch,
    TooLarge,
    Unencodable,
    UnsupportedCompression,
)
from chronik.wire.records import NO_TIMESTAMP, RECORD_BYTES_MIN, EncodedRecords, Record, TimestampType

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
STAMP: Final = Struct(">qii")  # base offset, length and epoch: not covered by the CRC, so a broker may rewrite them
STAMP_BYTES: Final = STAMP.size
LENGTH_COVERS_FROM: Final = 12  # `length` does not count the base offset and itself
CRC_COVERS_FROM: Final = 21
MAGIC: Final = 2
EPOCH_MAX: Final = 2**31 - 1
MAGIC_AT: Final = 16  # same position in every magic; determines the format of the rest
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
HEADER_BYTES_TO_MAGIC: Final = MAGIC_AT + 1
LEGACY_BYTES_MIN: Final = 26  # no batch of any magic is shorter

LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
_CODECS_COUNT: Final = len(CODECS)
_CODEC_AND_BROKERS: Final = CODEC_BITS | LOG_APPEND_TIME | CONTROL  # of a produced batch: a codec, and nothing else

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

_INT64, _INT32 = Struct(">q"), Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_unpack_header = HEADER.unpack_from
_new = tuple.__new__


class BatchView(NamedTuple):
    """The header of one batch as stored in its bytes, and the bytes themselves. A patch does not change the view."""

    base_offset: int
    length_bytes: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    data: memoryview  # the whole batch, header included

    @property
    def size_bytes(self) -> int:
        return self.length_bytes + LENGTH_COVERS_FROM

    @property
    def payload(self) -> memoryview:
        """The records, compressed or not."""
        return self.data[HEADER_BYTES:]

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Codec:
        return CODECS[self.attributes & CODEC_BITS]

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Set by compaction: tombstones of this batch may be removed after the time in `base_timestamp`."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


def validate_produced(buffer: memoryview, batch_bytes_max: int) -> BatchView:
    """Checks a client's data for one partition: exactly one batch, by the rules of Kafka's broker.

    Stricter in two places: it refuses bytes after the batch, which Kafka drops, and LogAppendTime, which Kafka replaces
    by rewriting the batch. Whether all records have keys, and timestamps within limits, depends on the topic
    (`records.verify`); sequence numbers and transactions depend on the partition.
    """
    size = len(buffer)
    if size >= HEADER_BYTES:
        fields = _unpack_header(buffer)
        base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer_id, _, sequence, count = fields
        codec = attributes & _CODEC_AND_BROKERS
        if (
            length + LENGTH_COVERS_FROM == size <= batch_bytes_max
            and magic == MAGIC
            and crc32c(buffer[CRC_COVERS_FROM:]) == crc
            and base_offset == 0
            and 0 < count == last_delta + 1
            and codec < _CODECS_COUNT
            and (codec or count * RECORD_BYTES_MIN <= size - HEADER_BYTES)
            and (producer_id < 0 or sequence >= 0)
        ):
            return _new(BatchView, fields + (buffer,))  # noqa: RUF005 - cheaper than a list of them
    raise _why_not_produced(buffer, batch_bytes_max)


def _why_not_produced(buffer: memoryview, batch_bytes_max: int) -> Malformed:
    """The first violated rule, in Kafka's order of checks."""
    what = "produced batch"
    left = len(buffer)
    if left < HEADER_BYTES_TO_MAGIC:
        return NotOneBatch(what, 0, f"there is none: {left} bytes were sent, and one batch is expected")
    size = _INT32.unpack_from(buffer, 8)[0] + LENGTH_COVERS_FROM
    magic = buffer[MAGIC_AT]
    if magic > MAGIC or size < LEGACY_BYTES_MIN:
        return CorruptBatch(what, 8, f"claims magic {magic} and {size} bytes, which is not a batch")
    if magic < MAGIC:
        return NotOneBatch(what, MAGIC_AT, f"magic is {magic}; this version of Produce takes magic {MAGIC}")
    if size < HEADER_BYTES:
        return CorruptBatch(what, 8, f"claims {size} bytes, a header alone takes {HEADER_BYTES}")
    if size != left:
        return NotOneBatch(what, 8, f"claims {size} bytes, {left} were sent; exactly one batch is expected")
    batch = _new(BatchView, (*_unpack_header(buffer), buffer))
    if batch.base_offset != 0:
        return InvalidRecord(what, 0, f"base offset is {batch.base_offset}; the broker assigns it, send 0")
    if size > batch_bytes_max:
        return TooLarge(what, 8, f"{size} bytes, above the {batch_bytes_max} of max.message.bytes")
    if not crc_holds(batch):
        return _crc_fails(what, batch)
    codec = batch.attributes & CODEC_BITS
    if codec >= len(CODECS):
        return UnsupportedCompression(what, 21, f"there is no codec {codec}: 0 none to 4 zstd exist")
    if not 0 < batch.record_count == batch.last_offset_delta + 1:
        counts = f"{batch.record_count} records, but a last offset delta of {batch.last_offset_delta}"
        return InvalidRecord(what, 57, counts)
    if batch.is_control:
        return InvalidRecord(what, 21, "is a control batch, which only the broker writes")
    if batch.has_producer_id and batch.base_sequence < 0:
        return InvalidRecord(what, 53, f"producer {batch.producer_id} sent sequence number {batch.base_sequence}")
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return InvalidTimestamp(what, 21, "says LogAppendTime, which only the broker sets")
    return InvalidRecord(what, 57, f"{batch.record_count} records cannot fit into {size - HEADER_BYTES} bytes")


def validate_replicated(buffer: memoryview, next_offset: int, epoch_max: int = EPOCH_MAX) -> list[BatchView]:
    """Checks a leader's data for a follower: whole batches with valid checksums, increasing offsets from `next_offset`,
    and no leader epoch above `epoch_max`, the leader's own. No checksum covers the epoch.

    An incomplete last batch is omitted: a fetch returns up to a number of bytes, not of batches.
    """
    batches = split(buffer, cut_tail=True)
    for batch in batches:
        if not crc_holds(batch):
            raise _crc_fails(f"replicated batch at offset {batch.base_offset}", batch)
        if batch.base_offset < next_offset or batch.last_offset_delta < 0:
            raise CorruptBatch(
                "replicated batch", 0, f"offsets {batch.base_offset} to {batch.last_offset}, {next_offset} is next"
            )
        if batch.partition_leader_epoch > epoch_max:
            epoch = batch.partition_leader_epoch
            raise CorruptBatch(
                "replicated batch",
                0,
                f"offset {batch.base_offset} is of leader epoch {epoch}, its leader of {epoch_max}",
            )
        next_offset = batch.next_offset
    return batches


def split(buffer: memoryview, *, cut_tail: bool = False) -> list[BatchView]:
    """Views of consecutive batches, from their headers alone; checksums are not verified.

    `cut_tail` omits an incomplete last batch instead of raising.
    """
    batches = []
    at = 0
    end = len(buffer)
    while at < end:
        left = end - at
        if left < HEADER_BYTES:
            if cut_tail:
                break
            raise CorruptBatch("record batch", at, f"{left} bytes are left, a header takes {HEADER_BYTES}")
        fields = _unpack_header(buffer, at)
        size = fields[1] + LENGTH_COVERS_FROM
        if fields[3] != MAGIC:
            raise CorruptBatch("record batch", at + MAGIC_AT, f"magic is {fields[3]}, not {MAGIC}")
        if size < HEADER_BYTES:
            raise CorruptBatch("record batch", at + 8, f"claims {size} bytes, a header alone takes {HEADER_BYTES}")
        if size > left:
            if cut_tail:
                break
            raise CorruptBatch("record batch", at + 8, f"claims {size} bytes, {left} are left")
        if fields[5] & CODEC_BITS >= len(CODECS):
            raise UnsupportedCompression(
                "record batch", at + 21, f"there is no codec {fields[5] & CODEC_BITS}: 0 none to 4 zstd exist"
            )
        batches.append(_new(BatchView, (*fields, buffer[at : at + size])))
        at += size
    return batches


def crc_holds(batch: BatchView) -> bool:
    """Whether the CRC matches, so that the bytes are unaltered."""
    return crc32c(batch.data[CRC_COVERS_FROM:]) == batch.crc


def _crc_fails(what: str, batch: BatchView) -> CorruptBatch:
    found = crc32c(batch.data[CRC_COVERS_FROM:])
    return CorruptBatch(what, 17, f"CRC-32C is {found:#010x}, the header says {batch.crc:#010x}")


def patch(buffer: bytearray | memoryview, at: int, base_offset: int, leader_epoch: int) -> None:
    """Writes the leader's offset and epoch into the batch at `at`. The CRC covers neither."""
    _INT64.pack_into(buffer, at, base_offset)
    _INT32.pack_into(buffer, at + LENGTH_COVERS_FROM, leader_epoch)


def crc_of(data: bytes | bytearray | memoryview) -> int:
    """The CRC in the header of the batch at the start of `data`."""
    return int(_CRC.unpack_from(data, 17)[0])


def patch_append_time(buffer: bytearray | memoryview, at: int, timestamp: int) -> None:
    """Changes the batch at `at` to LogAppendTime: type, largest timestamp and therefore the CRC. Deltas stay."""
    view = memoryview(buffer)
    (length,) = _INT32.unpack_from(view, at + 8)
    (attributes,) = _ATTRIBUTES.unpack_from(view, at + 21)
    _ATTRIBUTES.pack_into(view, at + 21, attributes | LOG_APPEND_TIME)
    _INT64.pack_into(view, at + 35, timestamp)
    _CRC.pack_into(view, at + 17, crc32c(view[at + CRC_COVERS_FROM : at + LENGTH_COVERS_FROM + length]))


def recompressed(batch: BatchView, codec: Codec, level: int | None, output_bytes_max: int) -> bytearray:
    """The same batch with another codec. Its records are not parsed: the uncompressed bytes are the same."""
    payload = compress(codec, decompress(batch.compression, batch.payload, output_bytes_max), level)
    made = bytearray(batch.data[:HEADER_BYTES]) + payload
    _INT32.pack_into(made, 8, len(made) - LENGTH_COVERS_FROM)
    _ATTRIBUTES.pack_into(made, ATTRIBUTES_AT, batch.attributes & ~CODEC_BITS | codec)
    _CRC.pack_into(made, 17, crc32c(memoryview(made)[CRC_COVERS_FROM:]))
    return made


def build(
    records: Sequence[Record],
    codec: Codec = Codec.NONE,
    *,
    level: int | None = None,
    base_offset: int | None = None,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> bytes:
    """One batch.

    The header's offsets and times are computed from the records unless given: compaction keeps those of a batch whose
    records it drops. With LogAppendTime `max_timestamp` is the append time; a delete horizon is passed as
    `base_timestamp`.
    """
    if records:
        base_offset = records[0].offset if base_offset is None else base_offset
        last_offset = records[-1].offset if last_offset is None else last_offset
        base_timestamp = records[0].timestamp if base_timestamp is None else base_timestamp
        max_timestamp = max([record.timestamp for record in records]) if max_timestamp is None else max_timestamp
    elif base_offset is None or last_offset is None:
        raise Unencodable("a batch without records needs base_offset and last_offset")
    base_timestamp = NO_TIMESTAMP if base_timestamp is None else base_timestamp
    max_timestamp = NO_TIMESTAMP if max_timestamp is None else max_timestamp
    if not records:
        codec = Codec.NONE  # never compress empty data: readers treat it as a truncated stream
    payload = compress(codec, record_codec.encode(records, base_offset, base_timestamp), level)
    attributes = (
        codec
        | (LOG_APPEND_TIME if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL if is_transactional else 0)
        | (CONTROL if is_control else 0)
        | (DELETE_HORIZON if has_delete_horizon else 0)
    )
    return _assembled(
        payload,
        base_offset,
        leader_epoch,
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )


def build_encoded(
    records: EncodedRecords,
    codec: Codec = Codec.NONE,
    *,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytes:
    """One batch of records that are encoded already."""
    return _assembled(
        compress(codec, records.section, level),
        0,
        NO_LEADER_EPOCH,
        codec | (TRANSACTIONAL if is_transactional else 0),
        records.count - 1,
        records.timestamp,
        records.timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records.count,
    )


def _assembled(payload: bytes, base_offset: int, leader_epoch: int, attributes: int, *others: int) -> bytes:
    """A batch of its header's fields, in their order, and its payload."""
    length = HEADER_BYTES - LENGTH_COVERS_FROM + len(payload)
    try:
        header = HEADER.pack(base_offset, length, leader_epoch, MAGIC, 0, attributes, *others)
    except StructError as error:
        raise Unencodable(f"a field of the batch header does not fit: {error}") from None
    crc = crc32c(payload, crc32c(header[CRC_COVERS_FROM:]))
    return b"".join((header[:17], _CRC.pack(crc), header[CRC_COVERS_FROM:], payload))
