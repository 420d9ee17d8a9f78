"""A network whose outgoing connections use TLS, for parts of a program that need not know about TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.runtime.interfaces import Listener, Network, Sends
from chronik.runtime.tls import TlsClient, TlsServer


class SecuredNetwork:
    """Calls `tls` for each connection, so that new certificates take effect; None means plain TCP."""

    def __init__(self, network: Network, tls: Callable[[], TlsClient | None]) -> None:
        self._network, self._tls = network, tls
        self.plain = network
        self.connections_max = network.connections_max

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsServer | None = None
    ) -> Listener:
        return await self._network.listen(host, port, factory, tls)

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsClient | None = None
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        return await self._network.connect(host, port, factory, tls or self._tls())

    def sends(self) -> Sends:
        return self._network.sends()
