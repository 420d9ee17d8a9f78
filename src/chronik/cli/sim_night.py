"""`chronik sim night`: many seeds of every storage fault and every scenario, for hours. Exit code 1 when a seed failed.

Results are written to disk after each chunk of seeds. Ctrl-C waits for the seeds that are running, then prints the
table. The same command continues from the results file.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chronik.cli.output import Column, Row, print_rows
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from types import FrameType

    from chronik.sim.night import Chunk, Code, Night, Subject
    from chronik.sim.workers import Workers

FAILED = 1
RESULTS = Path("build/sim-night.jsonl")

COLUMNS = (
    Column("subject", "SUBJECT"),
    Column("count", "SEEDS", is_number=True),
    Column("failed", "FAILED", is_number=True),
    Column("cpu_s", "CPU S/SEED", is_number=True),
    Column("seeds", "FAILING SEEDS"),
)
SEEDS_SHOWN = 5


def night(
    *,
    only: Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)] = None,
    seeds: int | None = None,
    first: int = 0,
    results: Path = RESULTS,
    jobs: int = 0,
    continues: Annotated[bool, Parameter(name="--continue", negative="--no-continue")] = True,
) -> int:
    """Run many seeds of every storage fault and every scenario.

    Runs 100 seeds of each in turn, so that a run that is stopped early has covered all of them evenly. Stop it with
    Ctrl-C; the same command continues if the code is the same.

    For example:
      chronik sim night
      chronik sim night --only lost-journal --only swarm --seeds 500

    Parameters
    ----------
    only
        Scenario, storage fault or SCENARIO/FAULT to run; may be repeated; default: all.
    seeds
        Number of seeds of each; default: 2000 of each storage fault, 1000 of each other scenario.
    first
        First seed; default: 0.
    results
        File for the results, as JSON lines; default: build/sim-night.jsonl.
    jobs
        Number of processes; 0 = one per core (default).
    continues
        Skip the seeds that the results file holds for the same code (default).
    """
    from chronik.cli.errors import CommandError
    from chronik.sim.errors import BadResults, UnknownFault, UnknownScenario
    from chronik.sim.night import Night, subjects_named
    from chronik.sim.workers import Workers

    try:
        subjects = subjects_named(only or ())
        planned = Night(results, _code(), subjects, first=first, seeds=seeds, continues=continues)
    except (BadResults, UnknownFault, UnknownScenario) as error:
        raise CommandError(str(error)) from error
    before = signal.signal(signal.SIGTERM, _interrupt)
    workers = Workers(jobs)
    try:
        _run(planned, workers)
    finally:
        workers.close()
        signal.signal(signal.SIGTERM, before)
        _print_table(planned)
        print(f"results: {results}")
    return FAILED if planned.failed_count else 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _code() -> Code:
    import chronik
    from chronik.sim.night import Code, digest_of

    package = Path(chronik.__file__).parent
    commit = _git(package, "rev-parse", "HEAD") or "unknown"
    return Code(commit, bool(_git(package, "status", "--porcelain")), digest_of(package))


def _git(directory: Path, *words: str) -> str:
    """Output of git; empty if git or the repository is missing."""
    try:
        done = subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, check=False)  # noqa: S603, S607
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(planned: Night, workers: Workers) -> None:
    begun_s, cpu_s, count = time.monotonic(), 0.0, 0
    while (chunk := planned.next_chunk()) is not None:
        results = []
        for result in workers.run(*chunk.subject, chunk.seeds):
            results.append(result)
            cpu_s += result.cpu_s
            count += 1
            if result.failure:
                print(f"{chunk.subject} seed {result.seed}: {result.failure.partition(chr(10))[0]}", flush=True)
        planned.finish(chunk, results)
        _tell(planned, chunk, count, time.monotonic() - begun_s, cpu_s)


def _tell(planned: Night, chunk: Chunk, count: int, elapsed_s: float, cpu_s: float) -> None:
    """Prints one line; on a terminal it replaces the line before."""
    done = sum(line.count for line in planned.lines.values())
    left = sum(planned.left(subject) for subject in planned.lines)
    hours, minutes = divmod(round(planned.left_cpu_s() * elapsed_s / max(cpu_s, 0.001) / 60), 60)
    text = (
        f"{chunk.subject}: {done:,} of {done + left:,} seeds, {planned.failed_count} failed, "
        f"{count / elapsed_s * 60:.0f} a minute, {hours} h {minutes} min left"
    )
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:79]}", end="" if left else "\n", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def _print_table(planned: Night) -> None:
    """Faults that the product does not promise to survive have a table of their own."""
    promised = [subject for subject in planned.lines if not subject.is_by_name_only]
    others = [subject for subject in planned.lines if subject.is_by_name_only]
    if promised:
        print_rows([_row(planned, subject) for subject in promised], COLUMNS, as_json=False)
    if others:
        print("\nFaults by name only, which may fail:")
        print_rows([_row(planned, subject) for subject in others], COLUMNS, as_json=False)
    print()
    for subject, line in planned.lines.items():
        if line.failed:
            print(f"look closer: {subject.command} --seed {min(map(int, line.failed))}")
    count = sum(line.count for line in planned.lines.values())
    print(f"{counted(count, 'seed')}, {planned.failed_count} failed")


def _row(planned: Night, subject: Subject) -> Row:
    line = planned.lines[subject]
    failing = sorted(map(int, line.failed))
    shown = ", ".join(map(str, failing[:SEEDS_SHOWN]))
    return {
        "subject": str(subject),
        "count": line.count,
        "failed": len(failing),
        "cpu_s": f"{line.cpu_s / line.count:.2f}" if line.count else None,
        "seeds": f"{shown}, ..." if len(failing) > SEEDS_SHOWN else shown,
    }
