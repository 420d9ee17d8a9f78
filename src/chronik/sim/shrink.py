"""Minimizes a failing schedule of faults: delta debugging, then shorter faults.

A smaller schedule counts as failing only if the same invariant breaks, so shrinking never switches to another bug. Each
attempt is a complete run of the same seed; this module knows nothing about the faults' meaning.
"""

from __future__ import annotations

from collections.abc import Callable

from chronik.sim.faults import Fault

RUNS_MAX = 200  # per shrinking; the rest is short enough to read

Fails = Callable[[list[Fault]], bool]


class _Counted:
    def __init__(self, fails: Fails) -> None:
        self._fails = fails
        self.runs_left = RUNS_MAX

    def __call__(self, faults: list[Fault]) -> bool:
        if self.runs_left <= 0:
            return False
        self.runs_left -= 1
        return self._fails(faults)


def shrink(faults: list[Fault], fails: Fails) -> list[Fault]:
    """The smallest failing schedule found: no single fault can be removed from it. `fails(faults)` must be true."""
    counted = _Counted(fails)
    return _shorten(_take_away(faults, counted), counted)


def _take_away(faults: list[Fault], fails: Fails) -> list[Fault]:
    """Zeller's ddmin: halves first, then smaller and smaller parts."""
    parts = 2
    while len(faults) >= 1:
        size = max(1, len(faults) // parts)
        for start in range(0, len(faults), size):
            rest = faults[:start] + faults[start + size :]
            if fails(rest):
                faults, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                return faults
            parts = min(len(faults), parts * 2)
    return faults


def _shorten(faults: list[Fault], fails: Fails) -> list[Fault]:
    """Halves durations and amounts while it still fails, so that values that matter stand out."""
    for place in range(len(faults)):
        for name in ("duration_ms", "amount"):
            while (value := getattr(faults[place], name)) > 1:
                smaller = faults[place]._replace(**{name: value // 2})
                shorter = [*faults[:place], smaller, *faults[place + 1 :]]
                if not fails(shorter):
                    break
                faults = shorter
    return faults
