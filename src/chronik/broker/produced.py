"""What a client sent to be appended, as batches of magic 2; and the way back for clients too old to read those.

A batch of magic 2 is checked by its header and CRC alone and stays where it arrived. Only message sets of magic 0 and
1, and batches for a topic that wants another codec, are taken apart.
"""

from __future__ import annotations

from chronik.replication.topic_settings import TopicSettings
from chronik.storage.errors import BatchTooLarge
from chronik.wire import records as record_codec
from chronik.wire.batches import MAGIC, MAGIC_AT, BatchView, build, split, validate_produced
from chronik.wire.compression import Codec
from chronik.wire.conversion import down_convert, up_convert
from chronik.wire.errors import InvalidRecord, UnsupportedCompression
from chronik.wire.legacy_batches import SIZE_COVERS_FROM

# Of Produce: from here on nothing older is accepted; from here on consumers may be expected to know zstd.
VERSION_MAGIC_2, VERSION_ZSTD = 3, 7
DECOMPRESSED_BYTES_MAX = 64 << 20  # of one batch that has to be taken apart
AS_SENT = "producer"


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
            data = memoryview(bytearray(up_convert(data, DECOMPRESSED_BYTES_MAX)))
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
    data = build(
        list(record_codec.iterate(batch, DECOMPRESSED_BYTES_MAX)),
        wanted,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        level=settings.compression_level,
    )
    (made,) = split(memoryview(bytearray(data)))
    return made


def to_old_magic(buffers: list[memoryview], magic: int, first_offset: int) -> bytes:
    """Batches from the log as a message set of magic 0 or 1."""
    return b"".join(down_convert(buffer, magic, first_offset, DECOMPRESSED_BYTES_MAX) for buffer in buffers)
