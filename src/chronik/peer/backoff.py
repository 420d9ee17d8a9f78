"""Delays between retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from chronik.runtime.interfaces import Randomness

BACKOFF_MS_MIN: Final = 50
BACKOFF_MS_MAX: Final = 1_000


class Backoff:
    """Doubles with each attempt, with a random variation of a fifth, so that callers do not retry in step."""

    def __init__(self, randomness: Randomness, ms_min: int = BACKOFF_MS_MIN, ms_max: int = BACKOFF_MS_MAX) -> None:
        self._randomness = randomness
        self._ms_min, self._ms_max = ms_min, ms_max
        self._ms = ms_min

    def next_ms(self) -> int:
        wait_ms = self._ms
        self._ms = min(2 * self._ms, self._ms_max)
        check(
            self._ms_min <= wait_ms <= self._ms <= self._ms_max,
            "25 pauses grow up to their bound",
            pause_ms=wait_ms,
            next_ms=self._ms,
        )
        spread_ms = max(1, wait_ms // 5)
        return wait_ms - spread_ms + self._randomness.below(2 * spread_ms + 1)

    def reset(self) -> None:
        self._ms = self._ms_min
