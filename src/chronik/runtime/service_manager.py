"""Reports the state of the process to the service manager, by systemd's protocol (sd_notify): ready, stopping, alive.

The manager sets NOTIFY_SOCKET: the path of a datagram socket, or `@name` in the abstract namespace. Without it every
call does nothing. No call waits or raises: an unresponsive manager must not stop a node.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from chronik.runtime.units import US_PER_S

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"


class ServiceManager:
    def __init__(self, environment: Mapping[str, str]) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        self._alive_every_s = self._interval_s(environment) if path else None
        self._timer: asyncio.TimerHandle | None = None

    @staticmethod
    def _interval_s(environment: Mapping[str, str]) -> float | None:
        """Half of the time after which the manager kills a silent process, as sd_watchdog_enabled(3) advises."""
        limit_us = environment.get("WATCHDOG_USEC", "")
        if not limit_us.isdecimal() or int(limit_us) == 0:
            return None
        if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
            return None
        return int(limit_us) / US_PER_S / 2

    def tell(self, *states: str) -> None:
        """Sends lines such as READY=1 and STATUS=text."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
            sending.setblocking(False)
            sending.sendto("\n".join(states).encode(), self._address)

    def ready(self, status: str) -> None:
        """After this the event loop also sends keep-alives, if the manager expects them."""
        self.tell(READY, f"STATUS={status}")
        if self._alive_every_s is not None:
            self._say_alive()

    def stopping(self) -> None:
        self.tell(STOPPING, "STATUS=stopping")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say_alive(self) -> None:
        assert self._alive_every_s is not None
        self.tell(ALIVE)
        self._timer = asyncio.get_running_loop().call_later(self._alive_every_s, self._say_alive)
