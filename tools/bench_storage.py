"""Measures storage alone, on the disk of a directory: `PYTHONPATH=src python tools/bench_storage.py [DIRECTORY]`.

Figures are the loop's own: CPU of append, of a durable round and its waiters, bytes per second with fsync, recovery.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial

import uvloop

from chronik.runtime.real import real_runtime
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.wire.batches import BatchView, build, validate_produced
from chronik.wire.records import Record

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(15) + b"\x01"


def batch(count: int, value_bytes: int, producer_id: int = -1, sequence: int = -1) -> BatchView:
    records = [Record(index, NOW_MS, None, b"v" * value_bytes, ()) for index in range(count)]
    data = build(records, producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1, base_sequence=sequence)
    return validate_produced(memoryview(data), 1 << 30)


async def append_one_record(logs: Logs) -> None:
    log = logs.create("one", TOPIC_ID, 0, LogConfig())
    plain = [batch(1, 100)] * 1000
    print(f"append, 1 record of 100 B            {best_append_us(log, [plain] * 30):6.2f} us CPU, best of 30 x 1,000")
    produced = [[batch(1, 100, 7, start + index) for index in range(1000)] for start in range(0, 20_000, 1000)]
    print(f"append, the same, idempotent         {best_append_us(log, produced):6.2f} us CPU, best of 20 x 1,000")


def best_append_us(log: Log, runs: list[list[BatchView]]) -> float:
    best_ns = 1 << 62
    for sent in runs:
        started = time.thread_time_ns()
        for one in sent:
            log.append(one, leader_epoch=1, now_ms=NOW_MS)
        best_ns = min(best_ns, time.thread_time_ns() - started)
    return best_ns / len(runs[0]) / 1000


async def rounds(logs: Logs, *, log_count: int, waiter_count: int) -> None:
    """Round after round: waiters append one record each, over the logs in turn, and wait. CPU is without append's."""
    used = [logs.create(f"r{log_count}", TOPIC_ID, index, LogConfig()) for index in range(log_count)]
    small = batch(1, 100)
    loop = asyncio.get_running_loop()
    for log in used:
        log.append(small, leader_epoch=1, now_ms=NOW_MS)
    cpu_ns, latency_ns = [], []
    for _ in range(300 if log_count < 100 else 60):
        begun = time.perf_counter_ns()
        for index in range(waiter_count):
            used[index % log_count].append(small, leader_epoch=1, now_ms=NOW_MS)
        cpu = time.thread_time_ns()
        done = loop.create_future()
        woken = partial(_woken, [waiter_count], done)
        for index in range(waiter_count):
            log = used[index % log_count]
            future = log.when_durable(log.end_offset)
            if future is not None:
                future.add_done_callback(woken)
        await done
        cpu_ns.append(time.thread_time_ns() - cpu)
        latency_ns.append(time.perf_counter_ns() - begun)
    cpu_us, latency_ms = (sorted(values)[len(values) // 2] for values in (cpu_ns, latency_ns))
    print(
        f"{log_count:5} logs, {waiter_count:4} waiters a round    {cpu_us / 1000:8.1f} us loop CPU a round, best"
        f" {min(cpu_ns) / 1000:.1f}; p50 {latency_ms / 1e6:.2f} ms, best {min(latency_ns) / 1e6:.2f}"
    )


def _woken(left: list[int], done: asyncio.Future[None], _: object) -> None:
    left[0] -= 1
    if left[0] == 0:
        done.set_result(None)


async def throughput(logs: Logs, *, durable: bool) -> None:
    log = logs.create("large" if durable else "large-os", TOPIC_ID, 0, LogConfig())
    large = batch(1000, 1000)
    size_bytes = large.size_bytes
    count = 600
    started = time.perf_counter()
    waiting: list[asyncio.Future[None]] = []
    for _ in range(count):
        log.append(large, leader_epoch=1, now_ms=NOW_MS)
        if durable:
            future = log.when_durable(log.end_offset)
            if future is not None:
                waiting.append(future)
            if len(waiting) > 4:
                await waiting.pop(0)
        await asyncio.sleep(0)
    for future in waiting:
        await future
    seconds = time.perf_counter() - started
    how = "fsync" if durable else "page cache"
    print(f"1 MB batches, {how:10}             {count * size_bytes / seconds / 1e6:8.0f} MB/s")
    if durable:
        return
    offset = 0
    started_cpu = time.process_time()
    total = 0
    while offset < log.end_offset:
        read = log.read(offset, bytes_max=1 << 20, offset_limit=log.end_offset)
        total += read.size_bytes
        offset = read.next_offset
    cpu = time.process_time() - started_cpu
    print(f"read 1 MB at a time                  {total / cpu / 1e6:8.0f} MB/s of CPU time")


async def tail_reads(logs: Logs) -> None:
    log = logs.create("tail", TOPIC_ID, 0, LogConfig())
    one = batch(1, 100)
    appended = [log.append(one, leader_epoch=1, now_ms=NOW_MS) for _ in range(20_000)]
    started = time.process_time_ns()
    for each in appended[-400:]:
        log.read(each.first_offset, bytes_max=1 << 20, offset_limit=each.first_offset + 1)
    print(f"read of one new record               {(time.process_time_ns() - started) / 400 / 1000:6.2f} us CPU")
    started = time.process_time_ns()
    for each in appended[:2000]:
        log.read(each.first_offset, bytes_max=1 << 20, offset_limit=each.first_offset + 1)
    print(f"read of one old record, by index     {(time.process_time_ns() - started) / 2000 / 1000:6.2f} us CPU")


async def recovery(directory: str, log_count: int) -> None:
    runtime = real_runtime()
    logs = await Logs.open(runtime, directory, LogsConfig())
    small = batch(10, 100)
    for index in range(log_count):
        log = logs.create("many", TOPIC_ID, index, LogConfig())
        for _ in range(20):
            log.append(small, leader_epoch=1, now_ms=NOW_MS)
    waits = [log.when_durable(log.end_offset) for log in logs.all()]
    await asyncio.gather(*[wait for wait in waits if wait is not None])
    for log in logs.all():
        log.append(small, leader_epoch=1, now_ms=NOW_MS)
    for log in logs.all():
        log.let_go()
    runtime.disk.unlock(f"{directory}/.lock")  # as kill -9 would leave it: no checkpoint, the journal in place
    gc.collect()
    started = time.perf_counter()
    again = await Logs.open(real_runtime(), directory, LogsConfig())
    seconds = time.perf_counter() - started
    assert all(log.end_offset == 210 for log in again.all())
    print(f"open {log_count} logs as after kill -9         {seconds * 1000:8.0f} ms")
    await again.close()
    started = time.perf_counter()
    again = await Logs.open(real_runtime(), directory, LogsConfig())
    print(f"open {log_count} logs after a clean end        {(time.perf_counter() - started) * 1000:8.0f} ms")
    await again.close()


async def run(directory: str) -> None:
    async def fresh(name: str, work: Callable[[Logs], Awaitable[None]]) -> None:
        logs = await Logs.open(real_runtime(), f"{directory}/{name}", LogsConfig())
        await work(logs)
        await logs.close()
        shutil.rmtree(f"{directory}/{name}")

    await fresh("append", append_one_record)
    for log_count, waiter_count in [(1, 1), (1, 128), (8, 128), (128, 128), (1000, 1000)]:
        await fresh("rounds", partial(rounds, log_count=log_count, waiter_count=waiter_count))
    await fresh("durable", partial(throughput, durable=True))
    await fresh("cached", partial(throughput, durable=False))
    await fresh("tail", tail_reads)
    await recovery(f"{directory}/recovery", 1000)


if __name__ == "__main__":
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    place = tempfile.mkdtemp(prefix="chronik-bench-", dir=parent)
    try:
        uvloop.run(run(place))
    finally:
        shutil.rmtree(place)
