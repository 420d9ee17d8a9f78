"""TCP by the running event loop (uvloop in a broker). Never buffers or frames: that is the protocol's own work."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable

from chronik.runtime.interfaces import Sends
from chronik.runtime.kernel_send import KernelSends
from chronik.runtime.loop_sends import LoopSends
from chronik.runtime.pacing import send_at_once


class RealListener:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.host, self.port = server.sockets[0].getsockname()[:2]

    def close(self) -> None:
        self._server.close()


class RealNetwork:
    async def listen(self, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> RealListener:
        # A broker restarted at once must get its port back from connections in TIME_WAIT; the backlog takes a
        # reconnect of every client after a failover.
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(factory, host, port, reuse_address=True, backlog=1024)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
            hint = "; stop what listens there, or choose another port" if error.errno == errno.EADDRINUSE else ""
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {why}{hint}") from error
        for listening in server.sockets:
            send_at_once(listening, listening.getsockname())
        return RealListener(server)

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol]
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        try:
            transport, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        except OSError as error:
            raise OSError(error.errno, f"cannot connect to {host}:{port}: {error.strerror or error}") from error
        send_at_once(transport.get_extra_info("socket"), transport.get_extra_info("peername"))
        return transport, protocol

    def sends(self) -> Sends:
        return KernelSends.open() or LoopSends()
