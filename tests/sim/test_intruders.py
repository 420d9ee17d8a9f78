"""Unknown peers on the quorum's port and duplicate frames change nothing, and the tap that duplicates frames does not
change any other run."""

from __future__ import annotations

import pytest

from chronik.sim.scenarios import run_named
from chronik.sim.sweep import report

pytestmark = pytest.mark.slow


def test_frames_that_arrive_twice_change_nothing() -> None:
    for seed in range(3):
        outcome = run_named("wire", seed, only="doubled frames")
        assert outcome.failure is None, report(outcome)
        assert "doubled frames" in [each.kind for each in outcome.faults]


@pytest.mark.parametrize("seed", [0, 7])  # forged terms, and a forged deletion
def test_strangers_are_not_heard(seed: int) -> None:
    outcome = run_named("wire", seed, only="stranger")
    assert outcome.failure is None, report(outcome)
    assert "stranger" in [each.kind for each in outcome.faults]


def test_a_tap_that_only_listens_changes_no_run() -> None:
    """It has its own random stream: a schedule without its faults gives the same run in both scenarios."""
    assert run_named("wire", 3, []).log_hash == run_named("topics", 3, []).log_hash
