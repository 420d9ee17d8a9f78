"""TCP on the running event loop (uvloop in a broker), with TLS. Knows nothing of frames: protocols handle them."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

from chronik.runtime import descriptors
from chronik.runtime.errors import TlsFailed
from chronik.runtime.interfaces import Sends
from chronik.runtime.kernel_send import KernelSends
from chronik.runtime.loop_sends import LoopSends
from chronik.runtime.pacing import send_at_once
from chronik.runtime.tls import TlsClient, TlsServer
from chronik.runtime.tls_contexts import ContextCache, in_words
from chronik.runtime.tls_handshakes import ClientLayer, Handshakes, ServerLayer
from chronik.runtime.tls_sends import JoinedSends

# The wildcard hosts mean both address families. The first must be available; a machine may lack the other. One socket
# for both would show IPv4 clients under mapped IPv6 addresses.
EVERY_INTERFACE = {"": ("0.0.0.0", "::"), "::": ("::", "0.0.0.0")}  # noqa: S104 - only where an operator asks for it
NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
PORTS_TRIED_MAX = 16  # a port that is free in one family may be taken in the other


class RealListener:
    def __init__(self, servers: Sequence[asyncio.Server], secured: _Secured | None = None) -> None:
        self._servers = servers
        self._secured = secured
        self.host, self.port = servers[0].sockets[0].getsockname()[:2]

    def secure_with(self, tls: TlsServer) -> None:
        assert self._secured is not None, "a listener with TLS has it from the beginning"
        self._secured.use(tls)

    def close(self) -> None:
        for server in self._servers:
            server.close()


class _Secured:
    """Creates the protocols of a listener with TLS."""

    def __init__(
        self, factory: Callable[[], asyncio.Protocol], contexts: ContextCache, handshakes: Handshakes, where: str
    ) -> None:
        self._factory, self._contexts, self._handshakes, self._where = factory, contexts, handshakes, where

    def use(self, tls: TlsServer) -> None:
        self._context = self._contexts.of(tls)

    def __call__(self) -> asyncio.Protocol:
        # The context is read when the handshake begins, because a queued connection may need a newer one.
        made = ServerLayer(self._factory, lambda: self._context, self._handshakes, self._where)
        return cast(asyncio.Protocol, made)


class _NoSuchFamily(OSError):
    """The machine has no addresses of this kind."""


class RealNetwork:
    def __init__(self) -> None:
        shares = descriptors.shares(descriptors.limit())
        self.connections_max = shares.connections_max
        self.handshakes = Handshakes(shares.handshakes_max)
        self._contexts = ContextCache()

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsServer | None = None
    ) -> RealListener:
        """An empty host, or `::`, means every interface, IPv4 and IPv6, on one port."""
        secured = None
        if tls is not None:
            factory = secured = _Secured(factory, self._contexts, self.handshakes, f"{host}:{port}")
            secured.use(tls)
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
                return RealListener(servers, secured)

    async def _listen(self, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        # A restarted broker must get its port back from connections in TIME_WAIT; the backlog must hold reconnects of
        # all clients after a failover.
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
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsClient | None = None
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        made: Callable[[], asyncio.BaseProtocol] = factory
        if tls is not None:
            made = partial(ClientLayer, factory, self._context_of(tls, host, port), host, self.handshakes.scratch)
        try:
            transport, protocol = await asyncio.get_running_loop().create_connection(made, host, port)
        except OSError as error:
            raise OSError(error.errno, f"cannot connect to {host}:{port}: {error.strerror or error}") from error
        send_at_once(transport.get_extra_info("socket"), transport.get_extra_info("peername"))
        if isinstance(protocol, ClientLayer):
            return await _shaken(protocol, f"{host}:{port}")
        return transport, cast(asyncio.Protocol, protocol)

    def _context_of(self, tls: TlsClient, host: str, port: int) -> ssl.SSLContext:
        try:
            return self._contexts.of(tls)
        except ssl.SSLError as error:
            raise TlsFailed(f"cannot connect to {host}:{port} by TLS: {in_words(error)}") from error

    def sends(self) -> Sends:
        return JoinedSends(KernelSends.open() or LoopSends())


async def _shaken(layer: ClientLayer, where: str) -> tuple[asyncio.Transport, asyncio.Protocol]:
    """Waits for the handshake. The caller has its own deadline; if it gives up, nothing stays open."""
    try:
        reason = await layer.done
    except asyncio.CancelledError:
        layer.raw.abort()
        raise
    if reason is not None:
        raise TlsFailed(f"cannot connect to {where} by TLS: {reason}")
    return cast(asyncio.Transport, layer.transport), cast(asyncio.Protocol, layer.protocol)
