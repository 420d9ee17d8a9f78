"""`chronik-bench` as a program: every mode against running brokers, and one JSON object at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from chronik.bench.main import main, parse_seconds
from chronik.testing.ports import free_ports

Bench = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bench:
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["chronik-bench", *words])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, out, err

    return run


def last_object(out: str) -> dict[str, Any]:
    told = json.loads(out.splitlines()[-1])
    assert isinstance(told, dict)
    return told


def measured(bench: Bench, *words: str) -> dict[str, Any]:
    """The object at the end of a run in which something was answered: a busy disk may take longer than a short one."""
    for duration in ("500ms", "5s", "50s"):
        code, out, _ = bench(*words, "--duration", duration, "--format", "json")
        told = last_object(out)
        assert (code, told["errors"]) == (0, 0)
        if told["messages"]:
            return told
    pytest.fail("nothing was answered, and nothing refused either")


@pytest.mark.parametrize("mode", ["produce", "consume", "roundtrip", "metadata"])
def test_every_mode_measures_and_ends_with_one_object(
    bench: Bench, bootstrap: str, unique: Callable[[str], str], mode: str
) -> None:
    """The keys that scripts rely on, and no error against a healthy broker."""
    topic = unique("bench")
    common = ("--bootstrap-servers", bootstrap, "--topic", topic, "--partitions", "3", "--concurrency", "4")
    if mode == "consume":
        measured(bench, *common, "--mode", "produce", "--messages-per-request", "10")
    told = measured(bench, *common, "--mode", mode, "--message-size", "64")
    assert {"msg_per_s", "mb_per_s", "p50_ms", "p99_ms", "errors"} <= told.keys()
    assert told["msg_per_s"] > 0
    assert 0 < told["p50_ms"] <= told["p99_ms"] <= told["max_ms"]
    assert (told["mode"], told["partitions"], told["concurrency"]) == (mode, 3, 4)


@pytest.mark.parametrize(
    "words",
    [
        ("--acks", "1"),
        ("--acks", "0"),
        ("--compression", "zstd", "--messages-per-request", "20"),
        ("--rate", "200"),
        ("--message-size", "5000"),
    ],
    ids=" ".join,
)
def test_producing_in_every_way(
    bench: Bench, bootstrap: str, unique: Callable[[str], str], words: tuple[str, ...]
) -> None:
    """Each option reaches the broker and gets a successful response."""
    told = measured(bench, "--bootstrap-servers", bootstrap, "--topic", unique("bench"), "--concurrency", "3", *words)
    if "--rate" in words:
        assert told["requests"] <= 0.2 * told["seconds"] * 1000 + 1


def test_people_get_a_few_lines(bench: Bench, bootstrap: str, unique: Callable[[str], str]) -> None:
    """Rate, latency, errors; nothing to decode."""
    words = ("--topic", unique("bench"), "--duration", "200ms", "--concurrency", "2")
    code, out, _ = bench("--bootstrap-servers", bootstrap, *words)
    assert code == 0
    for word in ("msg/s", "MB/s", "p50", "p99", "errors"):
        assert word in out


def test_an_empty_topic_cannot_be_consumed(bench: Bench, bootstrap: str, unique: Callable[[str], str]) -> None:
    """0 msg/s would be an answer to another question."""
    words = ("--bootstrap-servers", bootstrap, "--topic", unique("bench"), "--mode", "consume")
    code, _, err = bench(*words)
    assert (code, "is empty: fill it first" in err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--duration", "soon"),
        ("--concurrency", "0"),
        ("--mode", "destroy"),
        ("--rate", "0"),
        ("--mode", "roundtrip", "--message-size", "4"),
        ("--mode", "roundtrip", "--compression", "lz4"),
        ("--bootstrap-servers", "a:b"),
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_are_2(bench: Bench, words: tuple[str, ...]) -> None:
    """Before anything is measured."""
    assert bench(*words)[0] == 2


def test_nobody_there_is_3(bench: Bench) -> None:
    """A script must distinguish "no broker" from "slow broker"."""
    [port] = free_ports(1)
    code, _, err = bench("--bootstrap-servers", f"127.0.0.1:{port}", "--duration", "1s")
    assert (code, f"127.0.0.1:{port}" in err) == (3, True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15), ("500ms", 0.5), ("2m", 120), ("1.5s", 1.5), ("7", 7), ("1h", 3600)]
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    """The documentation uses 15s; the others are analogous."""
    assert parse_seconds(text) == seconds
