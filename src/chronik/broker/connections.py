"""The connections of a node: limits their number, and closes idle and slow ones.

A peer that does not read its responses is disconnected only when others need the memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from chronik.broker.limits import FRAME_SECONDS_MAX, UNREAD_SECONDS_MAX
from chronik.runtime.invariants import check
from chronik.runtime.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from chronik.broker.connection import ServerConnection
    from chronik.runtime.interfaces import Clock

SWEEP_SECONDS = 5


class Connections:
    def __init__(
        self,
        clock: Clock,
        *,
        connections_max: int,
        idle_ms_max: int,
        per_host_max: int = 2**31 - 1,
        per_host_overrides: Mapping[str, int] | None = None,
        is_memory_short: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_memory_short = is_memory_short
        self._clock = clock
        self._connections_max = connections_max
        self._per_host_max = per_host_max
        self._per_host_overrides = per_host_overrides or {}
        self._per_host: Counter[str] = Counter()
        self._idle_ms_max = idle_ms_max  # -1: unlimited
        self.are_served = False  # before this, connections are accepted and their requests wait
        self.refusal: str | None = None  # why no connection is accepted now; an alarm has reported it
        self._open: dict[ServerConnection, None] = {}  # a dict, because it keeps the order

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: ServerConnection) -> str | None:
        """Admits the connection and returns None, or returns the reason why not."""
        host = connection.session.host
        if self.refusal is not None:
            return self.refusal
        if len(self._open) >= self._connections_max:
            return "too many connections: raise max.connections, or close idle clients"
        if self._per_host[host] >= self._per_host_overrides.get(host, self._per_host_max):
            return "too many connections from this address: raise max.connections.per.ip, or close idle clients"
        check(connection not in self._open, "26 a connection is admitted once", peer=connection.peer)
        self._open[connection] = None
        self._per_host[host] += 1
        return None

    def begin(self) -> None:
        """The node is registered: earlier responses would have shown clients a cluster without brokers."""
        check(not self.are_served, "30 a node begins to serve once", connections=len(self._open))
        self.are_served = True
        for connection in self._open:
            connection.begin()

    def forget(self, connection: ServerConnection) -> None:
        if connection in self._open:
            del self._open[connection]
            self._per_host[connection.session.host] -= 1
            check(
                self._per_host[connection.session.host] >= 0,
                "26 connections are counted by address",
                host=connection.session.host,
                count=self._per_host[connection.session.host],
            )
            if not self._per_host[connection.session.host]:
                # Clients choose their addresses, so unused entries must not pile up.
                del self._per_host[connection.session.host]
                check(
                    len(self._open) >= len(self._per_host),
                    "26 connections are counted by address",
                    open=len(self._open),
                    addresses=len(self._per_host),
                )

    async def sweep(self) -> None:
        """Runs until cancelled: closes connections with unfinished frames, and those that were idle for too long."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now_ns = self._clock.monotonic_ns()
            for connection in list(self._open):
                if connection.frame_since_ns and now_ns - connection.frame_since_ns > FRAME_SECONDS_MAX * NS_PER_S:
                    connection.close(f"a request was begun and not finished within {FRAME_SECONDS_MAX} s")
                elif connection.slow_since_ns and self._is_unread_too_long(now_ns - connection.slow_since_ns):
                    connection.close(
                        f"replies were not read for {UNREAD_SECONDS_MAX} s, and others need the memory they take"
                    )
                elif 0 <= self._idle_ms_max < (now_ns - connection.last_request_ns) // NS_PER_MS:
                    connection.close(f"idle for more than connections.max.idle.ms={self._idle_ms_max}", logging.INFO)

    def _is_unread_too_long(self, unread_ns: int) -> bool:
        return unread_ns > UNREAD_SECONDS_MAX * NS_PER_S and self._is_memory_short()

    def refuse_all(self, why: str) -> None:
        """Clients use other nodes until `accept`. They would retry here if they got errors."""
        self.refusal = why
        self.close_all(why)

    def accept(self) -> None:
        self.refusal = None

    def close_all(self, why: str) -> None:
        for connection in list(self._open):
            connection.close(why, logging.DEBUG)
