"""Those who wait for the same future: one call of the event loop for all of them, in the order in which they came.

A commit ends the wait of every produce request of a partition at once. A callback for each costs the loop an object, a
place in its queue and a context, which together are a tenth of what such a request costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

Call = Callable[[asyncio.Future[Any]], None]


class Awaited:
    def __init__(self) -> None:
        self._calls: dict[asyncio.Future[Any], list[Call]] = {}

    def when_done(self, future: asyncio.Future[Any], call: Call) -> None:
        calls = self._calls.get(future)
        if calls is None:
            self._calls[future] = [call]
            future.add_done_callback(self._done)
        else:
            calls.append(call)

    def _done(self, future: asyncio.Future[Any]) -> None:
        calls = self._calls.pop(future, [])
        for at, call in enumerate(calls, 1):
            try:
                call(future)
            except BaseException:
                # As if each had its own callback: what one raises goes to the loop, and the others are called.
                if at < len(calls):
                    self._calls[future] = [*calls[at:], *self._calls.get(future, ())]  # who came meanwhile comes behind
                    future.add_done_callback(self._done)
                raise
