"""Ports for nodes that must know each other's before they start.

The system may assign a released ephemeral port to any new connection. So these ports are below the ephemeral range, in
a slice that only this process uses: it keeps the slice's first port bound for as long as it lives. A port is reused
only after all others of the slice.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import cycle

HOST = "127.0.0.1"
FIRST, END = 16_000, 32_000  # ephemeral ports start at 32768 on Linux, elsewhere at 49152
SLICE = 100

_held: list[socket.socket] = []
_ports: Iterator[int] = iter(())


def free_ports(count: int) -> list[int]:
    """`count` distinct ports that are free now."""
    global _ports
    if not _held:
        _ports = cycle(_take_slice())
    found: list[int] = []
    for _ in range(SLICE):
        if len(found) == count:
            return found
        port = next(_ports)
        if _bound(port, again=True) is not None:
            found.append(port)
    raise OSError(f"{count} free ports are needed, {len(found)} were found: is another cluster still running here?")


def _take_slice() -> range:
    firsts = range(FIRST, END, SLICE)
    for turn in range(len(firsts)):
        first = firsts[(os.getpid() + turn) % len(firsts)]
        mark = _bound(first, again=False)
        if mark is not None:
            _held.append(mark)
            return range(first + 1, first + SLICE)
    raise OSError(f"every hundredth port of {HOST} from {FIRST} to {END} is taken")


def _bound(port: int, *, again: bool) -> socket.socket | None:
    """A socket on the port; None if it is in use. `again`: like servers, ignore closed connections (SO_REUSEADDR)."""
    made = socket.socket()
    if again:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError:
        made.close()
        return None
    if again:
        made.close()
    return made
