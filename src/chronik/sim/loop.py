"""Virtual time, and an event loop for each simulated process in it. No thread, no selector, no real clock.

`VirtualTime` holds all future events of the world, ordered by time and then by when they were scheduled, and jumps from
one to the next; so a run depends only on its seed. Each process has its own `ProcessLoop`, which looks like an asyncio
loop to the process. This allows killing a process (nothing of it runs again), stopping it (its events wait while time
passes) or giving it a fast clock.

Callbacks take no virtual time, unless the process has a meter: then it is busy for the time charged (`meter`), and its
other callbacks wait. A world without future events is a deadlock, an error that lists the waiting tasks; a world that
never advances time is an error too.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar

from chronik.runtime.units import NS_PER_MS, NS_PER_S
from chronik.sim.errors import Deadlock, Livelock
from chronik.sim.meter import Meter

T = TypeVar("T")
PPM = 1_000_000
CALLBACKS_PER_INSTANT_MAX = 100_000  # more at one moment of virtual time count as a livelock


class SimHandle(asyncio.TimerHandle):
    """A scheduled callback. `loop` is its process's; None: the world's own, which is never stopped."""

    __slots__ = ("loop", "when_ns")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: ProcessLoop | None,
        when_ns: int,
        context: Context | None,
    ) -> None:
        # Skips the parent's constructor: it queries the loop's debug mode and captures the call stack, at ten times the
        # cost of this whole method.
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self.loop = loop
        self.when_ns = when_ns

    def when(self) -> float:
        return self.when_ns / NS_PER_S

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]  # what they hold may be large

    def __repr__(self) -> str:
        return f"<SimHandle {self._callback} at {self.when_ns} ns>"


class VirtualTime:
    """The world's clock and all future events. Events only run inside `run_until`."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.is_over = False  # makes `run_until` return
        self._count = 0
        self._later: list[tuple[int, int, SimHandle]] = []
        self._ready: deque[SimHandle] = deque()
        self.processes: list[ProcessLoop] = []

    @property
    def now_ms(self) -> int:
        return self.now_ns // NS_PER_MS

    def after(self, delay_ns: int, callback: Callable[..., object], *args: Any) -> SimHandle:
        """Schedules an event of the world, not of a process: a packet arrives, a fault begins."""
        return self.schedule(SimHandle(callback, args, None, self.now_ns + max(0, delay_ns), None))

    def after_ms(self, delay_ms: int, callback: Callable[..., object], *args: Any) -> SimHandle:
        return self.after(delay_ms * NS_PER_MS, callback, *args)

    def schedule(self, handle: SimHandle) -> SimHandle:
        self._count += 1
        heapq.heappush(self._later, (handle.when_ns, self._count, handle))
        return handle

    def at(self, when_ns: int, callback: Callable[..., object], *args: Any) -> SimHandle:
        if when_ns < self.now_ns:
            when_ns = self.now_ns
        self._count += 1
        handle = SimHandle(callback, args, None, when_ns, None)
        heapq.heappush(self._later, (when_ns, self._count, handle))
        return handle

    @property
    def present_ns(self) -> int:
        """The time at which current effects happen: later than the world's while a process computes."""
        loop = events._get_running_loop()
        meter = loop.meter if isinstance(loop, ProcessLoop) else None
        return self.now_ns if meter is None else meter.present_ns(self.now_ns)

    def make_ready(self, handle: SimHandle) -> None:
        self._ready.append(handle)

    def process(self, name: str, *, rate_ppm: int = 0) -> ProcessLoop:
        loop = ProcessLoop(self, name, rate_ppm)
        self.processes.append(loop)
        return loop

    def run_until(self, holds: Callable[[], bool], *, within_ms: int) -> bool:
        """Runs events until `holds`, which is evaluated between moments. False: time ran out."""
        end_ns = self.now_ns + within_ms * NS_PER_MS
        later, make_ready, pop = self._later, self._ready.append, heapq.heappop
        running_before = events._get_running_loop()
        try:
            while True:
                self._run_ready()
                if self.is_over or holds():
                    return True
                while later and later[0][2]._cancelled:
                    pop(later)
                if not later:
                    raise Deadlock(self._who_waits())
                next_ns = later[0][0]
                if next_ns > end_ns:
                    self.now_ns = end_ns
                    return False
                if next_ns > self.now_ns:
                    self.now_ns = next_ns
                now_ns = self.now_ns
                while later and later[0][0] <= now_ns:
                    handle = pop(later)[2]
                    if not handle._cancelled:
                        make_ready(handle)
        finally:
            events._set_running_loop(running_before)

    def run_for(self, duration_ms: int) -> None:
        end = self.after_ms(duration_ms, lambda: None)  # so that time passes even without events
        self.run_until(lambda: self.now_ns >= end.when_ns, within_ms=duration_ms)

    def _run_ready(self) -> None:
        """Runs everything due now, and everything that follows without time passing."""
        ready = self._ready
        take, set_running = ready.popleft, events._set_running_loop
        running: ProcessLoop | None = None
        set_running(None)
        count = 0
        while ready:
            handle = take()
            if handle._cancelled:
                continue
            count += 1
            loop = handle.loop
            if loop is not running:
                running = loop
                set_running(loop)
            if loop is None:
                handle._callback(*handle._args)
            elif loop.is_dead:
                continue
            elif loop.is_paused:
                loop.held.append(handle)
            elif (meter := loop.meter) is None:
                loop.run(handle)
            else:
                loop.run_at_cost(handle, meter)
            if count > CALLBACKS_PER_INSTANT_MAX:
                raise Livelock(f"{count} callbacks at {self.now_ns} ns, the last of {loop and loop.name}: {handle}")

    def _who_waits(self) -> str:
        waiting = [line for loop in self.processes if not loop.is_dead for line in loop.waiting()]
        return "nothing is left to happen; waiting: " + ("; ".join(waiting) or "nobody")


# Typed as Any: the parent has forty abstract methods (sockets, subprocesses, signals) that a node never calls.
_Loop: Any = asyncio.AbstractEventLoop


class ProcessLoop(_Loop):  # type: ignore[misc]
    """The event loop of one process. Its time runs `rate_ppm` faster than the world's."""

    def __init__(self, world: VirtualTime, name: str, rate_ppm: int = 0) -> None:
        self.world, self.name, self.rate_ppm = world, name, rate_ppm
        self.is_dead = False
        self.is_paused = False
        self.held: list[SimHandle] = []  # became due while paused
        self.after_each: Callable[[], None] | None = None  # observes the process after each callback
        self.on_unhandled: Callable[[dict[str, Any]], None] | None = None
        self.is_buggified = False  # `runtime.buggify` points may fire in it
        self.meter: Meter | None = None  # None: callbacks take no time
        self._backlog: deque[SimHandle] = deque()  # due, but waiting for the current computation
        self._is_late = False  # an event that resumes it is scheduled
        self._task_count = 0
        self._remains: list[asyncio.Task[Any]] = []
        self.create_future = functools.partial(asyncio.Future, loop=self)

    # Faults

    def kill(self) -> None:
        """Nothing of it runs again: no callback, no `finally`. References are kept, so that garbage collection cannot
        run any of its code before the world ends."""
        if self.is_dead:
            return
        self.is_dead = True
        self.after_each = None
        self._backlog.clear()
        self._remains = list(asyncio.all_tasks(self))
        for task in self._remains:
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def pause(self) -> None:
        self.is_paused = True
        self.held += self._backlog
        self._backlog.clear()

    def resume(self) -> None:
        self.is_paused = False
        for handle in self.held:
            self.world.make_ready(handle)
        self.held = []

    def run(self, handle: SimHandle) -> None:
        try:
            handle._context.run(handle._callback, *handle._args)  # type: ignore[union-attr]
        except BaseException as error:  # noqa: BLE001 - the edge of a process; the power may be what failed
            self.call_exception_handler({"message": f"{self.name}: a callback raised", "exception": error})
        if self.after_each is not None:
            self.after_each()

    def run_at_cost(self, handle: SimHandle, meter: Meter) -> None:
        """Runs the callback now, or after the current computation."""
        if self._is_late:
            self._backlog.append(handle)
            return
        meter.begin(self.world.now_ns)
        try:
            handle._context.run(handle._callback, *handle._args)  # type: ignore[union-attr]
        except BaseException as error:  # noqa: BLE001 - the edge of a process; the power may be what failed
            self.call_exception_handler({"message": f"{self.name}: a callback raised", "exception": error})
        if meter.end(self.world.now_ns):
            self._is_late = True
            self.world.at(meter.busy_until_ns, self._go_on, meter)
        elif self.after_each is not None:
            self.after_each()

    def _go_on(self, meter: Meter) -> None:
        """The world has caught up: reports the last callback's changes to the observer, and continues."""
        if self.is_dead:
            return
        self._is_late = False
        events._set_running_loop(self)
        try:
            if self.after_each is not None:
                self.after_each()
            while self._backlog and not self._is_late:
                handle = self._backlog.popleft()
                if not handle._cancelled:
                    self.run_at_cost(handle, meter)
        finally:
            events._set_running_loop(None)

    def waiting(self) -> list[str]:
        """Its tasks, each with the line where it waits."""
        lines = []
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            stack = task.get_stack(limit=1)
            where = (
                f"{stack[-1].f_code.co_qualname if hasattr(stack[-1].f_code, 'co_qualname') else ''}" if stack else ""
            )
            line = stack[-1].f_lineno if stack else 0
            lines.append(f"{self.name}: {task.get_name()} in {where} line {line}")
        return lines

    # Time

    def node_ns(self) -> int:
        meter = self.meter
        # Inlines `Meter.present_ns`: this is the most frequent call.
        now_ns = self.world.now_ns if meter is None or not meter.runs else meter.busy_until_ns + meter.spent_ns
        return now_ns + now_ns * self.rate_ppm // PPM

    def world_ns(self, node_ns: int) -> int:
        """The earliest world time at which this process's time is at least `node_ns`."""
        return -(-node_ns * PPM // (PPM + self.rate_ppm))

    def time(self) -> float:
        return self.node_ns() / NS_PER_S

    # asyncio's interface

    get_debug = bool  # `bool()` is False. Futures and tasks call it often, and a type needs no Python frame.

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        world = self.world
        handle = SimHandle(callback, args, self, world.now_ns, copy_context() if context is None else context)
        if not self.is_dead:
            world._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._call_at_ns(self.node_ns() + int(delay * NS_PER_S), callback, args, context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        # One nanosecond more: float rounding must not fire a timer early.
        return self._call_at_ns(int(when * NS_PER_S) + 1, callback, args, context)

    def _call_at_ns(
        self, node_ns: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> SimHandle:
        world = self.world
        when_ns = -(-node_ns * PPM // (PPM + self.rate_ppm))  # inlines `world_ns`
        if when_ns < world.now_ns:
            when_ns = world.now_ns
        handle = SimHandle(callback, args, self, when_ns, copy_context() if context is None else context)
        if not self.is_dead:
            world._count += 1
            heapq.heappush(world._later, (when_ns, world._count, handle))
        return handle

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        self._task_count += 1
        return asyncio.Task(coro, loop=self, name=name or f"task {self._task_count}", context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.on_unhandled is not None and not self.is_dead:
            self.on_unhandled(context)

    def get_exception_handler(self) -> None:
        return None

    def set_exception_handler(self, handler: object) -> None:
        """Ignored: an exception in a callback ends the run anyway."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False
