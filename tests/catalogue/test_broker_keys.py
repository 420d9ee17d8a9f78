"""The table of broker keys: its notation, its attributes, the nearest name, and what may change at run time."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import chronik
from chronik.broker.settings import Settings
from chronik.broker.settings.values import parse_value
from chronik.broker.topic_settings import LOG_KEYS
from chronik.catalogue.broker_keys import BROKER_KEYS, CLASSES, LISTENER_ONLY, is_known
from chronik.catalogue.broker_values import ACTED_ON, FIELDS, BrokerValues
from chronik.catalogue.defaults import of_broker
from chronik.catalogue.definitions import Definition, UpdateMode, field_of
from chronik.catalogue.notation import read_table
from chronik.catalogue.topic_keys import TOPIC_CONFIGS
from chronik.catalogue.values import ConfigType
from chronik.catalogue.without_effect import FORMER, WITHOUT_EFFECT
from chronik.metadata.commands.alter_configs import APPEND, SET, AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.image import ResourceType
from chronik.replication.fetcher import FetchConfig
from tests.broker.settings.values import another_value
from tests.broker.small_node import SmallNode, run


def test_a_row_is_read_with_its_section_and_words() -> None:
    """The notation in the docstring of `notation`."""
    table = read_table("""
[First]
a.b  int  -1  read-only  -1|1..9
    What it does,
    at length.
c    list  ''  cluster-wide
[Second: why]
d    string  -  per-broker  x|y
""")
    assert table == {
        "a.b": Definition(
            "a.b", ConfigType.INT, "-1", UpdateMode.READ_ONLY, ("-1", "1..9"), "What it does, at length.", "First"
        ),
        "c": Definition("c", ConfigType.LIST, "", UpdateMode.CLUSTER_WIDE, (), "", "First"),
        "d": Definition("d", ConfigType.STRING, None, UpdateMode.PER_BROKER, ("x", "y"), "", "Second: why"),
    }


def test_every_default_is_a_value_of_its_key() -> None:
    """A default that its own bounds refuse would stop every node."""
    for each in BROKER_KEYS:
        parse_value(each, each.default)


def test_a_key_is_in_one_table_and_what_acts_says_what_it_does() -> None:
    """A key in two tables would have two defaults."""
    assert not ACTED_ON.keys() & WITHOUT_EFFECT.keys()
    assert not FORMER & (ACTED_ON.keys() | WITHOUT_EFFECT.keys())
    assert all(each.words.endswith(".") for each in ACTED_ON.values())
    assert not any(each.words for each in WITHOUT_EFFECT.values())


# Besides LOG_KEYS: `broker.topic_settings` asks for the topic's key and falls back to the broker's.
READ_BY_TOPIC_KEY = (
    "min.insync.replicas",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
)


def test_what_is_said_to_act_is_looked_at() -> None:
    """A key that is documented and that nobody asks for would be believed by whoever sets it."""
    package = Path(chronik.__file__).parent
    definitions = (package / "broker" / "settings" / "settings.py", package / "catalogue" / "broker_values.py")
    code = "".join(path.read_text() for path in package.rglob("*.py") if path not in definitions)
    words = set(re.findall(r"\w+", code))
    inherited = {field_of(TOPIC_CONFIGS[key].synonyms[0].key) for key in (*LOG_KEYS, *READ_BY_TOPIC_KEY)}
    names = {*FIELDS, *(field.name for field in dataclasses.fields(Settings))}
    assert sorted(names - words - inherited) == []


NEAREST = [
    ("num.partition", "num.partitions"),
    ("listener", "listeners"),
    ("message.max.byte", "message.max.bytes"),
    ("log.retention.hrs", "log.retention.hours"),
    ("offset.topic.replication.factor", "offsets.topic.replication.factor"),
    ("xyzzy", None),
    ("", None),
]


@pytest.mark.parametrize(("name", "expected"), NEAREST)
def test_the_nearest_name_is_close_or_there_is_none(name: str, expected: str | None) -> None:
    """A bad guess sends people the wrong way."""
    assert BROKER_KEYS.nearest(name) == expected


def test_keys_of_listeners_and_plugins_are_known() -> None:
    """They end in names that nobody can list."""
    assert is_known("listener.name.internal.ssl.keystore.location")
    assert is_known("zookeeper.connect")
    assert not is_known("listener.nam.internal")


TYPES = {
    ConfigType.BOOLEAN: "bool",
    ConfigType.SHORT: "int",
    ConfigType.INT: "int",
    ConfigType.LONG: "int",
    ConfigType.DOUBLE: "float",
    ConfigType.STRING: "str",
    ConfigType.LIST: "tuple[str, ...]",
}


@pytest.mark.parametrize("field", FIELDS)
def test_an_attribute_has_the_name_and_the_type_of_its_key(field: str) -> None:
    """mypy believes the annotation, so nothing else would notice that it differs from the row."""
    definition = BROKER_KEYS[FIELDS[field]]
    assert field == field_of(definition.name)
    annotated = {
        name: each for part in BrokerValues.__mro__ for name, each in vars(part).get("__annotations__", {}).items()
    }
    assert annotated[field] == TYPES[definition.type]
    assert definition.default is not None


def test_settings_hold_the_value_of_every_attribute() -> None:
    """An attribute that is not filled would fail when it is first read, perhaps hours after the start."""
    settings = Settings.default()
    for field, key in FIELDS.items():
        assert getattr(settings, field) == BROKER_KEYS[key].parsed_default()


def test_the_keys_of_listeners_are_those_of_certificates_and_stores() -> None:
    """They are found by their names, which must not catch more than is meant."""
    assert sorted(LISTENER_ONLY) == [
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ]
    assert sorted(CLASSES) == ["principal.builder.class", "ssl.engine.factory.class"]


@pytest.mark.parametrize("operation", [SET, APPEND])
def test_the_controller_changes_what_is_shown_as_changeable(operation: int) -> None:
    """DescribeConfigs shows a key as read-only or not; AlterConfigs must agree, for lists that grow as well."""
    node = SmallNode()
    differing = []
    for each in BROKER_KEYS:
        if each.name in LISTENER_ONLY | CLASSES or (operation == APPEND and each.type is not ConfigType.LIST):
            continue
        change = ConfigChange(key=each.name, operation=operation, value=another_value(each))
        asked = ResourceChange(resource_type=ResourceType.BROKER, resource_name="1", configs=[change])
        [answer] = run(
            node.store.submit(AlterConfigs(resources=[asked], incremental=True, validate_only=True))
        ).resources
        if bool(answer.error_code) != (each.mode is UpdateMode.READ_ONLY):
            differing.append((each.name, answer.error_message))
    assert differing == []


def test_a_list_grows_from_the_default_that_describe_configs_shows() -> None:
    """Kafka appends to the default if nothing is set."""
    node = SmallNode()
    change = ConfigChange(key="metric.reporters", operation=APPEND, value="mine")
    asked = ResourceChange(resource_type=ResourceType.BROKER, resource_name="", configs=[change])
    run(node.store.submit(AlterConfigs(resources=[asked], incremental=True)))
    shown = node.settings.layers.value("metric.reporters")
    assert shown == f"{BROKER_KEYS['metric.reporters'].default},mine"


# Outside of the broker, parts of a node have defaults for tests of their own.
FETCHING = {
    "replica.fetch.wait.max.ms": "wait_ms_max",
    "replica.fetch.min.bytes": "bytes_min",
    "replica.fetch.response.max.bytes": "bytes_max",
    "replica.fetch.max.bytes": "partition_bytes_max",
    "replica.fetch.backoff.ms": "retry_ms",
}


@pytest.mark.parametrize("key", FETCHING)
def test_replication_has_the_defaults_of_the_catalogue(key: str) -> None:
    """A test of replication with other values than a node's says little about a node."""
    assert getattr(FetchConfig(), FETCHING[key]) == of_broker(key)
