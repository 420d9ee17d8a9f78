"""The rest of a read that returned fewer bytes than were asked for.

POSIX allows pread to return less at any time, and Linux does after 2 GiB, on a signal and on some network file systems.
Only a read of no bytes means the end of the file. Real and simulated files share this, so that it is tested where
short reads are frequent.
"""

from __future__ import annotations

from collections.abc import Callable


def read_rest(read: Callable[[int, int], bytes], data: bytes, position: int, size_bytes: int) -> memoryview:
    """`data`, which was read at `position`, and what is missing of `size_bytes`; fewer at the end of the file.

    `read` is given a number of bytes and a position.
    """
    parts, got = [data], len(data)
    while got < size_bytes and (data := read(size_bytes - got, position + got)):
        parts.append(data)
        got += len(data)
    return memoryview(b"".join(parts))
