"""The asyncio protocol around a `Peer`, shared by all connections to brokers.

A subclass handles responses (`deliver`) and requests without a response (`ended`), and decides how long to wait.
Nothing here retries.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from chronik.wire.calls import Buffer
from chronik.wire.notation import Response
from chronik.wire.peer import Peer
from chronik.wire.peer_errors import LoginFailed, PeerError


class PeerProtocol(asyncio.BufferedProtocol):
    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._transport: asyncio.Transport | None = None  # from connection_made to connection_lost
        self._begun: asyncio.Future[None] | None = None  # during the handshake
        self._computing: asyncio.Future[bytes | None] | None = None  # a slow step of the login

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self.peer.is_ready

    async def begin(self) -> None:
        """Negotiates versions and logs in. If that fails, closes the connection and raises the reason."""
        self.write(self.peer.begin())
        if not self.peer.is_ready:
            self._begun = asyncio.get_running_loop().create_future()
            await self._begun

    def write(self, parts: list[Buffer]) -> None:
        if self._transport is None or not parts:
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)

    def fail(self, fault: PeerError) -> None:
        """Ends the connection. The first reason is kept."""
        tags = self.peer.end(fault)
        if self._transport is not None:
            self._transport.abort()
        if self._computing is not None:
            self._computing.cancel()
        if self._begun is not None and not self._begun.done():
            self._begun.set_exception(self.peer.fault or fault)
            self._begun.exception()  # read it here: the caller may have been cancelled
        self.ended(tags)

    # --- for subclasses

    def deliver(self, tag: Any, response: Response) -> None:
        """The response to the request that was sent with this tag."""
        raise NotImplementedError

    def ended(self, tags: list[Any]) -> None:
        """Requests with these tags will get no response; `peer.fault` has the reason. May be called repeatedly."""
        raise NotImplementedError

    # --- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.peer.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for tag, response in self.peer.received(nbytes):
                self.deliver(tag, response)
        except PeerError as fault:
            self.fail(fault)
            return
        if self._begun is not None:
            self._step()

    def _step(self) -> None:
        """Continues or completes the handshake."""
        assert self._begun is not None
        self.write(self.peer.take_outgoing())
        if self._computing is not None:
            return
        if self.peer.computing is not None:
            self._computing = asyncio.ensure_future(self.peer.computing)
            self._computing.add_done_callback(self._computed)
        elif self.peer.is_ready:
            if not self._begun.done():
                self._begun.set_result(None)
            self._begun = None

    def _computed(self, done: asyncio.Future[bytes | None]) -> None:
        self._computing = None
        if self.peer.fault is not None or done.cancelled():
            return
        fault = done.exception()
        if fault is not None:
            self.fail(fault if isinstance(fault, PeerError) else LoginFailed(f"{self.peer.address}: {fault}"))
            return
        try:
            self.peer.computed(done.result())
        except PeerError as refused:
            self.fail(refused)
        else:
            self._step()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.fail(self.peer.hung_up(exc))
