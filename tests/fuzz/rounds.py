"""Rounds of frames over all doors of a fuzzer, with the rate and the memory of the process after each.

A round is one run of each door; its seed is the first seed plus the round's number, so a finding names what repeats it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

RSS_GROWTH_MAX = 64 << 20  # of a whole run, behind its first tenth


def run_rounds(
    fuzz: Callable[[str, int, int], str | None], doors: Iterable[str], *, seed: int, frames: int, per_round: int
) -> int:
    """The exit code. `fuzz` takes a door, a seed and a number of frames, and returns what it found."""
    names = list(doors)
    per_door = min(per_round, -(-frames // len(names)))
    rounds = -(-frames // (per_door * len(names)))
    done, started, settled_bytes = 0, time.monotonic(), 0
    print(f"{len(names)} doors, {rounds} rounds of {per_door} frames at each, seed {seed}", flush=True)
    for number in range(rounds):
        for name in names:
            finding = fuzz(name, seed + number, per_door)
            if finding:
                print(finding)
                return 1
            done += per_door
        if number == rounds // 10:
            settled_bytes = _rss_bytes()
        rate = done / (time.monotonic() - started)
        print(f"{done:>10,} frames, {rate:,.0f}/s, {_rss_bytes() >> 20} MiB", flush=True)
    grown_bytes = _rss_bytes() - settled_bytes
    if grown_bytes > RSS_GROWTH_MAX:
        print(f"memory grew by {grown_bytes} bytes behind the first tenth of the run")
        return 1
    return 0


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
