"""`chronik sim`: whole clusters in virtual time under faults, from seeds. Exit code 1 when an invariant broke."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from chronik.cli.sim_night import night
from chronik.runtime.wording import counted

FAILED = 1

app = App(name="sim")
app.command(night)


@app.default
def sim(
    *,
    scenario: str = "topics",
    seed: int | None = None,
    seeds: int = 100,
    first: int = 0,
    jobs: int = 0,
    fault: str = "",
    log: Annotated[bool, Parameter(negative="")] = False,
    shrink: Annotated[bool, Parameter(negative="--no-shrink")] = True,
) -> int:
    """Run clusters in virtual time under faults.

    For example:
      chronik sim --seeds 1000
      chronik sim --scenario metadata --seed 383 --log
      chronik sim --scenario loss --fault lost-journal --seeds 50
      chronik sim night --results night.jsonl

    Parameters
    ----------
    scenario
        Scenario to run: quorum, metadata, topics, ...; an unknown name lists all.
    seed
        Run one seed, and show the details if it fails.
    seeds
        Number of seeds to run, starting at --first; default: 100.
    first
        First seed; default: 0.
    jobs
        Number of processes; 0 = one per core (default).
    fault
        Fault that every run has, in scenarios that offer a choice; an unknown name lists them; default: drawn.
    log
        Print the whole log of the seed.
    shrink
        Find the shortest schedule of faults that still fails (default).
    """
    from chronik.cli.errors import CommandError
    from chronik.sim.errors import UnknownFault, UnknownScenario

    try:
        if seed is not None:
            return _one(scenario, seed, fault, log=log, shrinks=shrink)
        return _many(scenario, range(first, first + seeds), jobs, fault, shrinks=shrink)
    except (UnknownFault, UnknownScenario) as error:
        raise CommandError(str(error)) from error


def _one(scenario: str, seed: int, fault: str, *, log: bool, shrinks: bool) -> int:
    from chronik.sim.scenarios import run_named
    from chronik.sim.sweep import report, shrunk

    outcome = run_named(scenario, seed, only=fault)
    if log:
        print("\n".join(outcome.lines))
    if outcome.failure is None:
        print(
            f"seed {seed}: {outcome.operation_count} operations in {outcome.virtual_ms} virtual ms, "
            f"log {outcome.log_hash}: all invariants hold"
        )
        return 0
    if shrinks:
        outcome = shrunk(outcome, lambda line: print(line, file=sys.stderr))
    print(report(outcome))
    return FAILED


def _many(scenario: str, seeds: range, jobs: int, fault: str, *, shrinks: bool) -> int:
    from chronik.sim.scenarios import fault_named
    from chronik.sim.sweep import sweep

    fault_named(scenario, fault)  # before workers are started
    failed: list[int] = []
    operation_count = virtual_ms = 0
    for result in sweep(scenario, seeds, jobs=jobs, only=fault):
        operation_count += result.operation_count
        virtual_ms += result.virtual_ms
        if result.failure:
            failed.append(result.seed)
            print(f"seed {result.seed}: {result.failure}", flush=True)
    print(
        f"{scenario}: {counted(len(seeds), 'seed')}, {counted(operation_count, 'operation')} in "
        f"{virtual_ms // 1000} virtual seconds, {len(failed)} failed"
    )
    if not failed:
        return 0
    print(f"looking closer at seed {min(failed)}")
    return _one(scenario, min(failed), fault, log=False, shrinks=shrinks)
