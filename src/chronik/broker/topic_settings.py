"""A topic's typed configuration for its replicas, with the node's value where the topic sets none.

The controller has checked the keys and values that a topic sets; see `chronik.catalogue.topic_keys`.
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

GZIP_LEVEL_DEFAULT = -1  # Kafka's value for the library's default
SEGMENT_BYTES_FOR_TESTS = "internal.segment.bytes"

# Topic key: field of Settings that applies if the topic does not set the key.
_settings_fields = {key: field_of(each.synonyms[0].key) for key, each in TOPIC_CONFIGS.items() if each.synonyms}
# Topic key for logs: field of LogConfig.
LOG_KEYS = {key: field_of(key) for key in TOPIC_CONFIGS if field_of(key) in {each.name for each in fields(LogConfig)}}


def topic_settings(settings: Settings, own: Mapping[str, str]) -> TopicSettings:
    """`own` contains the topic's own configs."""
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
    """The value for topics that do not set the key, as text. KeyError if it is not a topic key."""
    return next(layers(TOPIC_CONFIGS[name], {}, settings.layers.of_broker)).value


def _value(key: str, settings: Settings, own: Mapping[str, str]) -> Any:
    return TOPIC_CONFIGS[key].parse(own[key]) if key in own else getattr(settings, _settings_fields[key])
