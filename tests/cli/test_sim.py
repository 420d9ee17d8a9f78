"""`chronik sim`: what its options ask of the simulator. That itself is tested in tests/sim."""

from __future__ import annotations

import pytest

from chronik.sim import scenarios, sweep
from chronik.sim.errors import Violation
from chronik.sim.faults import Fault
from chronik.sim.scenario import Outcome
from tests.cli.conftest import Run

FAULT = Fault(300, "kill", 2, duration_ms=1500)
FAILED = Outcome(7, "quorum", [FAULT], ["a line"], failure=Violation("3 committed", "is not"))


@pytest.mark.parametrize(
    ("words", "fault_count"),
    [((), 0), (("--shrink",), 0), (("--no-shrink",), 1)],
    ids=["by default", "--shrink", "--no-shrink"],
)
def test_a_failing_seed_is_shrunk_unless_told_otherwise(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], fault_count: int
) -> None:
    """Two hundred more runs are not what one wants who only looks for the first failure."""
    monkeypatch.setattr(scenarios, "run_named", lambda *_, **_named: FAILED)
    monkeypatch.setattr(sweep, "shrunk", lambda outcome, tell: Outcome(7, "quorum", [], [], failure=outcome.failure))
    done = run_command("sim", "--scenario", "quorum", "--seed", "7", *words)
    assert done.exit_code == 1
    assert f"faults: {fault_count}" in done.out


def test_a_fault_that_a_scenario_does_not_have_is_told_with_those_it_has(run_command: Run) -> None:
    """Nobody knows two dozen names by heart."""
    done = run_command("sim", "--scenario", "loss", "--fault", "lost-keys", "--seeds", "1")
    assert done.exit_code != 0
    assert "lost-journal" in done.err
