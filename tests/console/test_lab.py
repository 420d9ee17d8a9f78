"""The lab plays what the simulator ran: the same run to the byte, and the step that broke an invariant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chronik.console.lab_process import log_event
from chronik.sim.scenarios import run_named
from tests.house.repository import SOURCE


def played(tmp_path: Path, *words: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    path = tmp_path / "trace.jsonl"
    command = [sys.executable, "-m", "chronik.console.lab_process", str(os.getpid()), str(path), *words]
    out = subprocess.check_output(command, env={"PYTHONPATH": str(SOURCE)})
    return json.loads(out)["summary"], [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("line", "kind", "lane"),
    [
        ("     0.000 node-1   starts (start 1)", "node", "node-1"),
        ("  3167.041 node-1   is candidate in term 2", "node", "node-1"),
        ("     1.921 node-3   info node 1 at node-1:9093: connected", "log", "node-3"),
        ("  1333.041 fault    Fault(1329, 'isolate', 0) hits node-1", "fault", "node-1"),
        ("  3542.312 writer   #0 writer@node-3 propose -> ok", "client", "writer"),
        ("  9104.041 world    VIOLATED 5 metadata is linearizable", "invariant", "world"),
    ],
)
def test_lines_of_a_log_become_events(line: str, kind: str, lane: str) -> None:
    event = log_event(line)
    assert event is not None
    assert (event["kind"], event["lane"]) == (kind, lane)


def test_a_line_that_is_none_is_passed_over() -> None:
    assert log_event("Traceback (most recent call last):") is None


@pytest.mark.slow
def test_watching_a_run_does_not_change_it(tmp_path: Path) -> None:
    """A seed that behaved differently while it was watched would show nothing about the failure."""
    summary, events = played(tmp_path, "quorum", "17", "")
    assert summary["log_hash"] == run_named("quorum", 17).log_hash
    assert summary["state"] == "passed"
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert [event["time_us"] for event in events] == sorted(event["time_us"] for event in events)
    messages = [event for event in events if event["kind"] == "message"]
    arrived = [event for event in messages if event["arrives_us"] is not None]
    assert arrived
    assert all(event["arrives_us"] >= event["time_us"] for event in arrived)
    assert {event["lane"] for event in messages} <= set(summary["lanes"])


@pytest.mark.slow
def test_a_failing_seed_shows_the_step_at_which_the_invariant_broke(tmp_path: Path) -> None:
    """Recorded packets that are played back are a fault that the product does not promise to survive."""
    summary, events = played(tmp_path, "wire", "4", "played-back")
    assert summary["state"] == "failed"
    broken = events[summary["failure"]["n"] - 1]
    assert broken["kind"] == "invariant"
    assert broken["text"].startswith(f"VIOLATED {summary['failure']['invariant']}")
    assert 'Found("wire", seed=4' in summary["test"]
