"""Requests that wait until offsets of one partition are committed. They complete in log order, or fail with a reason.

This module does not decide what is committed. All requests share one timer, which is set again only when it has
expired: most waits end long before, and a timer per request would cost more than the wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import pairwise

from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import broken, check
from chronik.runtime.units import NS_PER_MS

NEVER_NS = 2**63


class _Wait:
    __slots__ = ("deadline_ns", "future", "offset", "round")

    def __init__(
        self, offset: int, future: asyncio.Future[None], round_: asyncio.Future[None] | None, deadline_ns: int
    ) -> None:
        self.offset = offset
        self.future = future
        self.round = round_  # the journal round that makes the leader's own copy durable; None if it is durable
        self.deadline_ns = deadline_ns


class Waits:
    def __init__(self, clock: Clock, overdue: Callable[[], Exception]) -> None:
        self._clock = clock
        self._overdue = overdue  # error for requests that have waited too long
        self._queue: deque[_Wait] = deque()  # by offset
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = NEVER_NS
        self._watched: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def add(
        self, offset: int, round_: asyncio.Future[None] | None, *, timeout_ms: int | None, shared: bool
    ) -> asyncio.Future[None]:
        """With `shared`, appends of one journal round share a future, which waits as long as the longest timeout among
        them."""
        queue = self._queue
        deadline_ns = NEVER_NS if timeout_ms is None else self._clock.monotonic_ns() + timeout_ms * NS_PER_MS
        if queue and shared and round_ is not None:
            last = queue[-1]
            if last.round is round_ and last.offset <= offset:
                last.offset = offset
                if last.deadline_ns < deadline_ns:
                    last.deadline_ns = deadline_ns
                return last.future
        loop = asyncio.get_running_loop()
        if timeout_ms is not None and deadline_ns < self._timer_ns:
            self._set_timer(deadline_ns, timeout_ms)
        wait = _Wait(offset, loop.create_future(), round_, deadline_ns)
        if queue and queue[-1].offset > offset:  # a duplicate batch, which is in the log already
            self._queue = deque(sorted([*queue, wait], key=lambda each: each.offset))
        else:
            queue.append(wait)
        if round_ is not None and round_ is not self._watched:
            self._watched = round_
            round_.add_done_callback(self._round_ended)
        return wait.future

    def committed(self, offset: int, failure: Exception | None = None) -> None:
        """Everything below `offset` is committed. With `failure`, the requests fail, because too few replicas have
        it."""
        queue = self._queue
        while queue and queue[0].offset <= offset:
            _settle(queue.popleft().future, failure)

    def fail(self, failure: Exception) -> None:
        while self._queue:
            _settle(self._queue.popleft().future, failure)

    def _round_ended(self, done: asyncio.Future[None]) -> None:
        failure = done.exception()
        if isinstance(failure, Exception):
            self.fail(failure)

    def _set_timer(self, deadline_ns: int, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if deadline_ns >= NEVER_NS or delay_ms < 0:
            broken("27 a wait ends", deadline_ns=deadline_ns, delay_ms=delay_ms)
        self._timer_ns = deadline_ns
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer, self._timer_ns = None, NEVER_NS
        now_ns = self._clock.monotonic_ns()
        waiting = [each for each in self._queue if each.deadline_ns > now_ns]
        check(
            all(first.offset <= second.offset for first, second in pairwise(waiting)),
            "27 those who wait are kept in the order of offsets",
            count=len(waiting),
        )
        overdue = [each for each in self._queue if each.deadline_ns <= now_ns]
        self._queue = deque(waiting)
        for each in overdue:
            _settle(each.future, self._overdue())
        next_ns = min([each.deadline_ns for each in waiting], default=NEVER_NS)
        if next_ns < NEVER_NS:
            self._set_timer(next_ns, -(-(next_ns - now_ns) // NS_PER_MS))


def _settle(future: asyncio.Future[None], failure: Exception | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
        future.exception()  # mark it as retrieved: the waiter may be gone
