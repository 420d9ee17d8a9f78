"""Shrinking: the result still fails, and nothing can be removed from it."""

from __future__ import annotations

from random import Random

import pytest

from chronik.sim.faults import METADATA_WEIGHTS, Fault, draw
from chronik.sim.shrink import shrink


@pytest.mark.parametrize("seed", range(40))
def test_the_faults_that_matter_are_what_is_left(seed: int) -> None:
    random = Random(seed)
    faults = draw(random, node_count=3, span_ms=9000, count=12, weights=METADATA_WEIGHTS)
    guilty = set(random.sample(range(len(faults)), random.randint(0, 3)))
    needed = {(faults[at].at_ms, faults[at].kind, faults[at].node) for at in guilty}

    def fails(some: list[Fault]) -> bool:
        return needed <= {(fault.at_ms, fault.kind, fault.node) for fault in some}

    left = shrink(faults, fails)
    assert {(fault.at_ms, fault.kind, fault.node) for fault in left} == needed
    assert all(fault.duration_ms <= 1 and fault.amount <= 1 for fault in left), "durations that do not matter are short"


def test_a_duration_that_matters_stays() -> None:
    faults = [Fault(1, "kill", 1, duration_ms=800), Fault(5, "pause", 2, duration_ms=500)]
    left = shrink(faults, lambda some: any(fault.kind == "pause" and fault.duration_ms >= 200 for fault in some))
    assert left == [Fault(5, "pause", 2, duration_ms=250)]
