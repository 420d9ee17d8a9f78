"""Judges what a client sent for one partition, converts it to magic 2, and converts back for clients that are too old.

`judge` has three outcomes. Nearly all batches are plain: header and CRC settle everything, and the batch stays where it
arrived. Some need a look inside (`Look`): message sets of magic 0 and 1, batches for a topic with another codec, and
batches whose topic has rules on keys or timestamps. The rest is refused, with its Kafka error.
"""

from __future__ import annotations

from chronik.replication.topic_settings import AS_SENT, TopicSettings
from chronik.runtime.invariants import check
from chronik.storage.config import FOREVER
from chronik.storage.errors import BatchTooLarge, RecordTooLarge
from chronik.wire import records
from chronik.wire.batches import MAGIC, MAGIC_AT, BatchView, recompressed, split, validate_produced
from chronik.wire.compression import CODEC_BITS, Codec
from chronik.wire.conversion import down_convert, up_convert
from chronik.wire.errors import InvalidRecord, Malformed, UnsupportedCompression
from chronik.wire.legacy_batches import ATTRIBUTES_AT as OLD_ATTRIBUTES_AT
from chronik.wire.legacy_batches import SIZE_COVERS_FROM

# Of Produce: from here on nothing older is accepted; from here on consumers may be expected to know zstd.
VERSION_MAGIC_2, VERSION_ZSTD = 3, 7
FETCHED_BYTES_MAX = 64 << 20  # of one batch that is decompressed for a client too old for it
OLD_DECOMPRESSED_BYTES_MAX = 8 << 20  # of a message set of magic 0 or 1, whose messages are all in memory at once
# What a batch may hold that must be looked into. While it is decompressed twice as much is taken, and a node may take
# 64 MiB and 16 times what it was sent.
DECOMPRESSED_BYTES_FREE, DECOMPRESSED_BYTES_PER_BYTE = 24 << 20, 8
QUICK_BYTES_MAX = 64 << 10  # at most 10,000 records: some milliseconds


class Look:
    """A batch that its header does not settle: an old message set, one for a topic with another codec, or one whose
    records the topic's rules ask for. `is_long` tells whether the work may be too long for the event loop."""

    __slots__ = ("_data", "_has_rules", "_now_ms", "_settings", "batch", "is_long")

    def __init__(
        self,
        data: memoryview,
        batch: BatchView | None,
        settings: TopicSettings,
        now_ms: int,
        *,
        is_compressed: bool,
        has_rules: bool,
    ) -> None:
        """`batch` is None for an old message set."""
        self._data = data
        self.batch = batch  # as it was sent
        self._settings = settings
        self._now_ms = now_ms
        self._has_rules = has_rules
        self.is_long = is_compressed or len(data) > QUICK_BYTES_MAX

    def opened(self) -> BatchView | None:
        """The batch to store, or None for an old message set without a complete message, which old clients may send.

        Raises an error that says what is wrong with the batch.
        """
        batch = self.batch
        if batch is None:
            if not _has_a_message(self._data):
                return None
            data = memoryview(bytearray(up_convert(self._data, OLD_DECOMPRESSED_BYTES_MAX)))
            verdict = judge(data, VERSION_MAGIC_2, self._settings, self._now_ms)
            if isinstance(verdict, Exception):
                raise verdict
            if isinstance(verdict, BatchView):
                return verdict
            batch, self._has_rules = verdict.batch, verdict._has_rules
            assert batch is not None, "up_convert makes magic 2"
        return batch if self._settings.compression_type == AS_SENT else _recompressed(batch, self._settings)

    def verify(self, batch: BatchView) -> None:
        """Raises what is wrong with an opened batch by the topic's rules on size, keys and timestamps."""
        config, now_ms = self._settings.log, self._now_ms
        if batch.size_bytes > config.max_message_bytes:
            raise RecordTooLarge(batch.size_bytes, config.max_message_bytes)
        if self._has_rules:
            keeps_times = config.message_timestamp_type == "CreateTime"
            records.verify(
                batch,
                decompressed_bytes_max(batch),
                keys_required=config.compacts,
                timestamp_ms_min=now_ms - config.message_timestamp_before_max_ms if keeps_times else -FOREVER,
                timestamp_ms_max=now_ms + config.message_timestamp_after_max_ms if keeps_times else FOREVER,
            )

    def inside(self) -> BatchView | None:
        """`opened` and `verify` in one, for a lane. Touches nothing but this object."""
        batch = self.opened()
        if batch is not None:
            self.verify(batch)
        return batch


# A batch to append as it is; one that needs a look inside; or why it is refused.
Verdict = BatchView | Look | Malformed | BatchTooLarge


def judge(data: object, version: int, settings: TopicSettings, now_ms: int) -> Verdict:
    """The one judgement of what a client sent for one partition. It reads the header and the CRC, and no record.

    The largest timestamp of the records is in the header. So a look inside is needed only for keys, for the smallest
    timestamp, for another codec, and to find the record whose timestamp is too large.
    """
    if type(data) is not memoryview:
        return InvalidRecord("produced records", 0, "null; a batch is expected")
    if version < VERSION_MAGIC_2 and not (_has_a_message(data) and data[MAGIC_AT] >= MAGIC):
        is_compressed = len(data) > OLD_ATTRIBUTES_AT and data[OLD_ATTRIBUTES_AT] & CODEC_BITS > 0
        return Look(data, None, settings, now_ms, is_compressed=is_compressed, has_rules=True)
    config = settings.log
    try:
        batch = validate_produced(data, config.max_message_bytes)
    except Malformed as fault:
        return fault.with_traceback(None)  # without the frames, which hold the data
    if version < VERSION_ZSTD and batch.attributes & CODEC_BITS == Codec.ZSTD:
        return UnsupportedCompression("produced batch", 21, f"zstd needs Produce v{VERSION_ZSTD}, this is v{version}")
    if len(data) > config.segment_bytes:
        return BatchTooLarge(len(data), config.segment_bytes)
    has_rules = settings.has_record_rules or batch.max_timestamp > now_ms + config.message_timestamp_after_max_ms
    if has_rules or settings.compression_type != AS_SENT:
        is_compressed = batch.attributes & CODEC_BITS > 0
        return Look(data, batch, settings, now_ms, is_compressed=is_compressed, has_rules=has_rules)
    return batch


def decompressed_bytes_max(batch: BatchView) -> int:
    return DECOMPRESSED_BYTES_FREE + DECOMPRESSED_BYTES_PER_BYTE * batch.size_bytes


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


def takes_long_to_open(batch: BatchView) -> bool:
    """Whether the records of a batch from the log may be too many to read them on the event loop."""
    return batch.attributes & CODEC_BITS > 0 or batch.size_bytes > QUICK_BYTES_MAX


def takes_long_to_convert(buffers: list[memoryview]) -> bool:
    """Whether `to_old_magic` is no work for the event loop."""
    if sum(map(len, buffers)) > QUICK_BYTES_MAX:
        return True
    return any(takes_long_to_open(batch) for buffer in buffers for batch in split(buffer))


def to_old_magic(buffers: list[memoryview], magic: int, first_offset: int) -> bytes:
    """Batches from the log as a message set of magic 0 or 1. Touches nothing but its arguments."""
    return b"".join(down_convert(buffer, magic, first_offset, FETCHED_BYTES_MAX) for buffer in buffers)
