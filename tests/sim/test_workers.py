"""Processes that run seeds for a night: one that dies, hangs or raises costs one seed only."""

from __future__ import annotations

import os

import pytest

from chronik.sim.sweep import Result
from chronik.sim.workers import DIED, NICENESS, Workers

pytestmark = pytest.mark.slow


def run(scenario: str, seed: int, fault: str) -> Result:
    if seed == 3:
        os._exit(1)
    if seed == 5:
        raise KeyError("topic")
    return Result(seed, f"{scenario} {fault} {os.nice(0)}", "", 0, 0, "", 0.0)


def test_every_seed_has_a_result_though_processes_die() -> None:
    """A seed that exhausts memory is reported, and so are the results of the thousands of seeds after it."""
    workers = Workers(2, run)
    try:
        found = {result.seed: result.failure for result in workers.run("loss", "old disk", [2, 3, 5])}
        again = [result.seed for result in workers.run("swarm", "", [8])]
    finally:
        workers.close()
    niceness = min(os.nice(0) + NICENESS, 19)
    assert found == {2: f"loss old disk {niceness}", 3: DIED, 5: "KeyError: 'topic'"}
    assert again == [8]
