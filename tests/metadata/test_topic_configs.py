"""Config definitions: every key, type, default, synonym and limit as Kafka 4.3.1 has them, and the order of layers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from chronik.metadata.broker_configs import BROKER_CONFIGS, PER_BROKER, PER_LISTENER
from chronik.metadata.config_definitions import Definition, InvalidValue
from chronik.metadata.group_configs import GROUP_CONFIGS
from chronik.metadata.topic_configs import (
    INTERNAL_TOPIC_CONFIGS,
    TOPIC_CONFIGS,
    BrokerConfigs,
    ConfigSource,
    layers,
    resolve,
    settings,
)
from tests.oracle.jars import kafka_jars

OURS = {name for name in TOPIC_CONFIGS if name.startswith("chronik.")}
# Of tiered storage and of Java's own plug-ins; there is nothing here that they could change.
NOT_OURS = ("remote.", "follower.fetch.last.tiered.")

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


def accepted(definition: Definition, text: str) -> bool:
    try:
        definition.parse(text)
    except InvalidValue:
        return False
    return True


@pytest.mark.java
def test_definitions_are_kafkas() -> None:
    """A key that means something else here, or takes other values, breaks whoever moves over from Kafka."""
    tables = {
        "topic": {**TOPIC_CONFIGS, **INTERNAL_TOPIC_CONFIGS},
        "group": GROUP_CONFIGS,
        "broker": BROKER_CONFIGS,
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
        if (name.startswith(NOT_OURS) and kind == "broker") or name in PER_LISTENER:
            continue
        definition = tables[kind][name]
        assert definition.type.name == type_name, name
        if kind != "broker" or name not in {*PER_BROKER, "metric.reporters"}:
            unset = (
                kind == "broker" and default == ""
            )  # Kafka derives it from a key in hours, we from the topic's default
            assert unset or (definition.default or "") == default, name
    for name, definition in TOPIC_CONFIGS.items():
        if name not in OURS:
            assert [tuple(each) for each in definition.synonyms] == synonyms.get(name, []), name

    answers = tail.splitlines()
    assert len(answers) == len(questions)
    differing = [
        (kind, name, text, answer)
        for (kind, name, text), answer in zip(questions, answers, strict=True)
        if (answer == "ok") != accepted(tables[kind][name], text) and not deliberate(kind, name, text)
    ]
    assert not differing, "\n".join(map(str, differing))


def deliberate(kind: str, name: str, text: str) -> bool:
    """Where we refuse what Kafka takes and cannot obey, or judge keys together, as decisions/configs does."""
    if name in {*OURS, "remote.storage.enable", "remote.log.copy.disable"} or text == "NaN":
        return True
    # The topic's key has a lower limit; the broker's, which is its default, has none in Kafka.
    unlimited = {"log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"}
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


def test_settings_are_values_not_texts() -> None:
    """Storage compares numbers."""
    found = settings({"cleanup.policy": "compact, delete", "preallocate": "True"}, NONE)
    assert found["cleanup.policy"] == ["compact", "delete"]
    assert found["preallocate"] is True
    assert found["segment.bytes"] == 1 << 30
    assert found["min.cleanable.dirty.ratio"] == 0.5
    assert found["internal.segment.bytes"] is None
    assert found["chronik.durability"] == "fsync"


def test_every_default_is_a_value_of_its_key() -> None:
    """A default that its own rule refuses would surface when a topic is created without configs."""
    for table in (TOPIC_CONFIGS, BROKER_CONFIGS, GROUP_CONFIGS):
        for definition in table.values():
            assert definition.default is not None
            definition.parse(definition.default)
            assert definition.doc.endswith("."), definition.name
