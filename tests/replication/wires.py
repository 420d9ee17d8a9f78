"""Connections between nodes, in virtual time: bytes arrive in order and late, or not at all."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.replication.link import FETCH_VERSION
from chronik.storage.errors import StorageError
from chronik.storage.unread import Unread
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.headers import RequestHeader, ResponseHeader
from chronik.wire.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from tests.replication.world import World

REQUEST_HEADER_VERSION, RESPONSE_HEADER_VERSION = 2, 1  # of a flexible version


class Wires:
    """Connections between nodes, and between nodes and the controller, which is node 0."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[frozenset[int]] = set()
        self._open: list[_Wire] = []

    def reaches(self, one: int, other: int) -> bool:
        return frozenset((one, other)) not in self.cut

    def separate(self, one: int, other: int) -> None:
        self.cut.add(frozenset((one, other)))
        for wire in [each for each in self._open if {each.client_id, each.server_id} == {one, other}]:
            wire.lose()

    def drop(self, node_id: int) -> None:
        for wire in [each for each in self._open if node_id in (each.client_id, each.server_id)]:
            wire.lose()

    def of(self, node_id: int) -> Any:
        return _Network(self, node_id)

    def connect(self, client_id: int, server_id: int, protocol: Any) -> _Wire:
        if server_id not in self.world.nodes or not self.reaches(client_id, server_id):
            raise OSError(111, f"node {server_id} cannot be reached")
        wire = _Wire(self.world, client_id, server_id, protocol)
        self._open.append(wire)
        protocol.connection_made(wire)
        return wire

    def forget(self, wire: _Wire) -> None:
        if wire in self._open:
            self._open.remove(wire)


class _Network:
    def __init__(self, wires: Wires, node_id: int) -> None:
        self._wires, self._node_id = wires, node_id

    async def connect(self, host: str, port: int, factory: Callable[[], Any]) -> Any:
        await asyncio.sleep(self._wires.world.draw(5) / 1000)
        protocol = factory()
        return self._wires.connect(self._node_id, int(host), protocol), protocol


class _Wire:
    """A TCP connection, and the leader's end of it: requests are answered in order."""

    def __init__(self, world: World, client_id: int, server_id: int, protocol: Any) -> None:
        self.world, self.client_id, self.server_id, self._protocol = world, client_id, server_id, protocol
        self._server = world.nodes[server_id]
        self._is_open = True
        self._replies: deque[tuple[int, Any]] = deque()
        self._last_s = 0.0

    def write(self, data: bytes) -> None:
        self._later(lambda: self._serve(memoryview(bytearray(data))[4:]))

    def abort(self) -> None:
        self.lose()

    def lose(self) -> None:
        if self._is_open:
            self._is_open = False
            self.world.wires.forget(self)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def _later(self, action: Callable[[], None]) -> None:
        """In order, each after a separate delay."""
        loop = asyncio.get_running_loop()
        self._last_s = max(self._last_s, loop.time() + self.world.draw(4000) / 1e6)
        loop.call_at(self._last_s, lambda: action() if self._is_open else None)

    def _serve(self, frame: memoryview) -> None:
        header, at = decoder_of(RequestHeader, REQUEST_HEADER_VERSION)(frame)
        request, _ = decoder_of(FetchRequest, FETCH_VERSION)(frame, at)
        try:
            answer = self._server.replicas.sessions.fetch(request)
        except Exception as fault:  # noqa: BLE001 - a node that meets this would stop
            self.world.broke(fault)
            return
        self._replies.append((header.correlation_id, answer))
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda _: self._flush())
        else:
            self._flush()

    def _flush(self) -> None:
        while self._replies and self._is_open:
            number, answer = self._replies[0]
            if isinstance(answer, asyncio.Future):
                if not answer.done():
                    return None
                answer = answer.result()
            self._replies.popleft()
            parts: list[Any] = [b""]
            encoder_of(ResponseHeader, RESPONSE_HEADER_VERSION)(ResponseHeader(correlation_id=number), parts)
            encoder_of(FetchResponse, FETCH_VERSION)(answer, parts)
            try:
                body = b"".join([part.read() if isinstance(part, Unread) else part for part in parts])
            except StorageError:
                return self.lose()
            self._later(partial(self._deliver, len(body).to_bytes(4, "big") + body))
        return None

    def _deliver(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._is_open:
            room = self._protocol.get_buffer(-1)
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self._protocol.buffer_updated(count)
            view = view[count:]
