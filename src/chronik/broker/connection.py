"""One client's connection: frames in, replies out in request order, and never more in memory than the bounds allow.

Parsing, dispatch and queueing happen in `buffer_updated` without a single await; handlers that wait are tasks of the
node, so that a client that hangs up never cancels an append. Back-pressure has three causes, each pausing the reader:
too many requests or bytes in flight, a peer that does not read its replies, no room in the node's memory budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from chronik.broker import limits
from chronik.broker.dispatch import Parts
from chronik.broker.errors import Unanswerable
from chronik.runtime.invariants import InvariantBroken
from chronik.wire.errors import Malformed
from chronik.wire.framing import SCRATCH_BYTES, FrameReader

if TYPE_CHECKING:
    from chronik.broker.node import Node

log = logging.getLogger("chronik.broker.connection")

SMALL_REPLY_BYTES = 16 * 1024  # below, joining is cheaper than handing over several buffers


class Connection(asyncio.BufferedProtocol):
    def __init__(self, node: Node, listener: str) -> None:
        self.node = node
        self.listener = listener  # the listener's name: which address Metadata advertises to this client
        self.peer = "?"
        self.peer_host = "?"
        self.frame_since_ns = 0  # when the frame now arriving began; 0 when none is
        self.last_request_ns = node.runtime.clock.monotonic_ns()
        self.client_software: tuple[str, str] | None = None  # told by ApiVersions v3+
        self._transport: asyncio.Transport | None = None  # from connection_made to connection_lost
        self._reader = FrameReader(node.settings.socket_request_max_bytes, node.memory.take)
        self._replies: deque[_Reply] = deque()
        self._in_flight_bytes = 0
        self._paused_for: set[str] = set()

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername") or ("?", 0)
        self.peer_host, self.peer = str(name[0]), f"{name[0]}:{name[1]}"
        self._transport.set_write_buffer_limits(high=limits.WRITE_BUFFER_BYTES_HIGH)
        if not self.node.connections.admit(self):
            self.close("too many connections: raise max.connections, or close idle clients")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.node.connections.forget(self)
        self.node.memory.forget(self._memory_may_be_free)
        for reply in self._replies:
            self._release(reply)
        self._replies.clear()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._reader.received(nbytes)
        except Malformed as fault:
            return self.close(f"{fault}; is this a Kafka client, and does it speak plaintext here?")
        self._take(frames)
        return None

    def pause_writing(self) -> None:
        self._pause("writing")

    def resume_writing(self) -> None:
        self._resume("writing")

    # --- requests

    def _take(self, frames: list[memoryview]) -> None:
        for frame in frames:
            self._start(frame)
        if frames:
            self.last_request_ns = self.node.runtime.clock.monotonic_ns()
            self._flush()
        if self._reader.waiting_bytes:
            self._pause("memory")
            self.node.memory.wait(self._reader.waiting_bytes, self._memory_may_be_free)
        if self._reader.has_part_of_a_frame:
            self.frame_since_ns = self.frame_since_ns or self.node.runtime.clock.monotonic_ns()
        else:
            self.frame_since_ns = 0
        if self._in_flight_bytes > limits.IN_FLIGHT_BYTES_HIGH or len(self._replies) > limits.IN_FLIGHT_REQUESTS_MAX:
            self._pause("in flight")

    def _start(self, frame: memoryview) -> None:
        if self._transport is None:
            return self._give_back(len(frame))
        reply = _Reply(len(frame))
        self._replies.append(reply)
        self._in_flight_bytes += reply.request_bytes
        try:
            answer = self.node.dispatcher.answer(frame, self)
        except Exception as fault:  # noqa: BLE001 - the edge: see _failed
            return self._failed(fault)
        if isinstance(answer, list) or answer is None:
            reply.parts, reply.is_done = answer, True
        elif isinstance(answer, tuple):
            future, respond = answer
            future.add_done_callback(lambda done: self._finish(reply, respond, done))
        else:
            self.node.tasks.start(f"request from {self.peer}", self._wait(reply, answer))
        return None

    async def _wait(self, reply: _Reply, answer: Awaitable[Parts | None]) -> None:
        try:
            parts = await answer
        except Exception as fault:  # noqa: BLE001 - the edge: see _failed
            return self._failed(fault)
        return self._finish(reply, lambda _: parts, None)

    def _finish(self, reply: _Reply, respond: Callable[[Any], Parts | None], done: Any) -> None:
        """A reply that had to wait is there, in whatever order; it leaves when it is at the head of the queue."""
        try:
            reply.parts = respond(done)
        except Exception as fault:  # noqa: BLE001 - the edge: see _failed
            return self._failed(fault)
        reply.is_done = True
        if self._replies and self._replies[0] is reply:
            self._flush()
        return None

    def _failed(self, fault: Exception) -> None:
        """A request that gets no answer costs its connection: replies behind it could not be told from its own."""
        if isinstance(fault, Unanswerable):
            self.close(str(fault))
        elif isinstance(fault, InvariantBroken):
            self.node.stop_broken(fault)
        else:
            log.error("a request from %s failed", self.peer, exc_info=fault)
            self.close("internal error")

    def _flush(self) -> None:
        """Sends every finished reply at the head of the queue."""
        if self._transport is None:
            return
        ready: list[Any] = []
        while self._replies and self._replies[0].is_done:
            reply = self._replies.popleft()
            self._release(reply)
            if reply.parts is not None:
                ready += reply.parts
        if not ready:
            return
        if sum(map(len, ready)) <= SMALL_REPLY_BYTES:
            self._transport.write(b"".join(ready))
        else:
            self._transport.writelines(ready)
        if "in flight" in self._paused_for and self._in_flight_bytes < limits.IN_FLIGHT_BYTES_LOW:
            self._resume("in flight")

    def _release(self, reply: _Reply) -> None:
        self._in_flight_bytes -= reply.request_bytes
        self._give_back(reply.request_bytes)

    def _give_back(self, request_bytes: int) -> None:
        if request_bytes > SCRATCH_BYTES:
            self.node.memory.give_back(request_bytes)

    # --- back-pressure

    def _memory_may_be_free(self) -> None:
        self._resume("memory")
        self._take(self._reader.go_on())

    def _pause(self, why: str) -> None:
        if not self._paused_for and self._transport is not None:
            self._transport.pause_reading()
        self._paused_for.add(why)

    def _resume(self, why: str) -> None:
        self._paused_for.discard(why)
        if not self._paused_for and self._transport is not None:
            self._transport.resume_reading()

    def close(self, why: str, level: int = logging.WARNING) -> None:
        """Ends the connection from our side, with one line in the log."""
        if self._transport is not None:
            log.log(level, "closing %s on %s: %s", self.peer, self.listener, why)
            self._transport.abort()


class _Reply:
    __slots__ = ("is_done", "parts", "request_bytes")

    def __init__(self, request_bytes: int) -> None:
        self.request_bytes = request_bytes
        self.parts: Parts | None = None
        self.is_done = False
