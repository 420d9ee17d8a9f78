"""When a commit round of the journal starts: immediately, or after a large commit when no more requests arrive.

A round costs the event loop about 0.1 ms, whatever it carries. After a large commit, clients' next requests arrive over
several loop iterations. A round that started with the first of them would be the first of many small ones. So after a
large round, the next one waits while each iteration brings more, within bounds. An idle loop finds nothing new in its
next iteration, so nobody waits for requests that do not come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.runtime.buggify import GATHERED_LONGER
from chronik.runtime.invariants import broken

CROWD_COUNT = 8  # fewer in a round are no crowd
ENOUGH_COUNT = 64  # so many wait no longer
GATHERING_S_MAX = 0.003


class Crowd:
    """Of those who wait for the round that is next: `count` of them, which the journal adds to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: Callable[[], None]) -> None:
        self.count = 0
        self._loop = loop
        self._start = start
        self._was_crowd = False  # the last round's
        self._seen_count = 0  # when the last turn ended
        self._until_s = 0.0
        self._is_due = False

    def begin_soon(self) -> None:
        """Starts a round, not at once: what arrives in this turn of the loop shares it."""
        if not self._is_due:
            self._is_due = True
            self._seen_count = 0
            self._until_s = self._loop.time() + GATHERING_S_MAX
            self._loop.call_soon(self._turn)

    def begin_next(self) -> None:
        """A round has ended, and somebody waits already."""
        if self._was_crowd or (GATHERED_LONGER.is_on and GATHERED_LONGER.fires()):
            self.begin_soon()
        else:
            self._start()

    def taken(self) -> None:
        """A round begins with all of them."""
        if 0 < self.count < self._seen_count:
            broken("26 nobody leaves a crowd", seen=self._seen_count, count=self.count)
        self._was_crowd = self.count >= CROWD_COUNT
        self.count = self._seen_count = 0

    def _turn(self) -> None:
        more_came = self._seen_count < self.count < ENOUGH_COUNT
        if self._was_crowd and more_came and self._loop.time() < self._until_s:
            self._seen_count = self.count
            self._loop.call_soon(self._turn)
        else:
            self._is_due = False
            self._start()
