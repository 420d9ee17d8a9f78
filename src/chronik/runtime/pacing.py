"""Sockets between two ends of one machine are not paced.

BBR, which many cloud images make the default, spreads what is sent over time by a timer, to spare the buffers of a
network. Loopback has none: there one socket carries 4.6 GB/s with it and 5.4 without, for an eighth less CPU. Whatever
else the machine was told to use stays, and so does everything that goes to another machine.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Final

PACED: Final = (b"bbr",)
UNPACED: Final = b"reno"  # every Linux has it, and lets everybody choose it
_NAME_BYTES_MAX: Final = 16
_OPTION: Final[int | None] = getattr(socket, "TCP_CONGESTION", None)


def send_at_once(end: Any, address: Any) -> None:
    """For a socket, or what an event loop has in its place: connected to `address`, or listening at it. Connections
    have it from their listener. None for the end of a connection that is lost already."""
    if end is None or _OPTION is None or not is_this_machine(address):
        return
    with contextlib.suppress(OSError):  # slower, and nothing else
        if end.getsockopt(socket.IPPROTO_TCP, _OPTION, _NAME_BYTES_MAX).startswith(PACED):
            end.setsockopt(socket.IPPROTO_TCP, _OPTION, UNPACED)


def is_this_machine(address: Any) -> bool:
    """An address as a socket tells it: in numbers, and a tuple unless it is of another kind."""
    if not isinstance(address, tuple):
        return False
    host = str(address[0])
    return host.startswith("127.") or host == "::1"
