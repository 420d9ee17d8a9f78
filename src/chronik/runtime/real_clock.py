"""The machine's clocks. Nothing else in the product asks the machine what time it is."""

from __future__ import annotations

import time
from functools import partial

# CLOCK_BOOTTIME counts while the machine sleeps, so a lease does not outlive a suspended laptop. Where the system has
# none (macOS), the monotonic clock is the nearest there is.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class RealClock:
    def __init__(self) -> None:
        self.monotonic_ns = partial(time.clock_gettime_ns, _BOOTTIME)  # asked several times a request

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
