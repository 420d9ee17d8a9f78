"""Worlds in which the product takes the unlikely choice: drawn by the seed, over when all is healed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from chronik.runtime.buggify import POINTS
from chronik.sim import buggifying, swarm_scenario
from chronik.sim.broker_scenarios import TopicsScenario
from chronik.sim.buggifying import Buggify
from chronik.sim.randomness import stream
from chronik.sim.scenario import run
from chronik.sim.scenarios import run_named
from chronik.sim.swarm_scenario import SwarmScenario
from chronik.sim.sweep import report
from chronik.sim.world import World

SEEDS = range(7)  # this many swarms reach every point
NAME = "storage: a segment is rolled before it is full"


@pytest.mark.slow
def test_every_point_is_reached_by_a_few_swarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point that no run reaches tests nothing: move it, or write a client that reaches it."""
    monkeypatch.setattr(buggifying, "ACTIVE_SHARE", 1.0)
    monkeypatch.setattr(buggifying, "PERMILLE", (5,))
    monkeypatch.setattr(swarm_scenario, "BUGGIFIED_SHARE", 1.0)
    missing = set(POINTS)
    for seed in SEEDS:
        missing -= run_named("swarm", seed).reached
        if not missing:
            return
    pytest.fail(f"never reached in {len(SEEDS)} seeds: {sorted(missing)}")


def test_seeds_draw_different_points_and_some_draw_none() -> None:
    drawn = [SwarmScenario().configure(World(seed))["points"] for seed in range(60)]
    assert {} in drawn
    assert {name for points in drawn for name in points} == set(POINTS)  # type: ignore[attr-defined]


def test_points_fire_in_processes_of_nodes_and_until_the_world_is_healed() -> None:
    world = World(1)
    points = Buggify({NAME: 1000}, stream(1, "points"))
    node, client = world.time.process("node"), world.time.process("client")
    node.is_buggified = True
    fired: list[tuple[str, bool]] = []

    def reach(who: str) -> None:
        fired.append((who, POINTS[NAME].fires()))

    with buggifying.buggified(points):
        for loop in (node, client):
            loop.call_soon(reach, loop.name)
        world.time.run_for(1)
        points.is_calm = True
        node.call_soon(reach, "healed")
        world.time.run_for(1)
    node.call_soon(reach, "behind it")
    world.time.run_for(1)
    assert fired == [("node", True), ("client", False), ("healed", False), ("behind it", False)]


class HandsOver(TopicsScenario):
    """Leaders of the quorum hand over all the time, as one with a full disk does."""

    def configure(self, world: World) -> Mapping[str, object]:
        points = {"raft: a leader hands over though nothing is wrong": 20}
        world.points = Buggify(points, world.random("points that fire"))
        return points


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 42])
def test_leaders_that_hand_over_leave_no_lease_behind_and_do_not_turn_on_the_spot(seed: int) -> None:
    """A follower with a lease of the last leader would answer from the past. The controller of a leader that hands over
    has every command refused, and must not try again without a pause."""
    outcome = run(HandsOver, seed)
    assert outcome.failure is None, report(outcome)
