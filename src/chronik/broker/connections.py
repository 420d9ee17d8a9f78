"""The connections of a node: how many there may be, and which have been silent or slow for too long."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from chronik.broker.limits import FRAME_SECONDS_MAX

if TYPE_CHECKING:
    from chronik.broker.connection import Connection
    from chronik.runtime.interfaces import Clock

SWEEP_SECONDS = 5
NS_PER_SECOND, NS_PER_MS = 1_000_000_000, 1_000_000


class Connections:
    def __init__(self, clock: Clock, *, connections_max: int, idle_ms_max: int) -> None:
        self._clock = clock
        self._connections_max = connections_max
        self._idle_ms_max = idle_ms_max  # -1: for ever
        self._open: dict[Connection, None] = {}  # a dict keeps their order; a set would not

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        if len(self._open) >= self._connections_max:
            return False
        self._open[connection] = None
        return True

    def forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)

    async def sweep(self) -> None:
        """For ever: closes who started a frame and does not finish it, and who has been idle for too long."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now_ns = self._clock.monotonic_ns()
            for connection in list(self._open):
                if connection.frame_since_ns and now_ns - connection.frame_since_ns > FRAME_SECONDS_MAX * NS_PER_SECOND:
                    connection.close(f"a request was begun and not finished within {FRAME_SECONDS_MAX} s")
                elif 0 <= self._idle_ms_max < (now_ns - connection.last_request_ns) // NS_PER_MS:
                    connection.close(f"idle for more than connections.max.idle.ms={self._idle_ms_max}", logging.INFO)

    def close_all(self, why: str) -> None:
        for connection in list(self._open):
            connection.close(why, logging.DEBUG)
