"""`chronik consume`: which records, in which order, in which form."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable

import pytest

from chronik.testing import Cluster
from tests.cli.conftest import Run
from tests.house.repository import SOURCE

Unique = Callable[[str], str]
DAY = "2026-03-0{}T00:00:00Z"


@pytest.fixture
def topic(chronik: Run, unique: Unique) -> str:
    """Two partitions whose records alternate in time: 1, 3, 5 in the first, 2, 4, 6 in the second."""
    name = unique("cities")
    chronik("topic", "create", name, "--partitions", "2", "--config", "retention.ms=-1")
    for day in range(1, 7):
        place = ("-p", str((day + 1) % 2), "--timestamp", DAY.format(day), "--key", f"k{day}")
        value = b'{"day": %d, "city": "%s"}' % (day, (b"Bern", b"Basel", b"Chur")[day % 3])
        chronik("produce", name, *place, stdin=value if day != 4 else b"not json, Bern")
    return name


def days(lines: list[str]) -> list[int]:
    return [int(json.loads(line)["key"][1:]) for line in lines]


def test_partitions_are_merged_by_time(chronik: Run, topic: str) -> None:
    """The story of a topic is read in the order in which it happened."""
    merged = chronik("consume", topic, "--by-time", "--format", "json")
    assert days(merged.lines) == [1, 2, 3, 4, 5, 6], merged.err
    assert days(chronik("consume", topic, "--by-time", "--count", "3", "--format", "json").lines) == [1, 2, 3]
    late = chronik("consume", topic, "--by-time", "--from", DAY.format(3), "--to", DAY.format(6), "--format", "json")
    assert days(late.lines) == [3, 4, 5]


def test_a_pattern_is_looked_for_in_keys_and_values(chronik: Run, topic: str) -> None:
    """As grep would, and the count is of what is found."""
    found = ("consume", topic, "--by-time", "--format", "json", "--grep")
    assert days(chronik(*found, "Ber[nm]").lines) == [3, 4, 6]
    assert days(chronik(*found, "^k[12]$").lines) == [1, 2]
    assert days(chronik(*found, "Bern", "--count", "2").lines) == [3, 4]
    nothing = chronik("consume", topic, "--grep", "Genf")
    assert (nothing.exit_code, nothing.out, nothing.err) == (0, "", "None of 6 records matches.\n")
    bad = chronik("consume", topic, "--grep", "(")
    assert (bad.exit_code, "not a regular expression: missing )" in bad.err) == (2, True)


def test_a_condition_in_sql_chooses_records(chronik: Run, topic: str) -> None:
    """What is not JSON does not match, and stops nothing."""
    pytest.importorskip("duckdb")
    where = ("consume", topic, "--by-time", "--format", "json", "--where")
    assert days(chronik(*where, "value->>'$.city' = 'Bern'").lines) == [3, 6]
    assert days(chronik(*where, "_partition = 1 AND _timestamp > '2026-03-03T00:00:00Z'").lines) == [4, 6]
    both = chronik(*where, "(value->>'$.day')::int > 1", "--grep", "Ba|Ch", "--count", "2")
    assert days(both.lines) == [2, 5]
    bad = chronik(*where, "cty = 'Bern'")
    assert (bad.exit_code, bad.out, "cty" in bad.err) == (2, "", True)


def test_a_group_has_read_what_its_filter_hid(chronik: Run, topic: str, unique: Unique) -> None:
    """Otherwise a filtered group would read the same records for ever; but nothing behind the last that was printed."""
    group = unique("g")
    chronik("topic", "create", one := unique("one"))
    chronik("produce", one, stdin=b"a\nb\na\nb\nc\n")
    assert chronik("consume", one, "--group", group, "--grep", "b", "--count", "1").lines == ["b"]
    assert chronik("consume", one, "--group", group, "--count", "1").lines == ["a"]
    assert chronik("consume", one, "--group", group, "--grep", "x").err == "None of 2 records matches.\n"
    assert chronik("consume", one, "--group", group).lines == []


def test_members_of_a_share_group_read_each_record_once(chronik: Run, unique: Unique) -> None:
    """What was printed is accepted; what came after the last record that was wanted is for the next member."""
    group = unique("g")
    chronik("topic", "create", one := unique("one"))
    chronik("config", "set", "group", group, "share.auto.offset.reset=earliest")
    chronik("produce", one, stdin=b"a\nb\na\nb\nc\n")
    assert chronik("consume", one, "--share-group", group, "--count", "2").lines == ["a", "b"]
    assert chronik("consume", one, "--share-group", group, "--grep", "b", "--count", "1").lines == ["b"]
    assert chronik("consume", one, "--share-group", group).lines == ["c"]
    assert chronik("consume", one, "--share-group", group, "--from", "earliest").exit_code == 2


def test_topics_are_named_by_a_pattern(chronik: Run, unique: Unique) -> None:
    """It must match the whole name, as in subscriptions of Kafka's consumers."""
    prefix = unique("many")
    for name in ("a", "b", "other"):
        chronik("topic", "create", f"{prefix}-{name}")
        chronik("produce", f"{prefix}-{name}", stdin=name.encode())
    found = chronik("consume", "--match", f"{prefix}-[ab]", "--by-time", "--template", "{topic}={value}")
    assert sorted(found.lines) == [f"{prefix}-a=a", f"{prefix}-b=b"]
    none = chronik("consume", "--match", f"{prefix}")
    assert (none.exit_code, "no topic matches" in none.err) == (1, True)


def test_records_are_printed_in_a_form_of_ones_own(chronik: Run, topic: str) -> None:
    """For scripts that want neither JSON nor tabs."""
    shown = chronik("consume", topic, "--by-time", "--count", "2", "--template", r"{partition}@{offset}\t{value.city}")
    assert shown.lines == ["0@0\tBasel", "1@0\tChur"]


def test_values_that_are_json_stand_as_json_and_come_back_byte_by_byte(chronik: Run, unique: Unique) -> None:
    """`jq .value.city` works without fromjson, and a copy of a topic is still a copy."""
    source, copy = unique("source"), unique("copy")
    values = ['{"a":1.10, "a": 2}', "[ ]", "17", '"text"', "{broken", '{"n":[NaN]}', '{"ü":"\\ud800"}']
    for name in (source, copy):
        chronik("topic", "create", name)
    chronik("produce", source, stdin="\n".join(values).encode())
    exported = chronik("consume", source, "--format", "json")
    assert [type(json.loads(line)["value"]) for line in exported.lines] == [dict, list, str, str, str, str, dict]
    chronik("produce", copy, "--input", "json", stdin=exported.out.encode())
    assert chronik("consume", copy).lines == values


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--by-time", "--follow"], "it needs an end"),
        (["--by-time", "--group", "g"], "it needs an end"),
        (["--template", "{x}"], "no field 'x'"),
        (["--template", "{key}", "--keys"], "choose one"),
        (["--match", "x.*"], "or use --match"),
    ],
)
def test_options_that_contradict_each_other_are_refused(run_command: Run, words: list[str], what: str) -> None:
    """Before anything is read: no broker runs here."""
    done = run_command("consume", "x", *words)
    assert (done.exit_code, what in done.err) == (2, True), done.err


@pytest.mark.slow
def test_on_a_terminal_json_is_laid_out_and_nothing_takes_over_the_screen(
    run_command: Run, our_broker: Cluster, unique: Unique
) -> None:
    """In a pipe the same values are raw."""
    at, name = ("--bootstrap", our_broker.bootstrap), unique("screen")
    run_command("topic", "create", name, *at)
    hostile = b'\x1b[2J\xc2\x9b1mgone\n{"a":"\xc2\x9b31m","b":[1.10]}'
    run_command("produce", name, *at, stdin=hostile)
    assert run_command("consume", name, *at).out.encode() == hostile + b"\n"
    for form in ([], ["--format", "json"]):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "chronik.cli", "consume", name, *at, *form]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            shown = b""
            try:
                while data := os.read(ours, 4096):
                    shown += data
            except OSError:  # how Linux tells that the other end was closed
                pass
            assert process.wait() == 0
        os.close(ours)
        text = shown.decode().replace("\r\n", "\n")
        assert "\x1b" not in text
        assert "\x9b" not in text
        assert '"b": [\n' in text
        assert "1.10" in text
