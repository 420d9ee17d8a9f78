"""The real machine as one value. A program creates it once, in its event loop, and passes it down."""

from __future__ import annotations

from chronik.runtime.interfaces import Runtime
from chronik.runtime.real_clock import RealClock
from chronik.runtime.real_disk import RealDisk
from chronik.runtime.real_network import RealNetwork
from chronik.runtime.real_randomness import RealRandomness


def real_runtime() -> Runtime:
    return Runtime(RealClock(), RealDisk(), RealNetwork(), RealRandomness())
