"""Time series of the last hour and the last day, in bounded memory. Pure: the caller says what time it is.

A series has two rings: a value every 2 s for 1 hour, and the mean of each minute for 24 hours. A moment without a value
is NaN here and null outside. Values are 32-bit floats: charts need no more, and 2,000 series then take 26 MB.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Final

from chronik.runtime.units import MINUTE_MS

STEP_MS: Final = 2_000
STEPS: Final = 1_800
MINUTES: Final = 1_440
SERIES_MAX: Final = 2_000
Values = list[float | None]


class Ring:
    """The last `count` values, one per `step_ms` of wall time; NaN where there is none."""

    def __init__(self, step_ms: int, count: int) -> None:
        self.step_ms, self.count = step_ms, count
        self._values = array("f", [math.nan]) * count
        self._last = -1  # the newest step that was written, counted from 1970

    def put(self, time_ms: int, value: float) -> None:
        """Steps that were skipped are cleared. What is older than the newest by more than the ring is ignored."""
        step = time_ms // self.step_ms
        if self._last < 0 or step - self._last >= self.count:
            self._values = array("f", [math.nan]) * self.count
        else:
            for skipped in range(self._last + 1, step):
                self._values[skipped % self.count] = math.nan
        if step > self._last - self.count:
            self._values[step % self.count] = value
            self._last = max(self._last, step)

    def read(self, since_ms: int, until_ms: int) -> tuple[int, Values]:
        """The time of the first value, and the values up to now."""
        last = until_ms // self.step_ms
        first = max(-(-since_ms // self.step_ms), last - self.count + 1)
        return first * self.step_ms, [self._at(step) for step in range(first, last + 1)]

    def _at(self, step: int) -> float | None:
        if step > self._last or step <= self._last - self.count:
            return None
        value = self._values[step % self.count]
        return None if math.isnan(value) else value


class Series:
    def __init__(self) -> None:
        self._steps, self._minutes = Ring(STEP_MS, STEPS), Ring(MINUTE_MS, MINUTES)
        self._minute, self._sum, self._count = -1, 0.0, 0

    def put(self, time_ms: int, value: float) -> None:
        self._steps.put(time_ms, value)
        minute = time_ms // MINUTE_MS
        if minute != self._minute:
            self._minute, self._sum, self._count = minute, 0.0, 0
        self._sum += value
        self._count += 1
        self._minutes.put(time_ms, self._sum / self._count)

    def ring(self, step_ms: int) -> Ring:
        return self._minutes if step_ms == MINUTE_MS else self._steps


class History:
    """Series by name. When there are SERIES_MAX, new names are not kept."""

    def __init__(self) -> None:
        self._series: dict[str, Series] = {}

    def put(self, time_ms: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            series = self._series.get(name)
            if series is None:
                if len(self._series) >= SERIES_MAX:
                    continue
                series = self._series[name] = Series()
            series.put(time_ms, value)

    def read(self, name: str, step_ms: int, since_ms: int, until_ms: int) -> tuple[int, Values]:
        """All nulls for a name that is not known."""
        series = self._series.get(name)
        ring = Ring(step_ms, MINUTES if step_ms == MINUTE_MS else STEPS) if series is None else series.ring(step_ms)
        return ring.read(since_ms, until_ms)

    def change_per_s(self, name: str, window_ms: int, now_ms: int) -> float | None:
        """By how much a series has changed, from its first value in the window to its last."""
        start_ms, values = self.read(name, STEP_MS, now_ms - window_ms, now_ms)
        known = [(start_ms + index * STEP_MS, value) for index, value in enumerate(values) if value is not None]
        if len(known) < 2:
            return None
        (first_ms, first), (last_ms, last) = known[0], known[-1]
        return (last - first) / ((last_ms - first_ms) / 1_000)
