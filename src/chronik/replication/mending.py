"""Cuts damaged logs one at a time: one cut in each turn of the event loop, however many logs are damaged.

A cut syncs the journal and the files that it shortens. A disk that comes back without a thousand partitions would hold
the loop for seconds if all of them were cut at once, and heartbeats and clients would wait.

It decides nothing. The owner adds a key when its log may be cut, and is called back for it in a later turn, when it has
to look again: leaders may have changed meanwhile.
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
        """Once, also if it is added again before its turn."""
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
