"""TCP by the running event loop (uvloop in a broker). Never buffers or frames: that is the protocol's own work."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from chronik.runtime import descriptors
from chronik.runtime.interfaces import Sends
from chronik.runtime.kernel_send import KernelSends
from chronik.runtime.loop_sends import LoopSends
from chronik.runtime.pacing import send_at_once

# A host that means every interface means both families of addresses. The first must be there; a machine may lack the
# other. One socket for both would show IPv4 clients under other addresses than they have.
EVERY_INTERFACE = {"": ("0.0.0.0", "::"), "::": ("::", "0.0.0.0")}  # noqa: S104 - only where an operator asks for it
NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
PORTS_TRIED_MAX = 16  # a port that is free in one family may be taken in the other


class RealListener:
    def __init__(self, servers: Sequence[asyncio.Server]) -> None:
        self._servers = servers
        self.host, self.port = servers[0].sockets[0].getsockname()[:2]

    def close(self) -> None:
        for server in self._servers:
            server.close()


class _NoSuchFamily(OSError):
    """The machine has no addresses of this kind."""


class RealNetwork:
    def __init__(self) -> None:
        self.connections_max = descriptors.shares(descriptors.limit()).connections_max

    async def listen(self, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> RealListener:
        """An empty host, or `::`, is every interface, by IPv4 and by IPv6, under one port."""
        first, *others = EVERY_INTERFACE.get(host, (host,))
        attempts_left = PORTS_TRIED_MAX
        while True:
            attempts_left -= 1
            servers = [await self._listen(first, port, factory)]
            try:
                for other in others:
                    with suppress(_NoSuchFamily):
                        servers.append(await self._listen(other, RealListener(servers).port, factory))
            except OSError as error:
                RealListener(servers).close()
                if port or error.errno != errno.EADDRINUSE or not attempts_left:
                    raise
            else:
                return RealListener(servers)

    async def _listen(self, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        # A broker restarted at once must get its port back from connections in TIME_WAIT; the backlog takes a
        # reconnect of every client after a failover.
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(factory, host, port, reuse_address=True, backlog=1024)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
            if error.errno in NO_SUCH_FAMILY:
                raise _NoSuchFamily(error.errno, f"cannot listen on {host}:{port}: {why}") from error
            hint = "; stop what listens there, or choose another port" if error.errno == errno.EADDRINUSE else ""
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {why}{hint}") from error
        for listening in server.sockets:
            send_at_once(listening, listening.getsockname())
        return server

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
