"""Worker processes that run seeds for hours. They run at low priority, ignore Ctrl-C, and are replaced when they die.

A seed that kills its process or hangs is recorded as failed, and the other seeds still run. `close` waits for the
running seeds and cancels the others.
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
SEED_S_MAX = 900  # real time; the slowest scenario takes a few seconds
SEEDS_PER_PROCESS = 2000  # then a new process replaces it, which bounds memory leaks
DIED = "the process that ran this seed died, or ran for more than 15 minutes"


class Workers:
    def __init__(self, jobs: int = 0, run: Run = run_one) -> None:
        self._jobs, self._run = jobs or os.cpu_count() or 1, run
        self._pool = self._make_pool(self._jobs)

    def run(self, scenario: str, fault: str, seeds: Sequence[int]) -> Iterator[Result]:
        """Results as they arrive, one for each seed."""
        done: set[int] = set()
        try:
            for result in self._run_in(self._pool, scenario, fault, seeds):
                done.add(result.seed)
                yield result
        except BrokenProcessPool:
            # A seed without a result killed the pool. Running each in its own process shows which one.
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
        # A fresh interpreter per worker: a fork would inherit the parent's imports and threads.
        return ProcessPoolExecutor(
            jobs,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            max_tasks_per_child=SEEDS_PER_PROCESS,
        )


def _failed(seed: int, failure: str) -> Result:
    return Result(seed, failure, failure, operation_count=0, virtual_ms=0, log_hash="", cpu_s=0.0)


def _begin() -> None:
    """A terminal sends Ctrl-C to every process. Only the parent, which writes the results, handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)


def _run_guarded(run: Run, scenario: str, seed: int, fault: str) -> Result:
    """A seed that hangs ends its process, which prints a traceback. A simulator error is recorded as a failure of the
    seed."""
    faulthandler.dump_traceback_later(SEED_S_MAX, exit=True)
    try:
        return run(scenario, seed, fault)
    except Exception as error:  # noqa: BLE001 - the other seeds must still run
        return _failed(seed, f"{type(error).__name__}: {error}")
    finally:
        faulthandler.cancel_dump_traceback_later()
