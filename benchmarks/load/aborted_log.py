"""A log with very many aborted transactions: the cost of opening it, reading it, and rebuilding its index.

The storage layer writes the log, without a broker: a million transactions of a client would take an hour. Kafka keeps
all of them in memory and in a file that it reads at the start. A client cannot measure that in reasonable time, so
there are no figures for Kafka.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop

from chronik.broker.turns import Turns
from chronik.runtime.real import real_runtime
from chronik.storage.aborted_mending import mending
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.origins import Origin
from chronik.wire import records
from chronik.wire.batches import BatchView, build, split
from chronik.wire.records import ControlType, Record

TOPIC_ID = bytes(15) + b"\1"
PRODUCERS = 100
NOW_MS = 1_700_000_000_000
LOOKUPS = 1000
READ_BYTES = 500_000
TICK_S = 0.001


class Figures(NamedTuple):
    open_ms: float
    lookup_us: float  # among all of them, of what one fetch of half a megabyte needs
    lookup_few_us: float  # the same in a log with a hundredth of them
    open_cpu_ms: float
    mend_s: float
    mend_cpu_s: float
    longest_hold_ms: float  # of the event loop, while the index is rebuilt
    longest_hold_cpu_ms: float  # the same by the CPU that the loop used, whatever else the machine did


def measure(directory: Path, count: int) -> Figures:
    few, many = directory / "few", directory / "many"
    few.mkdir()
    many.mkdir()
    uvloop.run(_write(few, count // 100))
    uvloop.run(_write(many, count))
    lookup_few_us, _, _ = uvloop.run(_look_up(few))
    lookup_us, open_ms, open_cpu_ms = uvloop.run(_look_up(many))
    for path in many.glob("t-0/*.aborted"):
        path.unlink()
    return Figures(open_ms, lookup_us, lookup_few_us, open_cpu_ms, *uvloop.run(_mend(many)))


async def _open(directory: Path) -> tuple[Logs, Log]:
    logs = await Logs.open(real_runtime(), str(directory), LogsConfig())
    return logs, logs.create("t", TOPIC_ID, 0, LogConfig())


async def _write(directory: Path, count: int) -> None:
    logs, log = await _open(directory)
    for number in range(count):
        producer_id, sequence = number % PRODUCERS, number // PRODUCERS
        data = build(
            [Record(0, NOW_MS, None, b"v" * 20, ())],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        guard = log.producers.guard_for(producer_id, 0, sequence, is_tv2=False)
        log.append([_view(data)], leader_epoch=0, now_ms=NOW_MS, guard=guard)
        marker = build(
            [records.marker(0, NOW_MS, ControlType.ABORT, 0)],
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        log.append([_view(marker)], leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
        if number % 1000 == 0:
            await asyncio.sleep(0)
    await logs.close()


async def _look_up(directory: Path) -> tuple[float, float, float]:
    since, cpu_since = time.perf_counter(), time.process_time()
    logs, log = await _open(directory)
    open_ms, open_cpu_ms = (time.perf_counter() - since) * 1e3, (time.process_time() - cpu_since) * 1e3
    took = []
    for number in range(LOOKUPS):
        offset = log.end_offset * number // LOOKUPS
        found = log.read(offset, bytes_max=READ_BYTES // 100, offset_limit=log.end_offset)
        since = time.perf_counter()
        log.aborted_transactions(offset, found.next_offset)
        took.append(time.perf_counter() - since)
    await logs.close()
    return median(took) * 1e6, open_ms, open_cpu_ms


async def _mend(directory: Path) -> tuple[float, float, float, float]:
    """Seconds and CPU of all of it, then the longest hold in milliseconds and by its CPU."""
    logs, log = await _open(directory)
    log.aborted.distrust("the benchmark has removed the files")
    holds, cpu_holds = [0.0], [0.0]

    async def tick() -> None:
        while True:
            since, cpu_since = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK_S)
            holds.append(time.perf_counter() - since - TICK_S)
            cpu_holds.append(time.thread_time() - cpu_since)

    ticking = asyncio.ensure_future(tick())
    since, cpu_since = time.perf_counter(), time.process_time()
    await Turns(real_runtime().clock).run(mending(log))
    mend_s, mend_cpu_s = time.perf_counter() - since, time.process_time() - cpu_since
    ticking.cancel()
    await asyncio.wait([ticking])
    await logs.close()
    return mend_s, mend_cpu_s, max(holds) * 1e3, max(cpu_holds) * 1e3


def _view(data: bytes) -> BatchView:
    return split(memoryview(data))[0]
