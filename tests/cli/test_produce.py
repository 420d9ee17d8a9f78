"""`chronik produce` against a broker: what is refused, what was written before that, and the warnings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.cli.conftest import Run


def test_rows_that_are_no_records_write_nothing_and_say_what_to_use(chronik: Run, unique: Callable[[str], str]) -> None:
    """Exit code 2 guarantees that a script may correct its input and start again."""
    topic = unique("orders")
    chronik("topic", "create", topic, "-p", "1")
    rows = b'{"id": 1, "city": "Bonn"}\n{"id": 2, "city": "Ulm"}\n'
    refused = chronik("produce", topic, "--input", "json", stdin=rows)
    assert (refused.exit_code, refused.out) == (2, "")
    assert "stdin, line 1: unknown key 'id'" in refused.err
    assert "Nothing was written" in refused.err
    assert chronik("consume", topic).out == ""
    half = chronik("produce", topic, "--input", "json", stdin=b'{"value": "a"}\n{"value": "b"}\n' + rows)
    assert (half.exit_code, "2 records before it were written" in half.err) == (1, True)
    assert chronik("consume", topic).lines == ["a", "b"]
    assert chronik("produce", topic, "--input", "jsonl", "--key-field", "id", stdin=rows).exit_code == 0
    assert chronik("consume", topic, "--from", "2", "--keys").lines == [
        '1\t{"id": 1, "city": "Bonn"}',
        '2\t{"id": 2, "city": "Ulm"}',
    ]


def test_files_are_named_in_complaints_and_each_csv_has_its_own_header(
    chronik: Run, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """With many files a line number alone names nothing."""
    topic = unique("rows")
    chronik("topic", "create", topic, "-p", "1")
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("id,city\n1,Bonn\n")
    second.write_text("city,id\nUlm,2\nJena\n")
    done = chronik("produce", topic, str(first), str(second), "--input", "csv", "--key-field", "id")
    assert (done.exit_code, f"{second}, line 3: 1 field" in done.err) == (1, True)
    assert "2 records before it were written" in done.err
    assert chronik("consume", topic, "--keys").lines == [
        '1\t{"id":"1","city":"Bonn"}',
        '2\t{"city":"Ulm","id":"2"}',
    ]


def test_a_timestamp_older_than_the_topics_retention_is_warned_of_once(
    chronik: Run, unique: Callable[[str], str]
) -> None:
    """The record is acknowledged and readable, and gone at the next check: without a word that is a lost record."""
    topic = unique("short")
    chronik("topic", "create", topic, "-p", "1", "-c", "retention.ms=3600000")
    old = chronik("produce", topic, "--timestamp", "2h ago", stdin=b"a\nb\n")
    assert old.exit_code == 0
    assert old.err.count("older than topic") == 1
    young = chronik("produce", topic, "--timestamp", "30m ago", stdin=b"a\n")
    assert (young.exit_code, young.err) == (0, "")
    from_json = chronik("produce", topic, "--input", "json", stdin=b'{"value": "a", "timestamp_ms": 5}')
    assert from_json.err.count("older than topic") == 1


@pytest.mark.slow
def test_a_record_that_waits_is_explained_within_seconds_and_given_up_in_time(run_command: Run) -> None:
    """Without a message the command seems to hang, and the node at fault is unknown."""
    with Cluster(nodes=3, settings={"min.insync.replicas": "3"}) as cluster:
        servers = ("--bootstrap", cluster.bootstrap)
        assert run_command("topic", "create", "waits", "-p", "1", *servers).exit_code == 0
        cluster.stop(3)
        done = run_command("produce", "waits", "--timeout", "5", *servers, stdin=b"a\n")
        assert run_command("produce", "waits", "--timeout", "0", *servers, stdin=b"a\n").exit_code == 2
    assert done.exit_code == 1
    waiting, *_, failed = done.err.splitlines()
    assert re.search(r"waiting to write to waits-0: node [12] answers NOT_ENOUGH_REPLICAS", waiting)
    assert "1 record" in failed
    assert "NOT_ENOUGH_REPLICAS" in failed
