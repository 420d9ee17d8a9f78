"""Background tasks with an owner, a name and reported errors.

Start work here if no caller awaits it. A task that fails is logged with its name and reported to its owner, so no
failure is silent. A module that starts a task by itself must await it or read its result in a callback; a house test
lists those modules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from chronik.runtime.invariants import InvariantBroken, broken

logger = logging.getLogger("chronik.tasks")


class Tasks:
    """The tasks of one owner. `on_failure` gets the name and error of a task that failed."""

    def __init__(self, owner: str, on_failure: Callable[[str, Exception], None] | None = None) -> None:
        self.owner = owner
        self._on_failure = on_failure
        self._running: dict[asyncio.Task[None], None] = {}  # a dict keeps the starting order

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        full_name = f"{self.owner}.{name}"
        task = asyncio.get_running_loop().create_task(self._guard(full_name, work), name=full_name)
        if task in self._running:
            broken("30 a task is started once", name=full_name)
        self._running[task] = None
        task.add_done_callback(self._forget)
        # A task that is cancelled before its first step never awaits its coroutine, which would cause a warning.
        task.add_done_callback(lambda _: work.close())
        return task

    def names(self) -> list[str]:
        return [task.get_name() for task in self._running]

    async def stop(self) -> None:
        """Cancels running tasks, newest first, and returns when all have ended."""
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
            elif isinstance(error, InvariantBroken):  # the loop's handler stops the node
                context = {"message": f"task {name} failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        else:
            logger.debug("task %s ended", name)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
