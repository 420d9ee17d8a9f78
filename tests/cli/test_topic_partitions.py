"""Verbs about partitions and about single offsets, against real brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.cli.conftest import Run

Unique = Callable[[str], str]


def test_old_records_are_deleted_up_to_an_offset_a_time_or_the_end(chronik: Run, unique: Unique) -> None:
    """Records that must be removed by law, or were written by mistake; nothing after the position is removed."""
    name = unique("old")
    chronik("topic", "create", name, "-p", "2", "-c", "retention.ms=-1")
    for day in range(1, 6):
        chronik("produce", name, "-p", "0", "--timestamp", f"2026-03-0{day}T00:00:00Z", stdin=b"%d" % day)
    chronik("produce", name, "-p", "1", stdin=b"new")
    delete = ("topic", "delete-records", name, "--format", "json")
    [row] = chronik(*delete, "--before", "1", "-p", "0").json
    assert (row["partition"], row["start_offset"], row["new_start_offset"]) == (0, 0, 1)
    assert chronik("consume", name, "-p", "0").lines == ["2", "3", "4", "5"]
    chronik(*delete, "--before", "2026-03-04T00:00:00Z")
    assert sorted(chronik("consume", name).lines) == ["4", "5", "new"]
    assert "START WAS" in chronik("topic", "delete-records", name, "--before", "latest").out
    assert chronik("consume", name).lines == []
    far = chronik(*delete, "--before", "99")
    assert (far.exit_code, far.out, "OFFSET_OUT_OF_RANGE" in far.err) == (1, "", True)
    assert chronik(*delete, "--before", "earliest").exit_code == 2
    assert chronik(*delete, "--before", "0", "-p", "5").exit_code == 1


def test_offsets_of_a_topic_that_a_group_no_longer_reads_are_deleted(chronik: Run, unique: Unique) -> None:
    """Otherwise its lag grows forever. Offsets of topics that it reads stay."""
    group, kept, old = unique("g"), unique("kept"), unique("old")
    for name in (kept, old):
        chronik("topic", "create", name, "-p", "2")
        chronik("group", "reset", group, "--to", "latest", "--topic", name, "--execute")
    delete = ("group", "delete-offsets", group, "--topic", old)
    [row] = chronik(*delete, "--partition", "1", "--format", "json").json
    assert row == {"topic": old, "partition": 1, "committed": 0}
    assert chronik(*delete).exit_code == 0
    again = chronik(*delete)
    assert (again.exit_code, "has no such offsets" in again.err) == (1, True)
    [left] = chronik("group", "describe", group, "--format", "json").json
    assert {row["topic"] for row in left["partitions"]} == {kept}


@pytest.mark.slow
def test_the_number_of_replicas_changes_and_leaders_return(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From a test topic to a safe one and back, without a list of brokers by hand."""
    with Cluster(nodes=3, data=tmp_path) as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        assert run_command("topic", "create", "t", "-p", "3", "-r", "1").exit_code == 0
        run_command("produce", "t", stdin=b"a\nb\nc\n")

        def described() -> list[tuple[int, list[int], list[int]]]:
            [topic] = run_command("topic", "describe", "t", "--format", "json").json
            return [(row["leader"], sorted(row["replicas"]), sorted(row["isr"])) for row in topic["partitions"]]

        grown = run_command("topic", "alter", "t", "--replication-factor", "3")
        assert (grown.exit_code, grown.out) == (0, "altered t\n"), grown.err
        while any(isr != [1, 2, 3] for _, _, isr in described()):
            pass  # brokers learn of it with a short delay
        assert len(run_command("consume", "t").lines) == 3

        leaders = [leader for leader, _, _ in described()]
        cluster.stop(leaders[0])
        cluster.start_again(leaders[0])
        while any(isr != [1, 2, 3] for _, _, isr in described()):
            pass
        assert run_command("topic", "elect", "t", "--format", "json").exit_code == 0
        assert [leader for leader, _, _ in described()] == leaders
        assert run_command("topic", "elect", "t").err == "No leader changed.\n"

        assert run_command("topic", "alter", "t", "-r", "1").exit_code == 0
        while any(len(replicas) != 1 for _, replicas, _ in described()):
            pass
        assert [leader for leader, _, _ in described()] == leaders
        many = run_command("topic", "alter", "t", "-r", "4")
        assert (many.exit_code, "4 replicas need as many brokers, and 3 are alive" in many.err) == (1, True)
        assert run_command("topic", "alter", "t", "-r", "0").exit_code == 2
        assert run_command("topic", "elect", "--unclean").exit_code == 2
