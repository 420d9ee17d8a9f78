"""A fault that does not end: the healthy majority serves without an operator."""

from __future__ import annotations

import pytest

from chronik.sim.scenarios import run_named
from chronik.sim.sweep import report

pytestmark = pytest.mark.slow

# `make sim` runs all that a seed may draw.
SURVIVED = ("dead node", "mute node", "deaf node", "slowed disk", "hung disk", "filled disk", "slowed link")


@pytest.mark.parametrize("fault", SURVIVED)
def test_the_majority_serves_while_one_stays_ill(fault: str) -> None:
    for seed in range(2):
        outcome = run_named("lasting", seed, only=fault)
        assert outcome.failure is None, report(outcome)
        assert fault in [each.kind for each in outcome.faults]
