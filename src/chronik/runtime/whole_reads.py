"""Completes a read that returned fewer bytes than requested.

POSIX allows short reads at any time, and Linux returns them after 2 GiB, on a signal and on some network file systems.
Only an empty read means the end of the file. Real and simulated files share this code, so tests cover it with frequent
short reads.
"""

from __future__ import annotations

from collections.abc import Callable


def read_rest(read: Callable[[int, int], bytes], data: bytes, position: int, size_bytes: int) -> memoryview:
    """Returns `data`, which was read at `position`, plus the missing part of `size_bytes`; less at the end of the file.

    `read` takes a size in bytes and a position.
    """
    parts, got = [data], len(data)
    while got < size_bytes and (data := read(size_bytes - got, position + got)):
        parts.append(data)
        got += len(data)
    return memoryview(b"".join(parts))
