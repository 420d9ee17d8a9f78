"""The parts of a node that do not need its data, and how a node ends.

They exist before the logs are open: the admin listener shows why a node is not ready, the disk is watched while it is
first read, and tasks have an owner. A node ends by `end`, or by itself: after a failed fsync, a broken invariant or the
failure of a task that must never end, it acknowledges nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from chronik.broker import limits
from chronik.broker.admin import Admin
from chronik.broker.certificates import Certificates
from chronik.broker.connections import Connections
from chronik.broker.disk_watch import DiskWatch
from chronik.broker.errors import DutyFailed, Replaced
from chronik.broker.live_settings import LiveSettings
from chronik.broker.memory import MemoryBudget
from chronik.broker.metrics import Metrics
from chronik.broker.settings import Settings
from chronik.broker.turns import Turns
from chronik.runtime.alarms import Alarms
from chronik.runtime.interfaces import Listener, Runtime
from chronik.runtime.invariants import InvariantBroken, hear_of_broken
from chronik.runtime.tasks import Tasks
from chronik.storage.errors import StorageFailed

T = TypeVar("T")
log = logging.getLogger("chronik.broker")

TURNS_TO_CLOSE = 10


class NodeBase:
    """`closers` closes what the node opened, in reverse order. Code that opens something registers it there."""

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        self.runtime = runtime
        self.live_settings = LiveSettings(settings)
        self.node_id = settings.node_id
        self.duties = Tasks(f"node {settings.node_id}", self._duty_failed)  # tasks that the node cannot work without
        # Tasks for one client, topic or partition each.
        self.tasks = Tasks(f"node {settings.node_id}", self._task_failed)
        self.closers = AsyncExitStack()
        self.sends = runtime.network.sends()
        self.alarms = Alarms(runtime.clock)
        self.turns = Turns(runtime.clock)
        budget_bytes = settings.memory_budget_bytes
        self.memory = MemoryBudget(budget_bytes, budget_bytes // limits.HOST_SHARE)
        self.connections = Connections(
            runtime.clock,
            connections_max=min(settings.max_connections, runtime.network.connections_max),
            idle_ms_max=settings.connections_max_idle_ms,
            per_host_max=settings.max_connections_per_ip,
            per_host_overrides=settings.max_connections_per_ip_overrides,
            is_memory_short=lambda: self.memory.is_short,
        )
        self.metrics = Metrics()
        self.listeners: dict[str, Listener] = {}  # by listener name
        self.disk_watch = DiskWatch(runtime.disk, settings, self.alarms)
        self.certificates = Certificates(self.live_settings, runtime.disk, runtime.clock, self.alarms)
        self.admin = Admin(self)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop_hearing = hear_of_broken(asyncio.get_running_loop(), self.stop_broken)

    @property
    def settings(self) -> Settings:
        """The current settings: an operator may change them at any time."""
        return self.live_settings.now

    @property
    def failure(self) -> str | None:
        """Why the node has ended by itself; None while it has not."""
        if not self.ended.done() or self.ended.exception() is None:
            return None
        return str(self.ended.exception())

    async def unless_broken(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits a step of the start. If the disk fails meanwhile, the start fails, because other nodes wait for this
        one."""
        opening = asyncio.ensure_future(work)
        try:
            either: list[asyncio.Future[Any]] = [opening, self.ended]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
        if self.ended.done():
            if not opening.cancelled():
                opening.exception()  # mark it as retrieved: it is only a consequence of the failure
            await self.ended
        return await opening

    # --- stopping

    def close_doors(self, why: str) -> None:
        """Closes all listeners and connections. The node stops serving."""
        for listener in self.listeners.values():
            listener.close()
        self.admin.close()
        self.connections.close_all(why)

    async def end(self) -> None:
        """Cancels pending work, then syncs and closes everything that was opened."""
        self.close_doors("the node is stopping")
        await self.tasks.stop()
        await self.duties.stop()
        for _ in range(TURNS_TO_CLOSE):  # the loop must release its transports before it is closed
            await asyncio.sleep(0)
        self.sends.close()
        await self.closers.aclose()
        self._stop_hearing()
        if not self.ended.done():
            self.ended.set_result(None)

    def stop_broken(self, cause: BaseException) -> None:
        """Acknowledges nothing more and stops, after a broken invariant or because another process has replaced this
        one. /status stays, to show the reason."""
        log.critical("stopping: %s", cause, exc_info=None if isinstance(cause, Replaced | StorageFailed) else cause)
        for listener in self.listeners.values():
            listener.close()
        self.connections.close_all("the node has failed")
        if not self.ended.done():
            self.ended.set_exception(cause)

    def _task_failed(self, name: str, failure: Exception) -> None:
        """Logs the failure of a task, which affects only its caller. A broken invariant stops the node."""
        if isinstance(failure, InvariantBroken):
            self.stop_broken(failure)

    def _duty_failed(self, name: str, failure: Exception) -> None:
        if self.ended.done():  # probably for the same reason
            return
        is_of_disk = isinstance(failure, OSError) and failure.filename is not None
        self.stop_broken(StorageFailed(failure) if is_of_disk else DutyFailed(name, failure))
