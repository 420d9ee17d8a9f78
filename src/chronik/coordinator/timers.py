"""Deadlines by key, on the event loop's own timer, so that virtual time drives them in the simulator.

Every heartbeat postpones a deadline, which costs one dictionary write: the old heap entry stays, and when it is due,
the key is entered again with its real deadline. One loop timer serves all keys. When many deadlines are due together,
their actions run in slices, so that a thousand expiring members do not block the loop.

Invariants: an action runs at most once per `set`, never before its deadline, and never after `cancel` or `clear`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from typing import NamedTuple

from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import broken, check
from chronik.runtime.units import NS_PER_MS

ACTIONS_PER_SLICE = 64


class _Deadline(NamedTuple):
    due_ns: int
    action: Callable[[], None]


class Timers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadlines: dict[Hashable, _Deadline] = {}
        self._heap: list[tuple[int, int, Hashable]] = []  # due_ns, order of setting, key; may be outdated
        self._queued_ns: dict[Hashable, int] = {}  # the earliest heap entry of each key
        self._sequence = 0
        self._handle: asyncio.Handle | None = None
        self._handle_ns = 0  # when the handle fires

    def __contains__(self, key: Hashable) -> bool:
        return key in self._deadlines

    def set(self, key: Hashable, delay_ms: int, action: Callable[[], None]) -> None:
        """Runs `action` after `delay_ms`. Replaces an action that was set for the key before."""
        due_ns = self._clock.monotonic_ns() + delay_ms * NS_PER_MS
        self._deadlines[key] = _Deadline(due_ns, action)
        queued_ns = self._queued_ns.get(key)
        if queued_ns is None or queued_ns > due_ns:
            self._queue(key, due_ns)
            self._arm()
        if self._queued_ns[key] > due_ns:
            broken("25 no deadline is looked at too late", key=key, due_ns=due_ns, queued_ns=self._queued_ns[key])

    def cancel(self, key: Hashable) -> None:
        self._deadlines.pop(key, None)

    def clear(self) -> None:
        self._deadlines.clear()
        self._heap.clear()
        self._queued_ns.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _queue(self, key: Hashable, due_ns: int) -> None:
        self._sequence += 1
        self._queued_ns[key] = due_ns
        heapq.heappush(self._heap, (due_ns, self._sequence, key))

    def _arm(self) -> None:
        if not self._heap:
            return
        first_ns = self._heap[0][0]
        if self._handle is not None:
            if self._handle_ns <= first_ns:
                return
            self._handle.cancel()
        # Rounded up to whole milliseconds: waking slightly too early would only cause another wait.
        delay_ms = max(0, -(-(first_ns - self._clock.monotonic_ns()) // NS_PER_MS))
        self._handle = asyncio.get_running_loop().call_later(delay_ms / 1000, self._wake)
        self._handle_ns = first_ns

    def _wake(self) -> None:
        self._handle = None
        try:
            self._run_due(self._clock.monotonic_ns())
            check(
                len(self._deadlines) <= len(self._queued_ns) <= len(self._heap),
                "25 every deadline has its place in the queue",
                deadlines=len(self._deadlines),
                queued=len(self._queued_ns),
                heap=len(self._heap),
            )
        finally:
            self._arm()

    def _run_due(self, now_ns: int) -> None:
        ran = 0
        while self._heap and self._heap[0][0] <= now_ns and ran < ACTIONS_PER_SLICE:
            queued_ns, _, key = heapq.heappop(self._heap)
            if self._queued_ns.get(key) != queued_ns:
                continue  # the key had an earlier entry, which was processed already
            del self._queued_ns[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline.due_ns > now_ns:
                self._queue(key, deadline.due_ns)
                continue
            if deadline.due_ns < queued_ns:
                broken("25 no deadline is looked at too late", key=key, due_ns=deadline.due_ns, queued_ns=queued_ns)
            del self._deadlines[key]
            ran += 1
            deadline.action()
