"""The machine's clocks. The product uses no other source of time."""

from __future__ import annotations

import time
from functools import partial

# CLOCK_BOOTTIME advances while the machine sleeps, so a lease does not outlive a suspended laptop. Systems without it
# (macOS) use the monotonic clock.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class RealClock:
    def __init__(self) -> None:
        self.monotonic_ns = partial(time.clock_gettime_ns, _BOOTTIME)  # called several times per request

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
