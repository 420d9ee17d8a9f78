"""A topic's configuration as its replicas need it: typed, and the node's where the topic has none of its own.

Which keys a topic may set, and with which values, the controller has checked; see `chronik.catalogue.topic_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from chronik.catalogue.definitions import field_of
from chronik.catalogue.topic_keys import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS
from chronik.metadata.config_layers import layers
from chronik.replication.topic_settings import TopicSettings
from chronik.storage.config import LogConfig

if TYPE_CHECKING:
    from chronik.broker.settings import Settings

GZIP_LEVEL_DEFAULT = -1  # Kafka's way to say: as the library does
SEGMENT_BYTES_FOR_TESTS = "internal.segment.bytes"

# Keys of the topic that say how its logs are kept. LogConfig names its fields as the keys.
LOG_KEYS = {key: field_of(key) for key in TOPIC_CONFIGS if field_of(key) in {each.name for each in fields(LogConfig)}}


def topic_settings(settings: Settings, own: Mapping[str, str]) -> TopicSettings:
    """`own` is what is set on the topic."""
    codec = _value("compression.type", settings, own)
    level_key = f"compression.{codec}.level"
    level = _value(level_key, settings, own) if level_key in TOPIC_CONFIGS else None
    if codec == "gzip" and level == GZIP_LEVEL_DEFAULT:
        level = None
    minimum = _value("min.insync.replicas", settings, own)
    return TopicSettings(log_config(settings, own), minimum, codec, level)


def log_config(settings: Settings, own: Mapping[str, str]) -> LogConfig:
    values = {field: _value(key, settings, own) for key, field in LOG_KEYS.items()}
    values["cleanup_policy"] = ",".join(values["cleanup_policy"])
    if SEGMENT_BYTES_FOR_TESTS in own:
        values["segment_bytes"] = INTERNAL_TOPIC_CONFIGS[SEGMENT_BYTES_FOR_TESTS].parse(own[SEGMENT_BYTES_FOR_TESTS])
    return LogConfig(**values)


def topic_default(settings: Settings, name: str) -> str:
    """What holds for topics that do not set the key, as text. KeyError for a key that topics do not have."""
    return next(layers(TOPIC_CONFIGS[name], {}, settings.layers.of_broker)).value


def _value(key: str, settings: Settings, own: Mapping[str, str]) -> Any:
    definition = TOPIC_CONFIGS[key]
    return definition.parse(own[key]) if key in own else getattr(settings, field_of(definition.synonyms[0].key))
