"""From a failing seed to a report: a short schedule, the log, and lines to paste as a test."""

from __future__ import annotations

import pytest

from chronik.sim.faults import Fault
from chronik.sim.scenarios import run_named
from chronik.sim.sweep import report, shrunk, sweep
from tests.sim.found import Found
from tests.sim.planted import metadata_bugs

pytestmark = pytest.mark.slow

NOISE = [Fault(400, "wall jump", 2, amount=500), Fault(5000, "reset", 3, other=1), Fault(6000, "slow disk", 2, 300)]


def test_a_failure_is_shrunk_and_told_as_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata_bugs.lost_append_never_sent_again(monkeypatch)
    outcome = run_named("quorum", 3, sorted([Fault(300, "kill", 2, duration_ms=1500), *NOISE]))
    smaller = shrunk(outcome, lambda _: None)
    assert smaller.invariant == outcome.invariant
    assert [fault.kind for fault in smaller.faults] == ["kill"]
    told = report(smaller)
    assert "scenario quorum, seed 3" in told
    pasted = told[told.index("    Found(") :]
    found = eval(pasted.strip().rpartition(",")[0])
    assert found == Found("quorum", seed=3, faults=smaller.faults)


def test_a_sweep_gives_every_seed_its_result() -> None:
    results = list(sweep("quorum", range(2), jobs=1))
    assert [(result.seed, result.failure) for result in results] == [(0, ""), (1, "")]
    assert results[0].log_hash == run_named("quorum", 0).log_hash
