"""Runs many seeds on all cores, and prints for each failure everything needed to reproduce it.

That is the seed, the shortest schedule that still breaks the same invariant, the end of the log, and the lines to paste
as a test. It does not stop at the first failure, because the number of failures matters.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from chronik.sim.faults import Fault
from chronik.sim.scenario import Outcome
from chronik.sim.scenarios import run_named
from chronik.sim.shrink import shrink

LOG_LINES = 60
SEEDS_PER_JOB = 4


class Result(NamedTuple):
    """An outcome in a form that can be sent between processes."""

    seed: int
    failure: str
    invariant: str
    operation_count: int
    virtual_ms: int
    log_hash: str
    cpu_s: float


def sweep(scenario: str, seeds: Iterable[int], *, jobs: int = 0, only: str = "") -> Iterator[Result]:
    """Results as they arrive, in any order. `only` is the selectable fault that every run has."""
    jobs = jobs or os.cpu_count() or 1
    work = [(scenario, seed, only) for seed in seeds]
    if jobs == 1 or len(work) == 1:
        yield from itertools.starmap(run_one, work)
        return
    # A fresh interpreter per worker: a fork would inherit the parent's imports and threads.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run_one, work, chunksize=SEEDS_PER_JOB)


def _run_one(work: tuple[str, int, str]) -> Result:
    return run_one(*work)


def run_one(scenario: str, seed: int, only: str = "") -> Result:
    begun_s = time.process_time()
    outcome = run_named(scenario, seed, only=only)
    return Result(
        outcome.seed,
        "" if outcome.failure is None else str(outcome.failure),
        outcome.invariant,
        outcome.operation_count,
        outcome.virtual_ms,
        outcome.log_hash,
        time.process_time() - begun_s,
    )


def shrunk(outcome: Outcome, tell: Callable[[str], None]) -> Outcome:
    """The run with the shortest schedule that still breaks the same invariant."""

    def fails(faults: list[Fault]) -> bool:
        failed = run_named(outcome.scenario, outcome.seed, faults).invariant == outcome.invariant
        tell(f"  {len(faults)} faults: {'still fails' if failed else 'passes'}")
        return failed

    return run_named(outcome.scenario, outcome.seed, shrink(outcome.faults, fails))


def report(outcome: Outcome, *, log_lines: int = LOG_LINES) -> str:
    """A readable report of a failed run."""
    lines = outcome.lines[-log_lines:] if log_lines else outcome.lines
    return "\n".join(
        [
            f"scenario {outcome.scenario}, seed {outcome.seed}: {outcome.failure}",
            *(f"drawn: {name} {value}" for name, value in outcome.drawn.items()),
            f"faults: {len(outcome.faults)}",
            *(f"    {fault}" for fault in outcome.faults),
            f"log, the last {len(lines)} of {len(outcome.lines)} lines:",
            *(f"    {line}" for line in lines),
            "as a test, in tests/sim/test_found.py:",
            paste(outcome),
        ]
    )


def paste(outcome: Outcome) -> str:
    faults = "".join(f"        {fault},\n" for fault in outcome.faults)
    return f'    Found("{outcome.scenario}", seed={outcome.seed}, faults=[\n{faults}    ]),  # {outcome.invariant}'
