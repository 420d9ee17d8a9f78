"""Enables some of the product's buggify points for a world, each with its own probability, drawn from the seed.

Points fire only in node processes, and not after healing: recovery within ten seconds is required only of a cluster
without faults.
"""

from __future__ import annotations

import contextlib
from asyncio import events
from collections.abc import Iterator, Mapping
from random import Random

from chronik.runtime import buggify
from chronik.runtime.buggify import POINTS, Point
from chronik.sim.loop import ProcessLoop

ACTIVE_SHARE = 0.25  # of the points, per seed
PERMILLE = (5, 30, 150)  # how often an active one fires


class Buggify:
    """`permille` maps each enabled point to its probability; missing points stay off."""

    def __init__(self, permille: Mapping[str, int], random: Random) -> None:
        self.permille, self._random = permille, random
        self.reached: set[str] = set()
        self.is_calm = False

    def chance(self, point: Point) -> bool:
        loop = events._get_running_loop()
        if not isinstance(loop, ProcessLoop) or not loop.is_buggified:
            return False
        self.reached.add(point.name)
        return not self.is_calm and self._random.randrange(1000) < self.permille[point.name]


def draw(random: Random) -> dict[str, int]:
    """Point names and probabilities. Draws the same numbers for each point, so that a new point affects no other."""
    drawn = {name: (random.random() < ACTIVE_SHARE, random.choice(PERMILLE)) for name in POINTS}
    return {name: permille for name, (is_active, permille) in drawn.items() if is_active}


@contextlib.contextmanager
def buggified(points: Buggify | None) -> Iterator[None]:
    """Enables the points within the context. Only one world exists at a time."""
    if points is None:
        yield
        return
    buggify.turn_on([POINTS[name] for name in points.permille], points.chance)
    try:
        yield
    finally:
        buggify.turn_off()
