"""Retries writes that a shard's log refused: one at a time, until the log accepts one.

A log refuses writes for a reason that applies to all ids of the shard, such as too few replicas or a full disk. If
thousands of ids retried separately, the node would do little else, and the replicas that the log waits for could not
catch up. So one id retries for all of them, a different one each time, after a pause that doubles up to a second. Once
the log has accepted a record, all ids retry immediately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from chronik.coordinator.timers import Timers

PAUSE_MS_MIN: Final = 100
PAUSE_MS_MAX: Final = 1_000

_NEXT = object()  # the key of the timer of the next attempt


class Retries:
    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiting: dict[str, Callable[[], None]] = {}  # by transactional id, longest waiting first
        self._pause_ms = PAUSE_MS_MIN

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, transactional_id: str, attempt: Callable[[], None]) -> None:
        """`attempt` is called later. If it fails, it is put here again."""
        self._waiting[transactional_id] = attempt
        if _NEXT not in self._timers:
            self._timers.set(_NEXT, self._pause_ms, self._try_one)

    def taken(self) -> None:
        """The log has accepted a record."""
        self._pause_ms = PAUSE_MS_MIN
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        self._timers.cancel(_NEXT)
        for transactional_id, attempt in waiting.items():
            self._timers.set(transactional_id, 0, attempt)  # timers that are due together run in slices

    def _try_one(self) -> None:
        if not self._waiting:
            return
        transactional_id = next(iter(self._waiting))
        attempt = self._waiting.pop(transactional_id)
        self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)
        if self._waiting:
            self._timers.set(_NEXT, self._pause_ms, self._try_one)
        attempt()
