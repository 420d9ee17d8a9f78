"""A topic's configuration over the node's, as replicas get it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import chronik
from chronik.broker.settings import Settings
from chronik.broker.topic_settings import LOG_KEYS, topic_settings
from chronik.catalogue.definitions import field_of
from chronik.catalogue.topic_keys import TOPIC_CONFIGS
from chronik.catalogue.values import ConfigType
from chronik.storage.config import LogConfig

ANOTHER = {
    ConfigType.INT: "2000000",
    ConfigType.LONG: "4321",
    ConfigType.DOUBLE: "0.25",
}
OTHER_KEYS = [
    "min.insync.replicas",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
]
WORDS = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",
    "chronik.durability": "os",
    "compression.type": "zstd",
    "compression.gzip.level": "7",
    "compression.lz4.level": "7",
    "compression.zstd.level": "7",
    "min.insync.replicas": "2",
}


def another(key: str) -> str:
    return WORDS.get(key) or ANOTHER[TOPIC_CONFIGS[key].type]


def test_without_any_setting_a_log_is_kept_as_kafka_keeps_it() -> None:
    """The storage's defaults and the configuration's must be the same, or a test of one says nothing of the other."""
    assert Settings.default().log_config({}) == LogConfig()


def test_every_field_of_a_log_has_a_key() -> None:
    """A field that no key reaches could never be configured."""
    fields = {each.name for each in dataclasses.fields(LogConfig)}
    assert fields == set(LOG_KEYS.values())


@pytest.mark.parametrize("field", LOG_KEYS.values())
def test_every_field_of_a_log_is_read(field: str) -> None:
    """A key is said to have an effect because LogConfig has its field, so something must read that field."""
    modules = Path(chronik.__file__).parent.rglob("*.py")
    assert any(re.search(rf"\bconfig\.{field}\b|\bself\.{field}\b", path.read_text()) for path in modules)


@pytest.mark.parametrize("key", LOG_KEYS)
def test_what_the_topic_sets_counts_alone(key: str) -> None:
    """One key changes one field, whatever the node's value."""
    before = Settings.default().log_config({})
    after = Settings.default().log_config({key: another(key)})
    field = key.removeprefix("chronik.").replace(".", "_")
    assert getattr(after, field) == type(getattr(after, field))(another(key)) != getattr(before, field)
    assert dataclasses.replace(after, **{field: getattr(before, field)}) == before


@pytest.mark.parametrize("key", [*LOG_KEYS, *OTHER_KEYS])
def test_the_nodes_value_counts_where_the_topic_is_silent(key: str) -> None:
    """The typed value a replica gets and the text that DescribeConfigs shows come by different ways, and must agree."""
    broker_key = TOPIC_CONFIGS[key].synonyms[0].key
    for settings in (
        Settings.load(None, environment={}, overrides={broker_key: another(key)}),
        Settings.default().with_dynamic({broker_key: another(key)}, {}),
        Settings.default().with_dynamic({}, {broker_key: another(key)}),
        Settings.default(),
    ):
        typed = getattr(settings, field_of(broker_key))
        assert typed == TOPIC_CONFIGS[key].parse(settings.topic_default(key))


UNITS = [
    ("log.retention.hours", "retention.ms", "2", "7200000"),
    ("log.retention.hours", "retention.ms", "-1", "-1"),
    ("log.retention.minutes", "retention.ms", "2", "120000"),
    ("log.roll.hours", "segment.ms", "3", "10800000"),
]


@pytest.mark.parametrize(("broker_key", "key", "text", "expected"), UNITS)
def test_hours_of_the_node_are_milliseconds_of_the_topic(broker_key: str, key: str, text: str, expected: str) -> None:
    """Kafka's keys differ in unit."""
    settings = Settings.load(None, environment={}, overrides={broker_key: text})
    assert settings.topic_default(key) == expected
    assert str(getattr(settings.log_config({}), key.replace(".", "_"))) == expected


def test_both_policies_are_kept_as_written() -> None:
    """Compaction and retention may both apply."""
    config = Settings.default().log_config({"cleanup.policy": "compact, delete"})
    assert config.cleanup_policy == "compact,delete"
    assert config.compacts
    assert config.deletes


def test_segments_may_be_tiny_for_tests_only() -> None:
    """Kafka's internal key does away with the lower limit."""
    assert Settings.default().log_config({"internal.segment.bytes": "100"}).segment_bytes == 100


@pytest.mark.parametrize(
    ("own", "codec", "level"),
    [
        ({}, "producer", None),
        ({"compression.type": "gzip"}, "gzip", None),  # -1, Kafka's default, is the library's
        ({"compression.type": "lz4"}, "lz4", 9),
        ({"compression.type": "zstd", "compression.zstd.level": "19"}, "zstd", 19),
        ({"compression.type": "snappy"}, "snappy", None),
        ({"compression.type": "uncompressed"}, "uncompressed", None),
    ],
)
def test_a_codec_comes_with_its_own_level(own: dict[str, str], codec: str, level: int | None) -> None:
    """Levels of different codecs mean different things."""
    settings = topic_settings(Settings.default(), own)
    assert (settings.compression_type, settings.compression_level) == (codec, level)


def test_the_least_of_in_sync_replicas_is_the_topics_or_the_nodes() -> None:
    """acks=all depends on it."""
    settings = Settings.default(min_insync_replicas=2)
    assert topic_settings(settings, {}).min_insync_replicas == 2
    assert topic_settings(settings, {"min.insync.replicas": "3"}).min_insync_replicas == 3
