"""Memory that was given back is there for the next request, without a page fault for every 4 KB of it."""

from __future__ import annotations

import subprocess
import sys

ROUNDS, BUFFERS, BUFFER_BYTES, PAGE_BYTES = 20, 8, 1 << 20, 4096

PROGRAM = f"""
import resource
from chronik.runtime.freed_memory import keep_freed_memory

print(keep_freed_memory())
some = [bytearray({BUFFER_BYTES}) for _ in range({BUFFERS})]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    some = []
    some = [bytearray({BUFFER_BYTES}) for _ in range({BUFFERS})]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_large_buffers_are_used_again() -> None:
    """In a separate process, because the setting is permanent and process-wide."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    could_be_told, faults = done.stdout.split()
    assert could_be_told == "True"
    assert int(faults) < ROUNDS * BUFFERS * BUFFER_BYTES // PAGE_BYTES // 10
