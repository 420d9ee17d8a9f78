"""Truncates damaged logs: one per iteration of the event loop.

A truncation syncs the journal and the truncated files. If a disk comes back without a thousand partitions, truncating
all of them at once would block the loop, and with it heartbeats and clients, for seconds.

The owner adds a key when its log may be truncated, and is called back for it in a later iteration. It must check the
conditions again then, because leaders may have changed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.replication.progress import Key


class Mending:
    def __init__(self, cut: Callable[[Key], None]) -> None:
        self._cut = cut
        self._waiting: dict[Key, None] = {}  # a dict keeps the order
        self._turn: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key) -> None:
        """Adds the key once, even if it is added again before its turn."""
        self._waiting[key] = None
        self._schedule()

    def forget(self, key: Key) -> None:
        self._waiting.pop(key, None)

    def end(self) -> None:
        self._waiting.clear()

    def _schedule(self) -> None:
        if self._turn is None and self._waiting:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        key = next(iter(self._waiting), None)
        if key is None:
            return
        del self._waiting[key]
        try:
            self._cut(key)
        finally:
            self._schedule()
