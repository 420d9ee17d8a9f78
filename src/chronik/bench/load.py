"""Drives workers for a fixed time and counts their results. The caller opens and closes the workers; `workloads`
defines what they send.

Without a rate every worker sends again as soon as it has its response: as fast as the broker allows. With a rate
requests fall due at fixed times whether or not a worker is free, and a latency counts from when the request was due, so
a stalling broker is charged for every request it kept waiting. Requests that are unanswered at the end count with the
time they have taken until then.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from chronik.bench.histogram import Histogram
from chronik.client.errors import ClientError
from chronik.runtime.units import NS_PER_S

TICK_S: Final = 0.001
REPAIR_S: Final = 0.1
DRAIN_S: Final = 5


class Worker(Protocol):
    """Has at most one request in flight, from `begin` until it calls `Load.done` or `Load.failed`."""

    due_ns: int  # due time of the request in flight; 0 if there is none

    async def open(self) -> None:
        """Connects to the node for its requests; raises ClientError or OSError."""

    def begin(self, due_ns: int) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Totals:
    seconds: float
    request_count: int
    message_count: int
    byte_count: int
    errors: dict[str, int]
    cpu_s: float  # CPU time of this process while measuring
    latency: Histogram  # in microseconds, corrected for coordinated omission


class Load:
    def __init__(self, *, rate: int | None = None, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self.message_count = 0
        self.byte_count = 0
        self.errors: Counter[str] = Counter()
        self.latency = Histogram()
        self.recent = Histogram()  # since the last display of the live line
        self._rate = rate
        self._clock_ns = clock_ns
        self._workers: Sequence[Worker] = ()
        self._idle: deque[Worker] = deque()
        self._late: deque[int] = deque()  # due times of requests that wait for a free worker
        self._due_count = 0
        self._started_ns = 0
        self._started_cpu_s = 0.0
        self.is_over = False  # the time is up: later results do not count
        self._all_ended = asyncio.Event()
        self._repairs: dict[Worker, asyncio.Task[None]] = {}

    @property
    def error_count(self) -> int:
        return sum(self.errors.values())

    async def run(self, workers: Sequence[Worker], seconds: float) -> Totals:
        self._workers = workers
        self._started_ns = self._clock_ns()
        self._started_cpu_s = time.process_time()
        for worker in workers:
            self._next(worker)
        if self._rate is not None:
            self._tick()
        await asyncio.sleep(seconds)
        self.is_over = True
        ended_ns = self._clock_ns()
        totals = self._totals(ended_ns)
        for task in self._repairs.values():
            task.cancel()
        await self._drain()
        return totals

    # --- for workers

    def done(self, worker: Worker, message_count: int, byte_count: int) -> None:
        """The worker's request succeeded."""
        now_ns = self._clock_ns()
        latency_us = (now_ns - worker.due_ns) // 1000
        worker.due_ns = 0
        if self.is_over:
            self._note_end()
            return
        self.message_count += message_count
        self.byte_count += byte_count
        self.latency.add(latency_us)
        self.recent.add(latency_us)
        if self._rate is None:
            worker.begin(now_ns)
        elif self._late:
            worker.begin(self._late.popleft())
        else:
            self._idle.append(worker)

    def measured(self, due_ns: int, byte_count: int) -> None:
        """Records the latency of a message, as opposed to a request."""
        if not self.is_over:
            latency_us = (self._clock_ns() - due_ns) // 1000
            self.message_count += 1
            self.byte_count += byte_count
            self.latency.add(latency_us)
            self.recent.add(latency_us)

    def free(self, worker: Worker) -> None:
        """The request is over without a measurement."""
        worker.due_ns = 0
        if self.is_over:
            self._note_end()
        else:
            self._next(worker)

    def failed(self, worker: Worker, why: str) -> None:
        """The request failed; the worker reconnects."""
        if worker.due_ns:
            self.latency.add((self._clock_ns() - worker.due_ns) // 1000)
        elif worker in self._idle:  # its connection was lost between requests: others take over
            self._idle.remove(worker)
        worker.due_ns = 0
        if self.is_over:
            self._note_end()
            return
        self.errors[why] += 1
        if worker in self._repairs:  # its reconnect is already pending after a refusal
            self._repairs[worker].cancel()
        self._repairs[worker] = asyncio.get_running_loop().create_task(self._repair(worker))

    async def _repair(self, worker: Worker) -> None:
        while not self.is_over:
            await asyncio.sleep(REPAIR_S)
            try:
                await worker.open()
            except (ClientError, OSError) as fault:
                self.errors[type(fault).__name__] += 1
            else:
                del self._repairs[worker]
                self._next(worker)
                return

    # --- pacing

    def _next(self, worker: Worker) -> None:
        if self._rate is None:
            worker.begin(self._clock_ns())
        elif self._late:
            worker.begin(self._late.popleft())
        else:
            self._idle.append(worker)

    def _tick(self) -> None:
        """Starts the requests that have fallen due since the last tick."""
        assert self._rate is not None
        if self.is_over:
            return
        elapsed_ns = self._clock_ns() - self._started_ns
        due_count = elapsed_ns * self._rate // NS_PER_S + 1
        for index in range(self._due_count, due_count):
            due_ns = self._started_ns + index * NS_PER_S // self._rate
            if self._idle:
                self._idle.popleft().begin(due_ns)
            else:
                self._late.append(due_ns)
        self._due_count = due_count
        asyncio.get_running_loop().call_later(TICK_S, self._tick)

    # --- the end

    def _totals(self, ended_ns: int) -> Totals:
        request_count = self.latency.count
        for due_ns in [worker.due_ns for worker in self._workers if worker.due_ns] + list(self._late):
            self.latency.add((ended_ns - due_ns) // 1000)
        seconds = (ended_ns - self._started_ns) / NS_PER_S
        latency = self.latency
        if self._rate is None and request_count:
            usual_us = int(seconds * 1e6 * len(self._workers) / request_count)
            latency = latency.corrected(usual_us)
        cpu_s = time.process_time() - self._started_cpu_s
        return Totals(seconds, request_count, self.message_count, self.byte_count, dict(self.errors), cpu_s, latency)

    async def _drain(self) -> None:
        """Waits for requests in flight, to avoid disconnecting in the middle of them."""
        self._note_end()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self._all_ended.wait()

    def _note_end(self) -> None:
        if self.is_over and not any(worker.due_ns for worker in self._workers):
            self._all_ended.set()
