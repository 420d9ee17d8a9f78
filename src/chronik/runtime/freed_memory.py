"""What the process keeps of memory that it no longer uses: enough for the next requests.

A large buffer that the C library returns to the kernel costs a page fault and a cleared page for each 4 KB the next
time, which for records that are only passed on is as much as all the rest. glibc decides by size and by how much lies
free at the end of the heap; other C libraries have no such knob, and nothing happens there.
"""

from __future__ import annotations

import ctypes
import logging

logger = logging.getLogger("chronik.runtime")

# Numbers of glibc's mallopt.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES_MAX = 48 << 20  # free at the end of the heap, before some goes back
KEPT_BUFFER_BYTES_MAX = 16 << 20  # a follower's whole fetch; larger ones come from the kernel and go back to it


def keep_freed_memory() -> bool:
    """Whether this C library can be told."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        logger.debug("this C library decides itself when memory goes back to the kernel")
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, KEPT_BUFFER_BYTES_MAX) and mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX))
