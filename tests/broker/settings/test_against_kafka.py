"""Our tables of keys against Kafka's own, and our reading of properties files against Java's."""

from __future__ import annotations

import base64
import random
import subprocess
from pathlib import Path

import pytest

from chronik.broker.errors import BadSetting
from chronik.broker.settings.properties import parse_properties
from chronik.catalogue.broker_keys import BROKER_KEYS, OWN_PREFIX
from chronik.catalogue.broker_values import ACTED_ON
from chronik.catalogue.without_effect import FORMER, LISTED_IF_SET
from tests.oracle.jars import kafka_jars

pytestmark = pytest.mark.java

# Ours on purpose; broker_values.py says why.
# A hang is noticed in 3 s, not in 9.
OWN_DEFAULTS = {
    "log.dir": "/tmp/chronik-logs",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}
OWN_MODES = {"listeners": "read-only", "listener.security.protocol.map": "read-only"}


def kafka_says(*arguments: str, asked: str = "") -> list[str]:
    program = Path(__file__).with_name("KafkaSays.java")
    command = ["java", "-cp", f"{kafka_jars('4.3.1')}/*", str(program), *arguments]
    return subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_key_of_kafka_is_known_with_its_type_default_and_update_mode() -> None:
    """An operator who moves from Kafka keeps the file, so a wrong name or default would change the cluster."""
    kafka = {}
    for line in kafka_says("keys"):
        name, config_type, default, mode, internal = line.split("\t")
        if internal == "true":
            assert name in FORMER or name in BROKER_KEYS
            continue
        default_here = OWN_DEFAULTS.get(name, None if default == "-" else default)
        kafka[name] = (config_type, default_here, OWN_MODES.get(name, mode))
    ours = {
        each.name: (each.type.name, each.default, each.mode.value)
        for each in BROKER_KEYS
        if not each.name.startswith(OWN_PREFIX) and each.name not in LISTED_IF_SET
    }
    assert ours == kafka
    assert len(ACTED_ON) >= 90


def test_java_reads_the_same_keys_and_values_of_any_text() -> None:
    """The file's syntax is Java's. The generated texts consist mostly of characters with a meaning in it."""
    dice = random.Random(20_260_114)
    pieces = [
        "a",
        "b",
        "\\",
        "\n",
        "\r",
        "\r\n",
        " ",
        "\t",
        "\f",
        "=",
        ":",
        "#",
        "!",
        "u0041",
        "u00",
        "\\u00e9",
        "é",
        "n",
    ]
    texts = ["".join(dice.choices(pieces, k=dice.randint(1, 14))) for _ in range(20_000)]
    asked = "\n".join(base64.b64encode(text.encode()).decode() for text in texts)
    for text, line in zip(texts, kafka_says("properties", asked=asked), strict=True):
        verdict, *pairs = line.split(" ")
        if verdict == "malformed":
            with pytest.raises(BadSetting):
                parse_properties(text)
            continue
        expected = dict(tuple(_decoded(part) for part in pair.split("=")) for pair in pairs)
        read = parse_properties(text)
        for each in (read, expected):
            each.pop("", None)  # a lone backslash at the end makes Java's empty key come and go with the line's ending
        assert read == expected, repr(text)


def _decoded(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
