"""Materialized topics without Spark: the meaning of configs, published states, and restarts of the application."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from chronik.catalogue.topic_keys import TOPIC_CONFIGS
from chronik.pipeline.declarations import Bronze, Silver
from chronik.pipeline.materialized import State, TableSettings, TableState, schema_of_columns, state_of
from chronik.pipeline.supervisor import HEALTHY_S, Supervisor, application

DEFAULTS = {name: definition.default or "" for name, definition in TOPIC_CONFIGS.items()}


def settings(**more: str) -> TableSettings:
    """Of a topic with these chronik.table.* configs; dots are underscores."""
    own = {f"chronik.table.{name.replace('_', '.')}": value for name, value in more.items()}
    found = TableSettings.of("my.orders", DEFAULTS | {"chronik.table.enable": "true"} | own)
    assert found is not None
    return found


def test_a_topic_is_a_table_only_when_somebody_asked_for_it() -> None:
    """Also where a broker has never heard of it."""
    assert TableSettings.of("orders", DEFAULTS) is None
    assert TableSettings.of("orders", {}) is None
    assert settings() == TableSettings("my.orders")


def test_append_is_a_bronze_and_upsert_a_silver_over_one_that_is_not_kept() -> None:
    """A topic has one table, whatever its mode, under the topic's own name as far as a table can have it."""
    [appended] = settings(decode="json", partition_by="day, hour").declarations("day string, hour int")
    assert appended == Bronze(
        "my_orders", "my.orders", decode="json", schema="day string, hour int", partition_by=("day", "hour")
    )
    bronze, silver = settings(mode="upsert", backfill="latest").declarations("")
    assert isinstance(bronze, Bronze)
    assert isinstance(silver, Silver)
    assert (bronze.is_stored, bronze.start, bronze.key) == (False, "latest", "_key string")
    assert (silver.name, silver.keys, silver.delete_when) == ("my_orders", ("_key",), "_deleted")


@pytest.mark.parametrize(("on_error", "expected"), [("dlq", "dlq"), ("drop", "drop"), ("suspend", "fail")])
def test_suspending_is_stopping_at_the_record(on_error: str, expected: str) -> None:
    """Nothing of a batch with a broken record is written, so that going on loses nothing."""
    [bronze] = settings(on_error=on_error).declarations("")
    assert isinstance(bronze, Bronze)
    assert bronze.on_error == expected


def test_a_table_that_is_there_keeps_its_schema() -> None:
    """A restart must not infer another one from other records."""
    columns = [("id", "bigint"), ("a b", "array<string>"), ("_unknown", "string"), ("_offset", "bigint")]
    assert schema_of_columns(columns) == "`id` bigint, `a b` array<string>"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, State.RUNNING),
        ({"has_begun": False}, State.PENDING),
        ({"lag_ms": 10_001}, State.BACKFILL),
        ({"lag_ms": None}, State.RUNNING),
        ({"is_active": False}, State.FAILED),
        ({"is_active": False, "is_refused": True}, State.SUSPENDED),
    ],
)
def test_states(given: dict[str, Any], expected: State) -> None:
    """What an operator acts on."""
    standing = {"is_active": True, "is_refused": False, "has_begun": True, "lag_ms": 10_000, "target_lag_ms": 10_000}
    assert state_of(**(standing | given)) is expected


def test_a_state_survives_its_record_and_rubbish_is_none() -> None:
    """Any client may write to a topic, and a later release may add fields."""
    state = TableState("orders", "RUNNING", "/lake/orders", 7, 3, "", 99)
    assert TableState.parse(state.encoded()) == state
    assert TableState.parse(state.encoded()[:-1] + b', "later": 1}') == state
    for rubbish in (None, b"", b"[]", b"{}", b"\xff"):
        assert TableState.parse(rubbish) is None


@dataclass
class FakeMachine:
    """Processes that end by themselves after this many seconds."""

    lives_s: list[float]
    now_s: float = 0
    slept_s: list[float] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        return cast("subprocess.Popen[bytes]", self)

    def wait(self) -> int:
        self.now_s += self.lives_s.pop(0)
        return 1

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)


def test_an_application_that_dies_is_started_again_later_each_time() -> None:
    """A broken configuration must not use a core all the time; an application that ran for long is restarted at
    once."""
    machine = FakeMachine([1, 1, 1, HEALTHY_S, 1, 1, 1, 1, 1, 1, 1, 1])
    said: list[str] = []
    Supervisor(machine.start, said.append, clock_s=lambda: machine.now_s, sleep=machine.sleep).run(restarts_max=11)
    assert machine.slept_s == [1, 2, 4, 1, 2, 4, 8, 16, 32, 60, 60]
    assert said[0] == "the Spark application ended with 1; starting it again in 1 s"


def test_the_application_is_this_interpreters_own() -> None:
    """The one on the PATH may be another Python, without Chronik."""
    import sys

    command = application("b:1", Path("/lake"), "local[1]")
    assert command[:3] == [sys.executable, "-m", "chronik.pipeline.materialize"]
    assert command[-2:] == ["--master", "local[1]"]


def test_the_application_is_told_the_name_of_the_file_with_its_login_and_not_the_login() -> None:
    """Every user of a machine can list the arguments of its processes."""
    command = list(application("b:1", Path("/lake"), None, "/etc/chronik/client.properties"))
    assert command[command.index("--command-config") + 1] == "/etc/chronik/client.properties"
    assert "--command-config" not in application("b:1", Path("/lake"), None)
