"""The entries of DescribeConfigs for each kind of resource: every key with its value, its source, and its synonyms.

An entry is complete; the handler omits what the client did not request. As in Kafka:
- a value is shown in canonical form; synonyms are shown as they were written, each in its unit;
- the list of synonyms begins where the key itself is set. So a topic's retention.ms that comes from log.retention.hours
  has no synonyms, and is shown as a default;
- the values of secrets and of unknown keys are never shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from chronik.broker import log_levels
from chronik.broker.settings import Settings
from chronik.broker.settings.layers import Layers, Setting
from chronik.broker.settings.values import parse_value
from chronik.catalogue.broker_keys import BROKER_KEYS
from chronik.catalogue.definitions import Definition, UpdateMode
from chronik.catalogue.group_keys import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from chronik.catalogue.topic_keys import TOPIC_CONFIGS
from chronik.catalogue.values import show_value
from chronik.catalogue.without_effect import LISTED_IF_SET
from chronik.metadata.config_layers import ConfigSource
from chronik.metadata.errors import refuse
from chronik.wire.error_codes import ErrorCode

UNKNOWN_TYPE = 0
# The documentation of such a key begins with this; `chronik config set` looks for it.
WITHOUT_EFFECT = "Without effect."
DYNAMIC_BROKER_LOGGER, DYNAMIC_CLIENT_METRICS, DYNAMIC_GROUP = 6, 7, 8  # sources that only one kind of resource has

# Broker keys for the same topic default, the finest unit first.
_alike = {
    synonym.key: tuple(each.key for each in definition.synonyms)
    for definition in TOPIC_CONFIGS.values()
    for synonym in definition.synonyms
}


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    config_source: int
    read_only: bool
    is_sensitive: bool
    config_type: int
    synonyms: tuple[Synonym, ...]
    documentation: str


def require_this_broker(node_id: int, name: str) -> None:
    if not (name.isascii() and name.isdecimal()):
        refuse(ErrorCode.INVALID_REQUEST, f"a broker is named by its number, not {name!r}")
    if int(name) != node_id:
        refuse(ErrorCode.INVALID_REQUEST, f"this is broker {node_id}: ask broker {name} itself")


def require_name(name: str) -> None:
    if not name:
        refuse(ErrorCode.INVALID_REQUEST, "there is no default resource of this type: give it a name")


def topic_entries(settings: Settings, own: Mapping[str, str]) -> list[ConfigEntry]:
    """`own` contains the topic's own configs."""
    inherited = _inherited_by_topics(settings)
    return [_topic_entry(TOPIC_CONFIGS[each.name], settings, own) if each.name in own else each for each in inherited]


@lru_cache(maxsize=8)
def _inherited_by_topics(settings: Settings) -> tuple[ConfigEntry, ...]:
    """The entries of a topic without own configs. Cached, because they are the same for all topics, and CreateTopics
    needs them for each one."""
    return tuple(_topic_entry(definition, settings, {}) for definition in TOPIC_CONFIGS.values())


def _topic_entry(definition: Definition, settings: Settings, own: Mapping[str, str]) -> ConfigEntry:
    name = definition.name
    text = own[name] if name in own else settings.topic_default(name)
    inherited = _synonyms(definition.synonyms[0].key, settings.layers) if definition.synonyms else ()
    entry = _of_resource(definition, text, ConfigSource.TOPIC if name in own else None, inherited)
    if definition.has_effect:
        return entry
    return entry._replace(documentation=f"{WITHOUT_EFFECT} In Kafka: {entry.documentation}")


def group_entries(settings: Settings, own: Mapping[str, str]) -> list[ConfigEntry]:
    entries = []
    for name, definition in GROUP_CONFIGS.items():
        if definition.synonyms:
            broker_key = definition.synonyms[0].key
            text, inherited = settings.layers.value(broker_key), _synonyms(broker_key, settings.layers)
        else:
            text, inherited = definition.default, (Synonym(name, definition.default, ConfigSource.DEFAULT),)
        source = DYNAMIC_GROUP if name in own else None
        entries.append(_of_resource(definition, own.get(name, text), source, inherited))
    return entries


def client_metrics_entries(own: Mapping[str, str]) -> list[ConfigEntry]:
    entries = []
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        source = DYNAMIC_CLIENT_METRICS if name in own else None
        entries.append(_of_resource(definition, own.get(name, definition.default), source, ()))
    return entries


def _of_resource(
    definition: Definition, text: str | None, own_source: int | None, inherited: tuple[Synonym, ...]
) -> ConfigEntry:
    """`own_source` is the source of a value on the resource itself. Without one, the first inherited value applies."""
    value = None if text is None else show_value(definition.parse(text))
    synonyms = inherited if own_source is None else (Synonym(definition.name, value, own_source), *inherited)
    return ConfigEntry(
        name=definition.name,
        value=value,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=False,
        is_sensitive=definition.is_sensitive,
        config_type=definition.type,
        synonyms=synonyms,
        documentation=definition.words,
    )


def broker_entries(settings: Settings) -> list[ConfigEntry]:
    """All entries of this node's configuration, set or default."""
    layers = settings.layers
    known = [each for each in BROKER_KEYS if each.name not in LISTED_IF_SET or layers.is_set(each.name)]
    made_up = _made_up(settings)
    found = [_broker_entry(definition, layers, made_up=made_up) for definition in known]
    named = {**layers.static, **layers.cluster, **layers.own}
    return found + [_unknown_entry(name, layers) for name in named if name not in BROKER_KEYS]


def cluster_entries(settings: Settings) -> list[ConfigEntry]:
    """Only values set at run time for all brokers."""
    layers = settings.layers
    entries = []
    for name in layers.cluster:
        definition = BROKER_KEYS.get(name)
        entry = _unknown_entry(name, layers) if definition is None else _broker_entry(definition, layers, made_up={})
        shared = tuple(each for each in entry.synonyms if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER)
        value = None if entry.is_sensitive else layers.cluster[name]
        source = shared[0].source if shared else ConfigSource.DEFAULT
        entries.append(entry._replace(value=value, synonyms=shared, config_source=source))
    return entries


def _made_up(settings: Settings) -> dict[str, str]:
    """Values with defaults that depend on other keys or on the machine."""
    admin = settings.admin_listener
    return {
        "node.id": str(settings.node_id),
        "broker.id": str(settings.node_id),
        "chronik.admin.listener": f"{admin.host}:{admin.port}" if admin else "none",
        "chronik.memory.budget.bytes": str(settings.memory_budget_bytes),
    }


def _broker_entry(definition: Definition, layers: Layers, *, made_up: Mapping[str, str]) -> ConfigEntry:
    name = definition.name
    synonyms = _synonyms(name, layers)
    value = made_up.get(name) or show_value(parse_value(definition, layers.value(name)))
    return ConfigEntry(
        name=name,
        value=None if definition.is_sensitive else value,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=definition.mode is UpdateMode.READ_ONLY,
        is_sensitive=definition.is_sensitive,
        config_type=definition.type,
        synonyms=synonyms,
        documentation=definition.words or f"{WITHOUT_EFFECT} {definition.section}.",
    )


def _unknown_entry(name: str, layers: Layers) -> ConfigEntry:
    synonyms = tuple(Synonym(each.name, None, each.source) for each in layers.settings(name))
    return ConfigEntry(
        name=name,
        value=None,
        config_source=synonyms[0].source,
        read_only=True,
        is_sensitive=True,
        config_type=UNKNOWN_TYPE,
        synonyms=synonyms,
        documentation="",
    )


def _synonyms(name: str, layers: Layers) -> tuple[Synonym, ...]:
    """All values of the key and then of its synonyms; strongest source first."""
    found: Iterable[Setting] = [each for alike in _alike.get(name, (name,)) for each in layers.settings(alike)]
    # The sort is stable: within a source, the finer unit stays first.
    found = sorted(found, key=lambda each: each.source)
    begins = next((index for index, each in enumerate(found) if each.name == name), len(found))
    hidden = BROKER_KEYS[name].is_sensitive
    return tuple(Synonym(each.name, None if hidden else each.value, each.source) for each in found[begins:])


def logger_entries() -> list[ConfigEntry]:
    return [
        ConfigEntry(
            name=name,
            value=level,
            config_source=DYNAMIC_BROKER_LOGGER,
            read_only=False,
            is_sensitive=False,
            config_type=UNKNOWN_TYPE,
            synonyms=(),
            documentation="",
        )
        for name, level in log_levels.levels().items()
    ]
