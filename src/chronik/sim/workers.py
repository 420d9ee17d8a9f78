"""Processes that run seeds for hours: niced, deaf to Ctrl-C, and replaced when one dies.

A seed that ends its process, or computes for longer than any seed should, is a failed seed and does not end the rest.
Whoever closes the workers waits for the seeds that run, and for no others.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from chronik.sim.sweep import Result, run_one

Run = Callable[[str, int, str], Result]

NICENESS = 10
SEED_S_MAX = 900  # of real time; the slowest scenario takes a few seconds
SEEDS_PER_PROCESS = 2000  # then a fresh one takes its place: nothing that it kept by mistake grows for a night
DIED = "the process that ran the seed died, or took longer than 15 minutes"


class Workers:
    def __init__(self, jobs: int = 0, run: Run = run_one) -> None:
        self._jobs, self._run = jobs or os.cpu_count() or 1, run
        self._pool = self._make_pool(self._jobs)

    def run(self, scenario: str, fault: str, seeds: Sequence[int]) -> Iterator[Result]:
        """Results as they come, one for each seed."""
        done: set[int] = set()
        try:
            for result in self._run_in(self._pool, scenario, fault, seeds):
                done.add(result.seed)
                yield result
        except BrokenProcessPool:
            # One of those without a result did it. Each gets a process of its own, which tells.
            self._pool.shutdown()
            self._pool = self._make_pool(self._jobs)
            for seed in seeds:
                if seed not in done:
                    yield self._run_alone(scenario, fault, seed)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _run_alone(self, scenario: str, fault: str, seed: int) -> Result:
        with self._make_pool(1) as pool:
            try:
                return next(self._run_in(pool, scenario, fault, [seed]))
            except BrokenProcessPool:
                return _failed(seed, DIED)

    def _run_in(self, pool: ProcessPoolExecutor, scenario: str, fault: str, seeds: Sequence[int]) -> Iterator[Result]:
        waiting: list[Future[Result]] = []
        try:
            waiting = [pool.submit(_run_guarded, self._run, scenario, seed, fault) for seed in seeds]
            for future in as_completed(waiting):
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()

    def _make_pool(self, jobs: int) -> ProcessPoolExecutor:
        # A fresh interpreter per worker: a fork would carry over whatever the parent has imported and started.
        return ProcessPoolExecutor(
            jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            max_tasks_per_child=SEEDS_PER_PROCESS,
        )


def _failed(seed: int, failure: str) -> Result:
    return Result(seed, failure, failure, operation_count=0, virtual_ms=0, log_hash="", cpu_s=0.0)


def _begin() -> None:
    """Ctrl-C reaches every process of a terminal. Only the one that keeps the results acts on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)


def _run_guarded(run: Run, scenario: str, seed: int, fault: str) -> Result:
    """A seed that hangs ends its process, which prints where it was. An error of the simulator itself is a failure of
    the seed that met it."""
    faulthandler.dump_traceback_later(SEED_S_MAX, exit=True)
    try:
        return run(scenario, seed, fault)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other seeds are to run
        return _failed(seed, f"{type(error).__name__}: {error}")
    finally:
        faulthandler.cancel_dump_traceback_later()
