"""Config definitions: every key, type, default, synonym and limit as Kafka 4.3.1 has them, and the order of layers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from chronik.catalogue.broker_keys import BROKER_KEYS, CLASSES, READ_ONLY
from chronik.catalogue.group_keys import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from chronik.catalogue.resource_keys import in_own_unit
from chronik.catalogue.topic_keys import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS
from chronik.catalogue.without_effect import DYNAMIC_ONLY
from chronik.metadata.config_layers import BrokerConfigs, ConfigSource, layers, resolve
from tests.broker.settings.values import is_allowed
from tests.oracle.jars import kafka_jars

OURS = {name for name in TOPIC_CONFIGS if name.startswith("chronik.")}
LISTENERS = {"listeners", "listener.security.protocol.map"}  # read-only here, not in Kafka

NONE = BrokerConfigs({}, {}, {})
VALUES = [
    "", " ", "0", "1", "-1", "-2", "-3", "2", "5", "9", "10", "17", "18", "22", "23", "99", "100", "999", "1000",
    "1048575", "1048576", "524287", "524288", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-131072", "-131073", "0.5", "1.0", "1.1", "-0.1", "1e3", "1.5e2",
    "5d", "0x10", "1_000", "+5", " 5 ", "٣", "NaN", "true", "TRUE", " false ", "yes", "compact", "delete",
    "compact,delete", "delete, delete", "Compact", "zstd", "uncompressed", "none", "producer", "CreateTime",
    "LogAppendTime", "createtime", "*", "0:1", "0:1,1:2", "0:1,*", "0:a", "0:1:2", "fsync", "earliest", "latest",
    "by_duration:PT1H", "by_duration:P", "by_duration:1", "read_committed",
]  # fmt: skip


@pytest.mark.java
def test_definitions_are_kafkas() -> None:
    """A key that means something else here, or takes other values, breaks whoever moves over from Kafka."""
    tables = {
        "topic": {**TOPIC_CONFIGS, **INTERNAL_TOPIC_CONFIGS},
        "group": GROUP_CONFIGS,
        "broker": {each.name: each for each in BROKER_KEYS if each.name not in (READ_ONLY - LISTENERS) | CLASSES},
    }
    questions = [(kind, name, text) for kind, table in tables.items() for name in table for text in VALUES]
    asked = "".join(f"{kind}\t{name}\t{text.encode().hex()}\n" for kind, name, text in questions)
    java = shutil.which("java") or "java"
    class_path = os.pathsep.join(str(jar) for jar in kafka_jars("4.3.1").glob("*.jar"))
    source = Path(__file__).with_name("ConfigOracle.java")
    command = [
        java,
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dfile.encoding=UTF-8",
        "-cp",
        class_path,
        str(source),
    ]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    head, _, tail = done.stdout.partition("\n\n")

    synonyms: dict[str, list[tuple[str, int]]] = {}
    for line in head.splitlines():
        what, *fields = line.split("\t")
        if what == "synonym":
            name, key, factor = fields
            synonyms.setdefault(name, []).append((key, int(factor)))
            continue
        kind, name, type_name, default, _ = fields
        if name in CLASSES:
            continue  # never changed at run time here
        definition = tables[kind][name]
        assert definition.type.name == type_name, name
        if name not in DYNAMIC_ONLY:
            assert (definition.default or "") == default, name
    for name, definition in TOPIC_CONFIGS.items():
        if name not in OURS:
            assert [(each.key, each.factor) for each in definition.synonyms] == synonyms.get(name, []), name

    answers = tail.splitlines()
    assert len(answers) == len(questions)
    differing = [
        (kind, name, text, answer)
        for (kind, name, text), answer in zip(questions, answers, strict=True)
        if (answer == "ok") != is_allowed(tables[kind][name], text) and not deliberate(kind, name, text)
    ]
    assert not differing, "\n".join(map(str, differing))


def deliberate(kind: str, name: str, text: str) -> bool:
    """Where we refuse what Kafka takes and cannot obey, or judge keys together, as decisions/configs does."""
    if name in {*OURS, "remote.storage.enable", "remote.log.copy.disable"} or text == "NaN":
        return True
    if name == "listeners" and not text.strip():
        return True  # refused when all keys of listeners are read together
    # The topic's key has a lower limit; the broker's, which is its default, has none in Kafka.
    unlimited = {"log.flush.interval.ms", "log.roll.jitter.ms", "log.roll.ms"}
    negative = text.startswith("-") or text == "0"
    return negative and (name == "internal.segment.bytes" or (kind == "broker" and name in unlimited))


def test_the_first_layer_that_has_a_value_holds() -> None:
    """Topic over broker over cluster default over file over built-in default, as DescribeConfigs lists them."""
    definition = TOPIC_CONFIGS["retention.ms"]
    full = BrokerConfigs({"log.retention.ms": "2"}, {"log.retention.ms": "3"}, {"log.retention.ms": "4"})
    found = list(layers(definition, {"retention.ms": "1"}, full))
    assert [(layer.value, layer.source) for layer in found] == [
        ("1", ConfigSource.TOPIC),
        ("2", ConfigSource.DYNAMIC_BROKER),
        ("3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("4", ConfigSource.STATIC_BROKER),
        ("604800000", ConfigSource.DEFAULT),
    ]
    assert [layer.key for layer in found] == ["retention.ms", *["log.retention.ms"] * 4]


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finer_unit_wins_in_a_brokers_file(static: dict[str, str], retention_ms: int) -> None:
    """Files have carried log.retention.hours since the first Kafka; -1 means for ever in every unit."""
    assert resolve("retention.ms", {}, BrokerConfigs({}, {}, static)) == retention_ms


@pytest.mark.parametrize(
    ("key", "own", "value"),
    [
        ("cleanup.policy", {"cleanup.policy": "compact, delete"}, ("compact", "delete")),
        ("preallocate", {"preallocate": "True"}, True),
        ("segment.bytes", {}, 1 << 30),
        ("min.cleanable.dirty.ratio", {}, 0.5),
        ("internal.segment.bytes", {}, None),
        ("chronik.durability", {}, "fsync"),
    ],
)
def test_a_resolved_value_is_typed(key: str, own: dict[str, str], value: object) -> None:
    """Storage compares numbers."""
    assert resolve(key, own, NONE) == value


def test_every_default_is_a_value_of_its_key() -> None:
    """A default that its own rule refuses would surface when a topic is created without configs."""
    for table in (TOPIC_CONFIGS, GROUP_CONFIGS, CLIENT_METRICS_CONFIGS):
        for definition in table.values():
            assert definition.default is not None
            definition.parse(definition.default)
            assert definition.words.endswith("."), definition.name


@pytest.mark.parametrize("key", [name for name, each in TOPIC_CONFIGS.items() if each.synonyms])
def test_a_topic_can_inherit_every_value_that_a_broker_accepts(key: str) -> None:
    """A value that the broker accepts and the topic refuses breaks every answer that shows the topic's configuration.

    0 is left out for retention: the node refuses it when it starts.
    """
    definition = TOPIC_CONFIGS[key]
    for synonym in definition.synonyms:
        for text in (each for each in VALUES if is_allowed(BROKER_KEYS[synonym.key], each)):
            inherited = in_own_unit(text, synonym)
            assert inherited is not None
            assert is_allowed(definition, inherited), (synonym.key, text)
