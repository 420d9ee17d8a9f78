"""Background tasks with an owner, a name and an end that is reported.

Work that nobody waits for is started here. A task that ends by an error is logged with its name, and its owner is told,
so nothing dies silently. A module that starts a task by itself waits for it or reads its result in a callback; a house
test lists those modules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from chronik.runtime.invariants import InvariantBroken, broken

logger = logging.getLogger("chronik.tasks")


class Tasks:
    """The tasks of one owner. `on_failure` hears the name and the error of a task that did not end by itself."""

    def __init__(self, owner: str, on_failure: Callable[[str, Exception], None] | None = None) -> None:
        self.owner = owner
        self._on_failure = on_failure
        self._running: dict[asyncio.Task[None], None] = {}  # a dict keeps the order of starting

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        full_name = f"{self.owner}.{name}"
        task = asyncio.get_running_loop().create_task(self._guard(full_name, work), name=full_name)
        if task in self._running:
            broken("30 a task is started once", name=full_name)
        self._running[task] = None
        task.add_done_callback(self._forget)
        # A task that is cancelled before its first step never touches its work, which Python would complain about.
        task.add_done_callback(lambda _: work.close())
        return task

    def names(self) -> list[str]:
        return [task.get_name() for task in self._running]

    async def stop(self) -> None:
        """Cancels what runs, the youngest first, and returns when all of it has ended."""
        for task in reversed(list(self._running)):
            task.cancel()
        while self._running:
            await asyncio.wait(list(self._running))

    async def _guard(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            logger.exception("task %s failed", name)
            if self._on_failure is not None:
                self._on_failure(name, error)
            elif isinstance(error, InvariantBroken):  # the loop tells the node
                context = {"message": f"task {name} failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        else:
            logger.debug("task %s ended", name)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
