"""Ports for nodes that must know each other's before they start.

A port that the system gave out and took back may be given to the next connection that anybody opens. So these come from
below the range of such connections, and from a slice that only this process hands out: it keeps the slice's first port
bound for as long as it lives. Within the slice every other port is handed out before one comes again.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import cycle

HOST = "127.0.0.1"
FIRST, END = 16_000, 32_000  # Linux gives connections ports from 32768 on, others from 49152
SLICE = 100

_held: list[socket.socket] = []
_ports: Iterator[int] = iter(())


def free_ports(count: int) -> list[int]:
    """So many that nobody listens on now, each of them once."""
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
    raise OSError(f"{count} free ports are wanted, {len(found)} were found: is another cluster still running here?")


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
    """A socket on the port; None if somebody has it. `again` as servers do it: connections of the past do not count."""
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
