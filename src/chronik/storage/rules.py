"""Checks of a produced batch against its topic's settings: size, keys and timestamps. Reads records only if it must."""

from __future__ import annotations

from chronik.storage.config import FOREVER, LogConfig
from chronik.storage.errors import RecordTooLarge
from chronik.wire import records
from chronik.wire.batches import LENGTH_COVERS_FROM, BatchView

# What a batch may hold that must be looked into. While it is decompressed twice as much is taken, and a node may take
# 64 MiB and 16 times what it was sent.
DECOMPRESSED_BYTES_FREE, DECOMPRESSED_BYTES_PER_BYTE = 24 << 20, 8


def decompressed_bytes_max(batch: BatchView) -> int:
    return DECOMPRESSED_BYTES_FREE + DECOMPRESSED_BYTES_PER_BYTE * batch.size_bytes


def check_produced(batch: BatchView, config: LogConfig, now_ms: int) -> None:
    """Raises what to answer the producer. The header settles nearly all: the largest time of its records is in it."""
    size_bytes = batch.length_bytes + LENGTH_COVERS_FROM
    if size_bytes > config.max_message_bytes:
        raise RecordTooLarge(size_bytes, config.max_message_bytes)
    if is_settled_by_header(batch.max_timestamp, config, now_ms):
        return
    keeps_times = config.message_timestamp_type == "CreateTime"
    records.verify(
        batch,
        decompressed_bytes_max(batch),
        keys_required=config.compacts,
        timestamp_ms_min=now_ms - config.message_timestamp_before_max_ms if keeps_times else -FOREVER,
        timestamp_ms_max=now_ms + config.message_timestamp_after_max_ms if keeps_times else FOREVER,
    )


def is_settled_by_header(max_timestamp_ms: int, config: LogConfig, now_ms: int) -> bool:
    """Whether no record has to be looked at."""
    return (
        max_timestamp_ms <= now_ms + config.message_timestamp_after_max_ms
        and config.message_timestamp_before_max_ms == FOREVER
        and config.cleanup_policy == "delete"
    )
