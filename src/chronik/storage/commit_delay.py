"""When a commit round of the journal starts: immediately, or after a large commit when requests stop arriving.

A round costs the event loop about 0.1 ms, whatever it carries. After a large commit, clients' next requests arrive over
several loop iterations. A round that started with the first of them would be the first of many small ones. So after a
large round, the next one waits while each iteration brings more, within bounds. An idle loop finds nothing new in its
next iteration, so no request waits for others that do not come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.runtime.buggify import GATHERED_LONGER
from chronik.runtime.invariants import broken

LARGE_ROUND_WAITERS = 8  # a round with fewer does not delay the next one
WAITERS_ENOUGH = 64  # with this many waiters, a round starts without further delay
DELAY_S_MAX = 0.003


class CommitDelay:
    """Decides when `start` is called. The journal adds to `waiter_count`, the number of waiters for the next round."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: Callable[[], None]) -> None:
        self.waiter_count = 0
        self._loop = loop
        self._start = start
        self._last_was_large = False  # the last round
        self._seen_count = 0  # waiters at the end of the last loop iteration
        self._until_s = 0.0
        self._is_scheduled = False

    def start_soon(self) -> None:
        """Schedules a round for the next loop iteration, so that appends of this iteration share it."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._seen_count = 0
            if self._last_was_large:
                self._until_s = self._loop.time() + DELAY_S_MAX
            self._loop.call_soon(self._iterate)

    def start_next(self) -> None:
        """A round has ended and the next one has waiters already."""
        if self._last_was_large or (GATHERED_LONGER.is_on and GATHERED_LONGER.fires()):
            self.start_soon()
        else:
            self._start()

    def started(self) -> None:
        """A round has started with all waiters."""
        if 0 < self.waiter_count < self._seen_count:
            broken("26 waiters stay until their round starts", seen=self._seen_count, count=self.waiter_count)
        self._last_was_large = self.waiter_count >= LARGE_ROUND_WAITERS
        self.waiter_count = self._seen_count = 0

    def _iterate(self) -> None:
        more_came = self._seen_count < self.waiter_count < WAITERS_ENOUGH
        if self._last_was_large and more_came and self._loop.time() < self._until_s:
            self._seen_count = self.waiter_count
            self._loop.call_soon(self._iterate)
        else:
            self._is_scheduled = False
            self._start()
