"""When a round of the journal begins: with the first who waits for it, or, in a crowd, when no more come.

A round costs the event loop about 0.1 ms whatever it carries. Those whom a round of a crowd answers come back a few in
each turn of the loop, and a round that began with the first of them would be the first of many small ones. So behind
such a round the next one lets turns pass for as long as each brings more, within bounds. A loop with nothing else to do
finds nobody new in its next turn: nobody ever waits for a crowd that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.runtime.buggify import GATHERED_LONGER

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
        self._was_crowd = self.count >= CROWD_COUNT
        self.count = 0

    def _turn(self) -> None:
        more_came = self._seen_count < self.count < ENOUGH_COUNT
        if self._was_crowd and more_came and self._loop.time() < self._until_s:
            self._seen_count = self.count
            self._loop.call_soon(self._turn)
        else:
            self._is_due = False
            self._start()
