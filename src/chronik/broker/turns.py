"""Limits the work per iteration ("turn") of the event loop, before the loop polls its sockets again.

Work is counted in pieces of a few tens of microseconds, such as the start of a request or the lookup of a partition.
All connections share one budget of pieces per turn. Work that exceeds it waits in one queue, which is served round
robin. Half of each turn is reserved for arriving requests, so that a small request does not wait behind large ones.

A long computation is a generator (`runtime.pieces`). Any state may change between two of its pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from chronik.runtime.buggify import SHORT_TURN
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import broken
from chronik.runtime.pieces import Work

T = TypeVar("T")

PIECES_PER_TURN = 512  # about 10 ms of requests
PIECES_QUEUED = PIECES_PER_TURN // 2  # share of queued work; the rest is for arriving requests
PIECES_FIRST = 64  # done at once when a request starts; only longer work pays for the queue
PIECES_NOTICED = 16  # shorter turns are not tracked: nearly all turns are that short, and a callback has a cost
REQUESTS_PER_VISIT = 32  # of one connection, while no other work waits
HOLDS_WINDOW_NS = 60 * 10**9
TURN_NS = 20_000_000  # a turn ends after this time, even if its pieces take longer than they should


class Turns:
    """One per node. `pieces` counts the pieces done in this turn."""

    __slots__ = ("_began_ns", "_is_tracked", "_now_ns", "_queue", "holds", "pieces", "requests_per_visit")

    def __init__(self, clock: Clock) -> None:
        self.pieces = 0
        self.requests_per_visit = REQUESTS_PER_VISIT
        self.holds = Holds()
        self._now_ns = clock.monotonic_ns
        self._queue: deque[Callable[[], None]] = deque()
        self._is_tracked = False  # the loop will call `_begin`
        self._began_ns = 0

    def __len__(self) -> int:
        """The number of connections and computations that wait for their turn."""
        return len(self._queue)

    @property
    def is_over(self) -> bool:
        return self.pieces >= PIECES_PER_TURN

    def spend(self, pieces: int = 1) -> None:
        self.pieces += pieces
        if SHORT_TURN.is_on and SHORT_TURN.fires():
            self.pieces = PIECES_PER_TURN
        if self.pieces >= PIECES_NOTICED:
            self._track()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Calls `go_on` once, in a later turn."""
        if self._queue and not self._is_tracked:
            broken("25 who waits for a turn gets one", waiting=len(self._queue), pieces=self.pieces)
        self._queue.append(go_on)
        self._track()

    def _track(self) -> None:
        if not self._is_tracked:
            self._is_tracked = True
            self._began_ns = self._now_ns()
            asyncio.get_running_loop().call_soon(self._begin)
        elif self._now_ns() - self._began_ns > TURN_NS:
            self.pieces = max(self.pieces, PIECES_PER_TURN)

    def _begin(self) -> None:
        """Starts a new turn. Waiting work comes first, with half of the budget."""
        now_ns = self._now_ns()
        if not self._is_tracked:
            broken("25 a turn begins once", waiting=len(self._queue))
        self.holds.took(now_ns - self._began_ns, now_ns)
        self._is_tracked = False
        self.pieces = 0
        queue = self._queue
        if not queue:
            return
        self._track()  # even if one of them fails, the others must get their turn
        self.requests_per_visit = max(1, min(REQUESTS_PER_VISIT, PIECES_QUEUED // len(queue)))
        while queue and self.pieces < PIECES_QUEUED:
            queue.popleft()()
        if not queue:
            self.requests_per_visit = REQUESTS_PER_VISIT

    # --- computations

    def step(self, work: Work[Any], pieces_max: int) -> None:
        """Continues `work` for this many pieces. Raises StopIteration with its result when it ends."""
        done = 0
        try:
            while done < pieces_max:
                done += next(work)
                if done <= 0:
                    broken("23 a piece of work counts", done=done)
        finally:
            self.spend(done)

    def finish(self, work: Work[T]) -> asyncio.Future[T]:
        """The result of a computation that continues in later turns. Cancelling the future ends it."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.wait(_Computation(self, work, result).go_on)
        return result

    async def run(self, work: Work[T]) -> T:
        """The result of a computation. A short one runs at once."""
        try:
            self.step(work, PIECES_FIRST)
        except StopIteration as end:
            result: T = end.value
            return result
        return await self.finish(work)

    async def piece(self, pieces: int = 1) -> None:
        """For coroutines: reports pieces as done, and waits for the next turn if this one is used up."""
        self.spend(pieces)
        if self.pieces >= PIECES_PER_TURN:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.wait(lambda: None if turn.done() else turn.set_result(None))
            await turn


class _Computation:
    """A running generator, which may hold as many objects as the largest response.

    It must not be part of a reference cycle. So it does not refer to itself, as a closure that queues itself would, and
    it drops the future together with the result, because the traceback of an error refers to the computation. In a
    cycle, only a collection of the oldest generation would free the objects, and would block the loop meanwhile.
    """

    __slots__ = ("_result", "_turns", "_work")

    def __init__(self, turns: Turns, work: Work[T], result: asyncio.Future[T]) -> None:
        self._turns, self._work = turns, work
        self._result: asyncio.Future[Any] | None = result

    def go_on(self) -> None:
        assert self._result is not None, "it is not queued again once it has ended"
        if self._result.cancelled():
            self._work.close()
            return
        try:
            self._turns.step(self._work, self._turns.requests_per_visit)
        except StopIteration as end:
            self._take_result().set_result(end.value)
        except Exception as fault:  # noqa: BLE001 - it is raised where the result is awaited
            self._take_result().set_exception(fault)
        else:
            self._turns.wait(self.go_on)

    def _take_result(self) -> asyncio.Future[Any]:
        assert self._result is not None
        result, self._result = self._result, None
        return result


class Holds:
    """The longest turn of the last minute or two: how long other work waited for the loop."""

    __slots__ = ("_before_ns", "_longest_ns", "_since_ns")

    def __init__(self) -> None:
        self._longest_ns = self._before_ns = 0  # of this minute, and of the previous one
        self._since_ns = 0

    def took(self, duration_ns: int, now_ns: int) -> None:
        if now_ns - self._since_ns > HOLDS_WINDOW_NS:
            is_next = now_ns - self._since_ns <= 2 * HOLDS_WINDOW_NS
            self._before_ns, self._longest_ns = self._longest_ns if is_next else 0, 0
            self._since_ns = now_ns
        if duration_ns > self._longest_ns:
            self._longest_ns = duration_ns

    def longest_ns(self, now_ns: int) -> int:
        self.took(0, now_ns)
        return max(self._longest_ns, self._before_ns)
