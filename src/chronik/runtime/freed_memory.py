"""Keeps some freed memory in the process, enough for the next requests.

When the C library returns a large buffer to the kernel, the next use costs a page fault and a cleared page per 4 KB.
For records that are only passed on, that equals all other costs. glibc decides by size and by the free space at the end
of the heap; other C libraries have no such setting, and are left unchanged.
"""

from __future__ import annotations

import ctypes
import logging

logger = logging.getLogger("chronik.runtime")

# Parameters of glibc's mallopt.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES_MAX = 48 << 20  # free at the end of the heap, before some goes back
KEPT_BUFFER_BYTES_MAX = 16 << 20  # a follower's whole fetch; larger ones are mapped and unmapped individually


def keep_freed_memory() -> bool:
    """Returns whether this C library supports it."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        logger.debug("this C library decides itself when memory goes back to the kernel")
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, KEPT_BUFFER_BYTES_MAX) and mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX))
