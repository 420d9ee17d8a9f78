"""300 seeds, of every scenario, each a whole cluster under faults. `make sim SEEDS=1000` runs more of them."""

from __future__ import annotations

import pytest

from chronik.sim.scenarios import run_named
from chronik.sim.sweep import report

pytestmark = pytest.mark.slow

SEEDS_PER_TEST = 8
COUNTS = {
    "quorum": 140,
    "metadata": 80,
    "topics": 24,
    "members": 14,
    "records": 30,
    "groups": 16,
    "consumer-groups": 8,
    "share-groups": 8,
    "damage": 10,
    "upkeep": 16,
    "moves": 16,
    "recreated": 12,
    "swarm": 12,
    "wire": 8,
    "overload": 3,
    "transactions": 8,
    "transaction-swarm": 2,
    "access": 6,
}
CHUNKS = [
    (scenario, range(first, min(first + SEEDS_PER_TEST, count)))
    for scenario, count in COUNTS.items()
    for first in range(0, count, SEEDS_PER_TEST)
]


@pytest.mark.parametrize(("scenario", "seeds"), CHUNKS, ids=lambda value: getattr(value, "start", value))
def test_every_invariant_holds(scenario: str, seeds: range) -> None:
    for seed in seeds:
        outcome = run_named(scenario, seed)
        assert outcome.failure is None, report(outcome)
