"""Random histories of consumers, clock and log. A failing seed replays exactly: add it to FOUND, with the bug that it
found."""

from __future__ import annotations

import pytest

from tests.coordinator.virtual import run_virtually
from tests.coordinator.world import World

FOUND = [
    1400,  # two restarts of a static member on their way: the second was answered when the first was committed
]
SEEDS = [*FOUND, *range(40)]
STEPS = 600


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_keep_their_promises_whatever_happens_to_members_log_and_coordinator(seed: int) -> None:
    """Invariants that no single story would try: each seed is another mixture of everything that can go wrong."""
    world = World(seed)
    run_virtually(world.run(STEPS), world.clock)
    assert world.owners, "nobody ever owned anything: this history proves nothing"
    assert world.acked
