"""Where the value of a topic's key comes from. The keys themselves are in `chronik.catalogue.topic_keys`.

A topic's value is the first of: the topic's own; the broker's dynamic value of a synonym; the dynamic default of all
brokers; the broker's configuration file; the default. `layers` lists all of them, `resolve` returns the effective one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from chronik.catalogue.definitions import Definition
from chronik.catalogue.resource_keys import in_own_unit
from chronik.catalogue.topic_keys import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS
from chronik.metadata.image import ResourceType, View


class ConfigSource(IntEnum):
    """The numbers that Kafka uses in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Layer(NamedTuple):
    """One source of a key's value. `key` is the synonym that is set there."""

    key: str
    value: str  # in the topic key's unit
    source: ConfigSource


class BrokerConfigs(NamedTuple):
    """The configs of one broker that provide defaults for topics."""

    dynamic: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    static: Mapping[str, str]

    @classmethod
    def of(cls, view: View, broker_id: int, static: Mapping[str, str]) -> BrokerConfigs:
        return cls(view.config(ResourceType.BROKER, str(broker_id)), view.config(ResourceType.BROKER, ""), static)


def layers(definition: Definition, own: Mapping[str, str], broker: BrokerConfigs) -> Iterator[Layer]:
    """Every value of the key, the effective one first, the default last if there is one."""
    if definition.name in own:
        yield Layer(definition.name, own[definition.name], ConfigSource.TOPIC)
    for source, values in (
        (ConfigSource.DYNAMIC_BROKER, broker.dynamic),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, broker.dynamic_default),
        (ConfigSource.STATIC_BROKER, broker.static),
    ):
        for synonym in definition.synonyms:
            text = in_own_unit(values.get(synonym.key), synonym)
            if text is not None:
                yield Layer(synonym.key, text, source)
    if definition.default is not None:
        key = definition.synonyms[0].key if definition.synonyms else definition.name
        yield Layer(key, definition.default, ConfigSource.DEFAULT)


def resolve(name: str, own: Mapping[str, str], broker: BrokerConfigs) -> Any:
    """The effective value as a Python value; None for an internal key that is not set."""
    definition = TOPIC_CONFIGS.get(name) or INTERNAL_TOPIC_CONFIGS[name]
    first = next(layers(definition, own, broker), None)
    return None if first is None else definition.parse(first.value)
