"""The world of one run: its time, network, random streams and log. Holds no node; `cluster` creates those.

Two runs of one seed are compared by the log, byte for byte. It holds every fault, every answer to a client, every
leader change and every line that the product logs, each with its virtual time and its process.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from asyncio import events
from collections.abc import Callable
from random import Random

from chronik.runtime.units import NS_PER_MS
from chronik.sim.buggifying import Buggify
from chronik.sim.errors import Violation
from chronik.sim.loop import ProcessLoop, VirtualTime
from chronik.sim.network import Wires
from chronik.sim.randomness import stream


class World:
    def __init__(self, seed: int, slowness_percent: int = 0) -> None:
        self.seed = seed
        self.slowness_percent = slowness_percent  # cost of computing, as a percentage of the price table; 0: free
        self.points: Buggify | None = None  # the product's fault points that fire in this world
        self.time = VirtualTime()
        self.wires = Wires(self.time, self.random("network"))
        self.lines: list[str] = []
        self.violation: Violation | None = None  # the first one

    def violated(self, invariant: str, what: str) -> None:
        """Ends the run at the next opportunity. Does not raise: the product calls this, and could catch it."""
        if self.violation is None:
            self.violation = Violation(invariant, what)
            self.time.is_over = True
            self.note("world", f"VIOLATED {self.violation}")

    def run_until(self, holds: Callable[[], bool], *, within_ms: int) -> bool:
        held = self.time.run_until(holds, within_ms=within_ms)
        if self.violation is not None:
            raise self.violation
        return held

    def run_for(self, duration_ms: int) -> None:
        end_ns = self.time.now_ns + duration_ms * NS_PER_MS
        time = self.time
        self.run_until(lambda: time.now_ns >= end_ns, within_ms=duration_ms)

    def random(self, purpose: str) -> Random:
        return stream(self.seed, purpose)

    def note(self, who: str, what: str) -> None:
        now_us = self.time.now_ns // 1000
        self.lines.append(f"{now_us // 1000:>6}.{now_us % 1000:03} {who:<8} {what}")

    def log_hash(self) -> str:
        return hashlib.blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()


class LogCapture(logging.Handler):
    """Copies the product's log into the world's while it is active.

    Skips lines of other threads. The world has one thread; other threads of the process (a client of another test, a
    Spark listener) log at arbitrary times, and their lines would make two runs of one seed differ.
    """

    def __init__(self, world: World, level: int = logging.INFO) -> None:
        super().__init__(level)
        self._world = world
        self._thread_id = threading.get_ident()
        self._logger = logging.getLogger("chronik")
        self._before = (self._logger.level, self._logger.propagate)

    def __enter__(self) -> LogCapture:
        self._before = (self._logger.level, self._logger.propagate)
        self._logger.setLevel(self.level)
        self._logger.propagate = False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.level, self._logger.propagate = self._before
        logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]  # levels are cached per logger

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread == self._thread_id and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        loop = events._get_running_loop()
        who = loop.name if isinstance(loop, ProcessLoop) else "world"
        fault = (
            f" ({record.exc_info[0].__name__}: {record.exc_info[1]})" if record.exc_info and record.exc_info[0] else ""
        )
        self._world.note(who, f"{record.levelname.lower()} {record.getMessage()}{fault}")
