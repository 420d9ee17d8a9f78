"""The tables of keys: their notation, the nearest name, and their agreement with what the controller knows."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import chronik
from chronik.broker.settings import Settings
from chronik.broker.settings.acted_on import ACTED_ON
from chronik.broker.settings.definitions import Definition, UpdateMode, read_table
from chronik.broker.settings.keys import BROKER_KEYS, is_known
from chronik.broker.settings.values import parse_value
from chronik.broker.settings.without_effect import FORMER, WITHOUT_EFFECT
from chronik.metadata.broker_configs import BROKER_CONFIGS, PER_LISTENER
from chronik.metadata.config_definitions import ConfigType


def test_a_row_is_read_with_its_section_and_words() -> None:
    """The notation in the docstring of `definitions`."""
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


def test_what_is_said_to_act_is_looked_at() -> None:
    """A key that is documented and that nobody asks for would be believed by whoever sets it."""
    package = Path(chronik.__file__).parent
    tables = package / "broker" / "settings"
    code = "".join(
        path.read_text()
        for path in package.rglob("*.py")
        if path not in (tables / "settings.py", tables / "acted_on.py")
    )
    words = set(re.findall(r"\w+", code))
    assert [field.name for field in dataclasses.fields(Settings) if field.name not in words] == []


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


def test_the_controller_knows_the_same_keys_as_changeable() -> None:
    """Broker and controller both judge a change; where they differ, one refuses what the other shows as changeable.

    Listeners are read-only here, so the broker refuses before the controller is asked; tiered storage there is none of.
    """
    listeners = {"listeners", "listener.security.protocol.map"}
    tiered = {each.name for each in BROKER_KEYS if each.section.startswith("Tiered")}
    changeable = {each.name: each.type for each in BROKER_KEYS if each.mode is not UpdateMode.READ_ONLY}
    theirs = {name: definition.type for name, definition in BROKER_CONFIGS.items() if name not in listeners | tiered}
    assert {name: kind for name, kind in changeable.items() if name not in PER_LISTENER | tiered} == theirs
