"""`--watch`: rounds on a terminal and in a pipe, and how it ends."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from chronik.cli.topic_rows import in_order, with_rates
from chronik.cli.watching import HOME_AND_CLEAR, with_periods
from chronik.testing import Cluster
from tests.cli.conftest import Run
from tests.cli.interrupts import heed_interrupts
from tests.house.repository import SOURCE

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("topic list --watch", "topic list --watch=2"),
        ("topic list --watch 5", "topic list --watch 5"),
        ("topic list --watch 0.5 --internal", "topic list --watch 0.5 --internal"),
        ("topic list --watch --internal", "topic list --watch=2 --internal"),
        ("topic list --watch=1", "topic list --watch=1"),
        ("produce t -- --watch", "produce t -- --watch"),
    ],
)
def test_the_number_of_seconds_may_be_missing(typed: str, meant: str) -> None:
    """Most people want "again and again", not a number."""
    assert with_periods(typed.split()) == meant.split()


def watching(broker: Cluster, *words: str, **pipes: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "chronik.cli", *words, "--watch", "0.1", "--bootstrap", broker.bootstrap]
    return subprocess.Popen(command, env=ENVIRONMENT, preexec_fn=heed_interrupts, **pipes)


@pytest.mark.slow
def test_in_a_pipe_each_round_is_one_document_and_ctrl_c_ends_it_with_0(run_command: Run, our_broker: Cluster) -> None:
    """`jq` reads them as they come."""
    run_command("topic", "create", "watched", "--if-not-exists", "--bootstrap", our_broker.bootstrap)
    pipe = subprocess.PIPE
    with watching(our_broker, "topic", "list", "--details", "--format", "json", stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        rounds = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    rates = [row["records_per_s"] for each in rounds for row in each if row["name"] == "watched"]
    assert rates == [None, 0.0, 0.0]


@pytest.mark.slow
def test_on_a_terminal_a_round_replaces_the_one_before(run_command: Run, our_broker: Cluster) -> None:
    """Otherwise the numbers that matter scroll away."""
    run_command("topic", "create", "watched", "--if-not-exists", "--bootstrap", our_broker.bootstrap)
    ours, theirs = pty.openpty()
    with watching(our_broker, "topic", "list", "watched", stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while shown.count(HOME_AND_CLEAR.encode()) < 3:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    os.close(ours)
    screens = [io.StringIO(each).read() for each in shown.decode().split(HOME_AND_CLEAR)]
    assert screens[0] == ""
    assert re.match(r"every 0\.1 s, Ctrl-C ends  \d{4}-\d\d-\d\dT[\d:]+[+-]\d\d:\d\d\r\n\r\n\x1b\[1mTOPIC ", screens[1])
    assert "watched" in screens[1]


def test_a_period_that_makes_no_sense_is_refused(run_command: Run) -> None:
    """Nothing is asked a thousand times a second by a typing error."""
    for words in (["topic", "list"], ["cluster", "status"], ["table", "list"]):
        done = run_command(*words, "--watch", "0")
        assert (done.exit_code, "use 0.1 to 86,400 seconds" in done.err) == (2, True), done.err


def test_rates_come_from_two_rounds() -> None:
    """A topic that is new, or was created again, has no rate yet."""
    previous: list[tuple[int, dict[str, int]]] = []

    def look(at_s: int, **ends: int | None) -> list[float | None]:
        rows = [{"name": name, "end_offsets": end} for name, end in ends.items()]
        return [row["records_per_s"] for row in with_rates(rows, previous, at_s * 10**9)]

    assert look(0, a=10, b=5) == [None, None]
    assert look(2, a=30, b=4, c=1) == [10.0, None, None]
    assert look(4, a=30, b=None, c=3) == [0.0, None, 1.0]


def test_the_largest_come_first_and_what_is_unknown_last() -> None:
    """Users sort to find the largest. Forever is longer than any number."""
    rows: list[dict[str, Any]] = [
        {"name": "a", "size_bytes": 1, "retention_ms": 5},
        {"name": "b", "size_bytes": 3, "retention_ms": -1},
        {"name": "c", "size_bytes": None, "retention_ms": None},
    ]
    assert [row["name"] for row in in_order(rows, "size")] == ["b", "a", "c"]
    assert [row["name"] for row in in_order(rows, "retention")] == ["b", "a", "c"]
    assert [row["name"] for row in in_order(rows, "name")] == ["a", "b", "c"]
