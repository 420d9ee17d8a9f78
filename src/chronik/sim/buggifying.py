"""Turns the product's buggify points on for a world: some of them, each with a probability of its own, by the seed.

Points fire in the processes of nodes only, and no longer once the world is healed: what is asked of a cluster within
ten seconds is asked of one that nothing troubles.
"""

from __future__ import annotations

import contextlib
from asyncio import events
from collections.abc import Iterator, Mapping
from random import Random

from chronik.runtime import buggify
from chronik.runtime.buggify import POINTS, Point
from chronik.sim.loop import ProcessLoop

ACTIVE_SHARE = 0.25  # of the points, for one seed
PERMILLE = (5, 30, 150)  # how often an active one fires


class Buggify:
    """`permille` is what each point was drawn to fire at; those that are missing stay off."""

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
    """Points by name, and how often they fire. All draws are made for each point, so that a new one moves no other."""
    drawn = {name: (random.random() < ACTIVE_SHARE, random.choice(PERMILLE)) for name in POINTS}
    return {name: permille for name, (is_active, permille) in drawn.items() if is_active}


@contextlib.contextmanager
def buggified(points: Buggify | None) -> Iterator[None]:
    """Within it, the points are on. There is one world at a time."""
    if points is None:
        yield
        return
    buggify.turn_on([POINTS[name] for name in points.permille], points.chance)
    try:
        yield
    finally:
        buggify.turn_off()
