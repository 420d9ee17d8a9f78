"""The machine's memory and name, which affect configuration defaults. A simulation supplies its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from chronik.runtime.units import GIB

_cgroup_limits = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class Machine(NamedTuple):
    memory_bytes: int
    host_name: str  # advertised if a listener is on all interfaces

    @classmethod
    def here(cls) -> Machine:
        return cls(min(_physical_bytes(), _container_bytes()), os.uname().nodename)


SIMULATED = Machine(memory_bytes=GIB, host_name="localhost")


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _container_bytes() -> int:
    """The limit of the control group, version 1 or 2; if none is set, there is no limit."""
    for path in _cgroup_limits:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            return int(text)
    return 1 << 62
