"""Every seed has a cluster with its own shape, and keeps it when its schedule of faults is reduced."""

from __future__ import annotations

import pytest

from chronik.sim.errors import Violation
from chronik.sim.scenarios import run_named
from chronik.sim.swarm_scenario import SwarmScenario
from chronik.sim.sweep import report
from chronik.sim.world import World

pytestmark = pytest.mark.slow


def test_seeds_draw_small_and_large_clusters() -> None:
    drawn = [SwarmScenario().configure(World(seed)) for seed in range(400)]
    assert {shape["nodes"] for shape in drawn} == {1, 2, 3, 4, 5, 6, 7}
    assert {shape["replicas"] for shape in drawn} == {1, 2, 3, 4}
    assert {shape["first id"] for shape in drawn} == {0, 1}
    assert max(int(str(shape["partitions"])) for shape in drawn) == 200
    assert all(int(str(shape["replicas"])) <= int(str(shape["nodes"])) for shape in drawn)


def test_a_schedule_that_is_given_runs_on_the_same_shape() -> None:
    """Shrinking and a pasted test hand over faults alone."""
    whole = run_named("swarm", 4)
    again = run_named("swarm", 4, whole.faults)
    none = run_named("swarm", 4, [])
    assert again.lines == whole.lines
    assert again.drawn == whole.drawn == none.drawn


def test_a_failure_tells_what_was_drawn() -> None:
    outcome = run_named("swarm", 4)
    outcome.failure = Violation("1 some", "thing")
    told = report(outcome)
    assert f"drawn: nodes {outcome.drawn['nodes']}" in told
    assert "drawn: settings {" in told


@pytest.mark.parametrize("scenario", ["swarm", "wire"])
def test_some_seeds_have_a_node_with_id_0(scenario: str) -> None:
    """Kafka allows it, and incorrect code may treat 0 as no id."""
    for seed in range(8):
        outcome = run_named(scenario, seed)
        assert outcome.failure is None, report(outcome)
        if outcome.drawn["first id"] == 0:
            assert any(" node-0 " in line and "starts" in line for line in outcome.lines)
            return
    pytest.fail("no seed drew it")
