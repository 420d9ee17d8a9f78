"""Converts what a client sent into batches of magic 2, and back for clients that are too old to read those.

A batch of magic 2 is checked by its header and CRC only, and stays where it arrived. Records are decoded only in
message sets of magic 0 and 1, in batches for a topic with another codec, and if the header does not settle the topic's
rules. `takes_long` tells whether that work may be too long for the event loop.
"""

from __future__ import annotations

from chronik.replication.topic_settings import TopicSettings
from chronik.runtime.invariants import check
from chronik.storage.errors import BatchTooLarge
from chronik.storage.rules import check_produced, decompressed_bytes_max, is_settled_by_header
from chronik.wire.batches import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    TRANSACTIONAL,
    BatchView,
    produced_batch,
    recompressed,
    split,
    validate_produced,
)
from chronik.wire.compression import CODEC_BITS, Codec
from chronik.wire.conversion import down_convert, up_convert
from chronik.wire.errors import InvalidRecord, UnsupportedCompression
from chronik.wire.legacy_batches import ATTRIBUTES_AT as OLD_ATTRIBUTES_AT
from chronik.wire.legacy_batches import SIZE_COVERS_FROM

# Of Produce: from here on nothing older is accepted; from here on consumers may be expected to know zstd.
VERSION_MAGIC_2, VERSION_ZSTD = 3, 7
FETCHED_BYTES_MAX = 64 << 20  # of one batch that is decompressed for a client too old for it
OLD_DECOMPRESSED_BYTES_MAX = 8 << 20  # of a message set of magic 0 or 1, whose messages are all in memory at once
QUICK_BYTES_MAX = 64 << 10  # at most 10,000 records: some milliseconds
AS_SENT = "producer"


def plain_batch(data: object, version: int, settings: TopicSettings, now_ms: int) -> BatchView | None:
    """A good batch whose header settles everything, as nearly all are. None: see `takes_long` and `read_produced`."""
    config = settings.log
    if type(data) is not memoryview or version < VERSION_ZSTD or settings.compression_type != AS_SENT:
        return None
    batch = produced_batch(data, config.max_message_bytes)
    if (
        batch is None
        or batch.attributes & TRANSACTIONAL
        or not is_settled_by_header(batch.max_timestamp, config, now_ms)
    ):
        return None
    return batch if len(data) <= config.segment_bytes else None


def read_produced(data: object, version: int, settings: TopicSettings) -> list[BatchView]:
    """The batches to append; none for an old message set without a whole message, which old clients may send.

    Raises what is wrong with them, with its Kafka error.
    """
    if data is None or not isinstance(data, memoryview):
        raise InvalidRecord("produced records", 0, "null; a batch is expected")
    if version < VERSION_MAGIC_2:
        if not _has_a_message(data):
            return []
        if data[MAGIC_AT] < MAGIC:
            data = memoryview(bytearray(up_convert(data, OLD_DECOMPRESSED_BYTES_MAX)))
    batch = validate_produced(data, settings.log.max_message_bytes)
    if version < VERSION_ZSTD and batch.compression is Codec.ZSTD:
        raise UnsupportedCompression("produced batch", 21, f"zstd needs Produce v{VERSION_ZSTD}, this is v{version}")
    if batch.size_bytes > settings.log.segment_bytes:
        raise BatchTooLarge(batch.size_bytes, settings.log.segment_bytes)
    if settings.compression_type != AS_SENT:
        batch = _recompressed(batch, settings)
    return [batch]


def _has_a_message(data: memoryview) -> bool:
    left = len(data) - SIZE_COVERS_FROM
    return len(data) > MAGIC_AT and left >= int.from_bytes(data[8:SIZE_COVERS_FROM], signed=True)


def _recompressed(batch: BatchView, settings: TopicSettings) -> BatchView:
    """The same records in the topic's own codec (compression.type)."""
    name = settings.compression_type
    wanted = Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    if batch.compression == wanted:
        return batch
    data = recompressed(batch, wanted, settings.compression_level, decompressed_bytes_max(batch))
    (made,) = split(memoryview(data))
    check(
        made.record_count == batch.record_count and made.last_offset_delta == batch.last_offset_delta,
        "8 another codec changes no record",
        records=batch.record_count,
        made=made.record_count,
    )
    return made


def takes_long(data: object, version: int, settings: TopicSettings, now_ms: int) -> bool:
    """Whether `look_inside` should do it, away from the event loop. Says no to what is refused anyway."""
    if not isinstance(data, memoryview) or len(data) < HEADER_BYTES:
        return False
    if data[MAGIC_AT] < MAGIC:
        is_taken_apart, is_compressed = version < VERSION_MAGIC_2, data[OLD_ATTRIBUTES_AT] & CODEC_BITS
    else:
        is_compressed = data[ATTRIBUTES_AT + 1] & CODEC_BITS
        is_taken_apart = settings.compression_type != AS_SENT or not is_settled_by_header(
            int.from_bytes(data[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8], signed=True), settings.log, now_ms
        )
    return is_taken_apart and (is_compressed > 0 or len(data) > QUICK_BYTES_MAX)


def takes_long_to_open(batch: BatchView) -> bool:
    """As `takes_long`, of a batch of the log that is to be taken apart."""
    return batch.attributes & CODEC_BITS > 0 or batch.size_bytes > QUICK_BYTES_MAX


def look_inside(data: object, version: int, settings: TopicSettings, now_ms: int) -> list[BatchView]:
    """As `read_produced`, and holds the batches to the topic's rules as well. Touches nothing but its arguments."""
    batches = read_produced(data, version, settings)
    for batch in batches:
        check_produced(batch, settings.log, now_ms)
    return batches


def takes_long_to_convert(buffers: list[memoryview]) -> bool:
    """Whether `to_old_magic` is no work for the event loop."""
    if sum(map(len, buffers)) > QUICK_BYTES_MAX:
        return True
    return any(takes_long_to_open(batch) for buffer in buffers for batch in split(buffer))


def to_old_magic(buffers: list[memoryview], magic: int, first_offset: int) -> bytes:
    """Batches from the log as a message set of magic 0 or 1. Touches nothing but its arguments."""
    return b"".join(down_convert(buffer, magic, first_offset, FETCHED_BYTES_MAX) for buffer in buffers)
