"""A topic's configuration as its replicas need it: typed, and the node's where the topic has none of its own.

Which keys a topic may set, and with which values, the controller has checked; see `metadata.topic_configs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chronik.metadata.topic_configs import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS, layers
from chronik.replication.topic_settings import TopicSettings
from chronik.storage.config import LogConfig

if TYPE_CHECKING:
    from chronik.broker.settings import Settings

GZIP_LEVEL_DEFAULT = -1  # Kafka's way to say: as the library does
SEGMENT_BYTES_FOR_TESTS = "internal.segment.bytes"

# Key of the topic -> field of Settings that counts where the topic is silent. LogConfig names its fields as the keys.
LOG_KEYS = {
    "segment.bytes": "log_segment_bytes",
    "segment.ms": "log_roll_ms",
    "retention.ms": "log_retention_ms",
    "retention.bytes": "log_retention_bytes",
    "cleanup.policy": "log_cleanup_policy",
    "delete.retention.ms": "log_cleaner_delete_retention_ms",
    "min.compaction.lag.ms": "log_cleaner_min_compaction_lag_ms",
    "max.compaction.lag.ms": "log_cleaner_max_compaction_lag_ms",
    "min.cleanable.dirty.ratio": "log_cleaner_min_cleanable_ratio",
    "max.message.bytes": "message_max_bytes",
    "message.timestamp.type": "log_message_timestamp_type",
    "message.timestamp.before.max.ms": "log_message_timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "log_message_timestamp_after_max_ms",
    "index.interval.bytes": "log_index_interval_bytes",
    "file.delete.delay.ms": "log_segment_delete_delay_ms",
    "chronik.durability": "durability",
}
OTHER_KEYS = {
    "min.insync.replicas": "min_insync_replicas",
    "compression.type": "compression_type",
    "compression.gzip.level": "compression_gzip_level",
    "compression.lz4.level": "compression_lz4_level",
    "compression.zstd.level": "compression_zstd_level",
}
# The broker checks and keeps these; `chronik materialize` acts on them.
TABLE_KEYS = frozenset(key for key in TOPIC_CONFIGS if key.startswith("chronik.table."))
KEYS_WITHOUT_EFFECT = frozenset(TOPIC_CONFIGS) - LOG_KEYS.keys() - OTHER_KEYS.keys() - TABLE_KEYS
_log_fields = tuple((key.removeprefix("chronik.").replace(".", "_"), key, name) for key, name in LOG_KEYS.items())


def topic_settings(settings: Settings, own: Mapping[str, str]) -> TopicSettings:
    """`own` is what is set on the topic."""
    codec = _value("compression.type", OTHER_KEYS["compression.type"], settings, own)
    level_key = f"compression.{codec}.level"
    level = _value(level_key, OTHER_KEYS[level_key], settings, own) if level_key in OTHER_KEYS else None
    if codec == "gzip" and level == GZIP_LEVEL_DEFAULT:
        level = None
    minimum = _value("min.insync.replicas", OTHER_KEYS["min.insync.replicas"], settings, own)
    return TopicSettings(log_config(settings, own), minimum, codec, level)


def log_config(settings: Settings, own: Mapping[str, str]) -> LogConfig:
    values = {field: _value(key, name, settings, own) for field, key, name in _log_fields}
    values["cleanup_policy"] = ",".join(values["cleanup_policy"])
    if SEGMENT_BYTES_FOR_TESTS in own:
        values["segment_bytes"] = INTERNAL_TOPIC_CONFIGS[SEGMENT_BYTES_FOR_TESTS].parse(own[SEGMENT_BYTES_FOR_TESTS])
    return LogConfig(**values)


def topic_default(settings: Settings, name: str) -> str:
    """What holds for topics that do not set the key, as text. KeyError for a key that topics do not have."""
    return next(layers(TOPIC_CONFIGS[name], {}, settings.layers.of_broker)).value


def _value(key: str, field: str, settings: Settings, own: Mapping[str, str]) -> Any:
    return TOPIC_CONFIGS[key].parse(own[key]) if key in own else getattr(settings, field)
