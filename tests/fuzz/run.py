"""Feeds mutated inputs to every target: `python -m tests.fuzz.run --inputs 1000000 --jobs 2`.

A finding prints the target, the seed and the input in hex, ready to become a test, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import sys
import time
import tracemalloc
from random import Random

from tests.fuzz.mutations import mutate
from tests.fuzz.targets import REFUSALS, Target, all_targets

SECONDS_MAX = 10  # for one input; a decoder takes microseconds, so this is a hang and not a slow machine
MEMORY_EVERY = 16  # tracing memory is slow: one input in so many is measured
MEMORY_FACTOR, MEMORY_FREE = 16, 1 << 20


def fuzz(target: Target, seed: int, inputs: int) -> str | None:
    """Runs one target; returns the finding, if any."""
    random = Random(f"{seed}/{target.name}")
    corpus = [target.seeds(random) for _ in range(8)]
    try:
        for number in range(inputs):
            data = mutate(random, random.choice(corpus), random.choice(corpus))
            faulthandler.dump_traceback_later(SECONDS_MAX, exit=True)
            finding = _measured(target, data) if number % MEMORY_EVERY == 0 else _plain(target, data)
            if finding:
                return f"{target.name}, seed {seed}, input {number}: {finding}\n  {data.hex()}"
    finally:
        faulthandler.cancel_dump_traceback_later()  # else it ends the process in the middle of whatever comes next
    return None


def _plain(target: Target, data: bytes) -> str | None:
    try:
        target.run(data)
    except REFUSALS:
        pass
    except BaseException as fault:  # noqa: BLE001 - whatever it is, it is a finding
        return f"{type(fault).__name__}: {fault}"
    return None


def _measured(target: Target, data: bytes) -> str | None:
    _plain(target, data)  # compiling a decoder on first use is not the input's cost
    tracemalloc.start()
    try:
        finding = _plain(target, data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    allowed_bytes = MEMORY_FACTOR * len(data) + MEMORY_FREE
    # Both readers ran, the slow one after the fast one: their results exist side by side.
    if finding is None and peak_bytes > 2 * allowed_bytes:
        return f"took {peak_bytes} bytes of memory for {len(data)} bytes of input"
    return finding


def _work(job: tuple[int, int, int, int]) -> tuple[int, list[str]]:
    part, parts, seed, inputs = job
    targets = list(all_targets())[part::parts]
    findings = [finding for target in targets if (finding := fuzz(target, seed, inputs))]
    return inputs * len(targets), findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all, over all targets")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="a run with the same seed is the same run")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    targets = sum(1 for _ in all_targets())
    each = -(-options.inputs // targets)
    parts = 64  # small jobs, so that progress shows
    jobs = [(part, parts, options.seed, each) for part in range(parts)]
    done, findings, started = 0, [], time.monotonic()
    print(f"{targets} targets, {each} inputs each, seed {options.seed}", flush=True)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for count, found in pool.imap_unordered(_work, jobs):
            done += count
            findings += found
            rate = done / (time.monotonic() - started)
            end = "\r" if sys.stdout.isatty() else "\n"
            print(f"{done:>10,} inputs, {rate:,.0f}/s, {len(findings)} findings", end=end, flush=True)
    print()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
