"""Random histories of members, clock, log and coordinator. A failing seed replays exactly."""

from __future__ import annotations

import pytest

from tests.coordinator.consumer.world import World
from tests.coordinator.virtual import run_virtually

STEPS = 500


@pytest.mark.parametrize("seed", range(12))
def test_consumer_groups_keep_their_promises_whatever_happens(seed: int) -> None:
    """Each seed is another mixture of everything that can go wrong."""
    world = World(seed)
    run_virtually(world.run(STEPS), world.clock)
    assert world.given_count, "nobody was ever given anything: this history proves nothing"
