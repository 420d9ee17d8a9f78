"""The clocks of one simulated machine: a monotonic one that runs slightly fast or slow, and a wall clock that may jump.

Both follow the process's loop, so a machine's timers and clocks agree with each other and drift from other machines
alike. The monotonic clock restarts when the power comes back, as CLOCK_BOOTTIME does.
"""

from __future__ import annotations

from chronik.runtime.units import NS_PER_MS
from chronik.sim.loop import ProcessLoop

WALL_MS = 1_700_000_000_000  # start time of every world


class SimClock:
    def __init__(self, loop: ProcessLoop, *, booted_ns: int = 0, wall_offset_ms: int = 0) -> None:
        self._node_ns = loop.node_ns
        self._booted_ns = booted_ns
        self.wall_offset_ms = wall_offset_ms

    def wall_ms(self) -> int:
        return WALL_MS + self.wall_offset_ms + self._node_ns() // NS_PER_MS

    def monotonic_ns(self) -> int:
        return self._node_ns() - self._booted_ns
