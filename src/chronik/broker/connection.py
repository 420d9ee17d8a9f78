"""One client's connection: frames in, replies out in request order, and never more in memory than the bounds allow.

Parsing, dispatch and queueing happen in `buffer_updated` without a single await; handlers that wait are tasks of the
node, so that a client that hangs up never cancels an append. A connection handles bytes, order and back-pressure. Its
session identifies the caller. `pauses` lists the reasons for which a connection stops reading, or stops starting
requests; requests that were read before a pause wait. All connections of a node share one limit on the requests that
it starts per loop iteration (`turns`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from chronik.broker import limits
from chronik.broker.dispatch import Parts, PartsLater
from chronik.broker.errors import Unanswerable
from chronik.broker.pauses import (
    ALONE,
    BACKLOG,
    ENDING,
    FULL,
    MUTED,
    NO_MEMORY,
    SLOW_PEER,
    TURN,
    UNSERVED,
    may_start,
    reads,
)
from chronik.broker.portions import Portions
from chronik.broker.sasl.login import Login
from chronik.broker.session import Session, Stage
from chronik.broker.turns import PIECES_PER_TURN
from chronik.runtime.buggify import CONNECTION_CLOSED, REQUEST_WAITS
from chronik.runtime.invariants import InvariantBroken, broken, check
from chronik.runtime.units import NS_PER_MS
from chronik.security.principal_mapping import NoRuleFits
from chronik.storage.errors import StorageError
from chronik.storage.unread import Unread
from chronik.wire.errors import Malformed
from chronik.wire.framing import SCRATCH_BYTES, BadFrame, FrameReader

if TYPE_CHECKING:
    from chronik.broker.node import Node
    from chronik.broker.sasl.logins import ListenerLogins

log = logging.getLogger("chronik.broker.connection")

FETCH_KEYS = (b"\x00\x01", b"\x00\x4e")  # how Fetch and ShareFetch requests begin
TLS_HELLO = 0x1603  # how a TLS handshake begins
SMALL_REPLY_BYTES = 16 * 1024  # below, joining is cheaper than handing over several buffers


class ServerConnection(asyncio.BufferedProtocol):
    def __init__(
        self, node: Node, listener: str, *, needs_login: bool = False, logins: ListenerLogins | None = None
    ) -> None:
        """`logins` are those of a listener that has them."""
        self.node = node
        self.session = Session(
            listener,
            node.settings.socket_request_max_bytes,
            needs_login=needs_login or logins is not None,
            frame_bytes_max_before_login=node.settings.sasl_server_max_receive_size,
            on_frame_limit=self._limit_frames,
        )
        if logins is not None:
            self.session.login = Login(logins, self.session)
        self.peer = "?"
        self._is_followers = False  # see serve_follower
        self.frame_since_ns = 0  # since when we wait for the rest of a frame; 0 when we do not
        self._now_ns = node.runtime.clock.monotonic_ns
        self._turns = node.turns
        self._memory = node.memory
        self._awaited = node.awaited
        self.last_request_ns = self._now_ns()
        self.portions = Portions()  # of what it fetches
        self._transport: asyncio.Transport | None = None  # from connection_made until either side ends it
        self._write: Callable[[bytes], None] = _nothing_to_write_to  # what is small; it leaves with that of others
        self._is_lost = False
        self.on_lost: dict[Callable[[], None], None] = {}  # called when nobody is there any more to be answered
        self._reader = FrameReader(self.session.frame_bytes_max, self._admit, node.scratch)
        self._arrived: deque[memoryview] = deque()  # requests not started yet; nothing is read while there are any
        self._replies: deque[_Reply] = deque()  # of those that are, in request order
        self._in_flight_bytes = 0  # of their requests
        self._held_bytes = 0  # of finished replies that wait for one ahead of them
        self._reasons = 0  # why nothing is read or started; see `pauses`
        self._is_reading = True  # as the transport was told
        self._alone_count = 0  # how often ALONE was asked for
        self.slow_since_ns = 0  # since when the peer does not read its replies; 0 when it does
        self._unsent_bytes = 0  # of them, counted in the node's memory
        self._answer_bytes = 0  # of the fetch response that is being made, counted there as well
        self._is_granted = False  # the frame that waited for memory has it
        self._unmuting: asyncio.TimerHandle | None = None
        self._end_reason = ""  # why it ends with the answers under way

    def _limit_frames(self, size_bytes_max: int) -> None:
        """For frames whose size is read from now on."""
        self._reader.size_bytes_max = size_bytes_max

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    @property
    def _is_secured(self) -> bool:
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is not None

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        check(self._transport is None, "30 a connection is made once", peer=self.peer)
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername") or ("?", 0)
        self.session.host, self.peer = str(name[0]), f"{name[0]}:{name[1]}"
        self._transport.set_write_buffer_limits(high=limits.UNSENT_BYTES_HIGH)
        self._write = self.node.sends.writer_of(self._transport)
        refusal = self._refused_certificate(transport) or self.node.connections.admit(self)
        if refusal is not None:
            self.close(refusal, logging.WARNING if self.node.connections.refusal is None else logging.DEBUG)
        else:
            self._reasons |= 0 if self.node.connections.are_served else UNSERVED
        self._admit_by_quota()

    def _admit_by_quota(self) -> None:
        """Closes a connection after a wait, unserved, if its address connects more often than its quota allows."""
        quotas = self.node.quotas
        wait_ms = quotas.connected(self.session.host) if quotas.restricts and self._transport is not None else 0
        if wait_ms:
            self._reasons |= MUTED  # until it is closed: no timer may end the pause just before that
            self._read_or_not()
            why = "its address connects more often than its quota connection_creation_rate allows"
            asyncio.get_running_loop().call_later(wait_ms / 1000, self.close, why, logging.DEBUG)

    def mute(self, wait_ms: int) -> None:
        """Reads and starts nothing for this long, because of a quota. What is finished still leaves."""
        until_ns = self._now_ns() + wait_ms * NS_PER_MS
        if self._is_lost or until_ns <= self.session.muted_until_ns:
            return
        self.session.muted_until_ns = until_ns
        self._reasons |= MUTED
        if self._unmuting is not None:
            self._unmuting.cancel()
        self._unmuting = asyncio.get_running_loop().call_later(wait_ms / 1000, self._unmute)
        self._read_or_not()

    def _unmute(self) -> None:
        self._unmuting = None
        self._reasons &= ~MUTED
        self._serve()

    def _refused_certificate(self, transport: asyncio.BaseTransport) -> str | None:
        """Takes the principal from the peer's certificate, if it presented one. Returns why that is not possible."""
        subject = transport.get_extra_info("tls_subject")
        if subject is None or self.session.stage is not Stage.AUTHENTICATED:
            return None  # a login says who it is
        try:
            self.session.principal = self.node.certificates.principal(self.session.listener, subject)
        except NoRuleFits as fault:
            return str(fault)
        return None

    def begin(self) -> None:
        """The node serves from now on."""
        self._reasons &= ~UNSERVED
        self._serve()

    def connection_lost(self, exc: Exception | None) -> None:
        check(not self._is_lost, "30 a connection is lost once", peer=self.peer)
        self._transport = None
        self._is_lost = True
        if self._unmuting is not None:
            self._unmuting.cancel()
        self.node.connections.forget(self)
        self.node.memory.forget(self._memory_is_granted)
        self._count_unsent(0)
        self.hold_answer(0)
        for frame in self._arrived:
            self._give_back(len(frame))
        self._arrived.clear()
        self._give_back(self._reader.admitted_bytes)
        self._reader.end()
        for call in list(self.on_lost):
            call()
        for reply in self._replies:
            if reply.is_done:  # the others hold their bytes until their handlers are done with them
                self._release(reply)
        check(
            self._in_flight_bytes == sum(reply.request_bytes for reply in self._replies if not reply.is_done),
            "26 what is in flight belongs to requests without an answer",
            peer=self.peer,
            in_flight=self._in_flight_bytes,
            requests=len(self._replies),
        )
        check(self._held_bytes == 0, "26 nothing is held of a lost connection", peer=self.peer, held=self._held_bytes)
        check(
            self._unsent_bytes == self._answer_bytes == 0,
            "26 nothing is unsent of a lost connection",
            peer=self.peer,
            unsent=self._unsent_bytes,
            answer=self._answer_bytes,
        )
        self._replies.clear()

    def eof_received(self) -> None:
        """The peer has stopped sending; after this call the transport closes, once it has sent its buffer."""
        self.node.sends.flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._reader.received(nbytes)
        except Malformed as fault:
            return self.close(_no_frame(fault, is_secured=self._is_secured))
        if frames:
            self.last_request_ns = self._now_ns()
            if (  # a small request alone, as most are: no bound can be reached by starting it
                len(frames) == 1
                and not self._reasons
                and not self._replies
                and self._is_reading
                and not self._reader.has_part_of_a_frame
                and len(frames[0]) <= SCRATCH_BYTES
                and self._turns.pieces < PIECES_PER_TURN
                and not REQUEST_WAITS.is_on
            ):
                self.frame_since_ns = 0
                if self._start(frames[0]).is_done:
                    self._flush()
                    self._read_or_not()
                return None
            self._arrived += frames
            self._reasons |= BACKLOG
            if self.node.memory.overdrawn_by is not None:
                self.node.memory.ended(self._memory_is_granted)
        if self._reader.waiting_bytes:
            self._read_or_not()  # not while it waits, which may end within the next call
            has_begun, host = self._reader.has_begun, self.session.host
            self.node.memory.wait(self._reader.waiting_bytes, self._memory_is_granted, host, has_begun=has_begun)
        self._serve()
        return None

    def pause_writing(self) -> None:
        self._reasons |= SLOW_PEER
        self.slow_since_ns = self._now_ns()
        if self._transport is not None:
            self._count_unsent(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._reasons &= ~SLOW_PEER
        self.slow_since_ns = 0
        self._count_unsent(0)
        self._serve()

    def _count_unsent(self, size_bytes: int) -> None:
        """So much of our replies waits in memory for the peer to read."""
        if size_bytes != self._unsent_bytes:
            more_bytes, self._unsent_bytes = size_bytes - self._unsent_bytes, size_bytes
            self.node.memory.hold_unsent(more_bytes)

    # --- requests

    def _serve(self) -> None:
        """Starts what has arrived, in order, as far as the bounds allow; sends what is finished; reads on, or not."""
        started_count = ready_bytes = 0
        while self._arrived and self._transport is not None:
            if self._must_wait():
                self._flush()  # what is finished may be all that stands in the way
                if self._must_wait():
                    break
            if (
                started_count >= self._turns.requests_per_visit
                or self._turns.pieces >= PIECES_PER_TURN
                or (REQUEST_WAITS.is_on and REQUEST_WAITS.fires())
            ):
                self._reasons |= TURN
                self._turns.wait(self._next_turn)
                break
            started_count += 1
            reply = self._start(self._arrived.popleft())
            if self._arrived and reply.is_done:
                ready_bytes += reply.size_bytes
                if ready_bytes >= SMALL_REPLY_BYTES:  # before the next: one that does not read must not make us pile up
                    self._flush()
                    ready_bytes = 0
        self._flush()
        self._read_or_not()

    def serve_follower(self) -> None:
        """A broker fetches by it, to replicate what this node leads. What it is sent leaves before anything else: its
        disk is to work while ours does."""
        if not self._is_followers and self._transport is not None:
            self._is_followers = True
            self.node.sends.flush()
            self._write = self._transport.write

    def hold_back(self) -> None:
        """No further request is started until `go_on`: what the one under way does must not be overtaken."""
        self._alone_count += 1
        self._reasons |= ALONE

    def go_on(self) -> None:
        self._alone_count -= 1
        if self._alone_count < 0:
            broken("27 a request that was held back goes on once", peer=self.peer, count=self._alone_count)
        if not self._alone_count:
            self._reasons &= ~ALONE
            self._serve()

    def end_with_answer(self, why: str) -> None:
        """Nothing more is started: the connection ends when the answers to what was started are sent."""
        self._end_reason = self._end_reason or why
        self._reasons |= ENDING

    def hold_objects(self, size_bytes: int) -> None:
        """The request that was started last has been decoded into objects of this size; they live until its answer."""
        if self._replies:
            if self._replies[-1].objects_bytes:
                broken("26 what a request is decoded into is counted once", peer=self.peer, size=size_bytes)
            self._replies[-1].objects_bytes = size_bytes
            self.node.memory.small_bytes += size_bytes

    def reserve_answer(self, size_bytes: int) -> int:
        """Memory for the response to the fetch under way, as much as there is room for. It is held until the response
        leaves. There is one at most: a fetch starts only when nothing is in progress (`_must_wait`)."""
        self.hold_answer(0)
        self.hold_answer(min(size_bytes, max(0, self.node.memory.room_bytes)))
        return self._answer_bytes

    def hold_answer(self, size_bytes: int) -> None:
        """The response to the fetch under way takes so much."""
        if self._is_lost:
            size_bytes = 0
        if size_bytes != self._answer_bytes:
            more_bytes, self._answer_bytes = size_bytes - self._answer_bytes, size_bytes
            self.node.memory.hold_unsent(more_bytes)

    def _next_turn(self) -> None:
        self._reasons &= ~TURN
        self._serve()

    def _must_wait(self) -> bool:
        """Whether the next request may not start yet."""
        if not may_start(self._reasons, is_behind_another=bool(self._replies)):
            return True
        if not self._replies:
            return False
        if self._over(limits.IN_FLIGHT_BYTES_HIGH) or self.node.memory.is_spent:
            self._reasons |= FULL
            return True
        # Fetch answers are large, so one connection holds one of them; a second waits for the first. A follower sends a
        # second one to end the first: see `replication.fetcher`.
        return self._arrived[0][:2] in FETCH_KEYS and not self._is_followers

    def _over(self, in_flight_bytes_max: int) -> bool:
        return (
            self._in_flight_bytes > in_flight_bytes_max
            or len(self._replies) >= limits.IN_FLIGHT_REQUESTS_MAX
            or self._held_bytes > limits.HELD_BYTES_MAX
        )

    def _start(self, frame: memoryview) -> _Reply:
        self._turns.spend()
        request_bytes = len(frame)
        reply = _Reply(request_bytes)
        self._replies.append(reply)
        self._in_flight_bytes += request_bytes
        if request_bytes <= SCRATCH_BYTES:
            self._memory.small_bytes += request_bytes
        try:
            answer = self.node.dispatcher.answer(frame, self)
        except Exception as fault:  # noqa: BLE001 - the edge: see _failed
            self._failed(reply, fault)
            return reply
        if type(answer) is PartsLater:
            self._awaited.when_done(answer.later.future, partial(self._settled, reply, answer))
        elif isinstance(answer, list) or answer is None:
            self._done(reply, answer)
        else:
            self.node.tasks.start(f"request from {self.peer}", self._wait(reply, answer))
        return reply

    async def _wait(self, reply: _Reply, answer: Awaitable[Parts | None]) -> None:
        try:
            parts = await answer
        except asyncio.CancelledError as fault:
            self._failed(reply, fault)
            raise
        except Exception as fault:  # noqa: BLE001 - the edge: see _failed
            return self._failed(reply, fault)
        return self._finish(reply, parts)

    def _settled(self, reply: _Reply, answer: PartsLater, future: asyncio.Future[Any]) -> None:
        try:
            parts = answer.parts()
        except (Exception, asyncio.CancelledError) as fault:  # noqa: BLE001 - the edge: see _failed
            return self._failed(reply, fault)
        return self._finish(reply, parts)

    def _finish(self, reply: _Reply, parts: Parts | None) -> None:
        """A reply that had to wait is there, in whatever order; it leaves when it is at the head of the queue."""
        if len(self._replies) == 1 and not self._arrived and self._transport is not None:
            # Alone, as most are: nothing to keep in order, and nothing to start.
            if self._replies.popleft() is not reply:
                broken("27 answers leave in the order of their requests", peer=self.peer)
            self._release(reply)
            if parts is not None:
                self._send(parts)
            if self._reasons or not self._is_reading:
                self._end_if_due()
                self._read_or_not()
            return
        self._done(reply, parts)
        if self._replies and self._replies[0] is reply:
            self._serve()

    def _done(self, reply: _Reply, parts: Parts | None) -> None:
        if reply.is_done:
            broken("27 a request is answered once", peer=self.peer, request_bytes=reply.request_bytes)
        reply.is_done = True
        if self._is_lost:
            return self._release(reply)
        reply.parts = parts
        if self._replies[0] is not reply or self._arrived:
            reply.size_bytes = sum(map(len, parts)) if parts is not None else 0
            self._held_bytes += reply.size_bytes
        return None

    def _failed(self, reply: _Reply, fault: BaseException) -> None:
        """A request that gets no answer costs its connection: replies behind it could not be told from its own."""
        self._done(reply, None)
        if isinstance(fault, Unanswerable):
            self.close(str(fault))
        elif isinstance(fault, asyncio.CancelledError):
            self.close("a request was given up")
        elif isinstance(fault, InvariantBroken):
            self.node.stop_broken(fault)
        else:
            self.close("internal error", logging.ERROR, fault)

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
        if ready:
            self._send(ready)
            if CONNECTION_CLOSED.is_on and CONNECTION_CLOSED.fires():
                self.close("a point of buggify closes it")
        if self._reasons & ENDING:
            self._end_if_due()

    def _send(self, parts: Parts) -> None:
        assert self._transport is not None
        if len(parts) == 1:
            self._write(parts[0])
        elif sum(map(len, parts)) <= SMALL_REPLY_BYTES and Unread not in map(type, parts):
            self._write(b"".join(parts))
        else:
            self.node.sends.flush()
            self._send_by_pieces(parts, self._transport)
        if self._reasons & SLOW_PEER and self._transport is not None:
            self._count_unsent(self._transport.get_write_buffer_size())
        if self._answer_bytes:
            self.hold_answer(0)  # it was the first of what was sent

    def _send_by_pieces(self, parts: Parts, transport: asyncio.Transport) -> None:
        """Piece by piece: the peer takes one while the next is read."""
        ready: list[Any] = []
        for part in parts:
            if type(part) is Unread:
                try:
                    ready.append(part.read())
                except StorageError as fault:  # its size is sent already
                    return self.close(f"the rest of a response cannot be read: {fault}")
                transport.writelines(ready)
                ready = []
            else:
                ready.append(part)
        if ready:
            transport.writelines(ready)
        return None

    def _release(self, reply: _Reply) -> None:
        request_bytes = reply.request_bytes
        self._in_flight_bytes -= request_bytes
        self._held_bytes -= reply.size_bytes
        if self._in_flight_bytes < 0 or self._held_bytes < 0:
            broken(
                "26 a request is counted until its answer leaves",
                peer=self.peer,
                in_flight=self._in_flight_bytes,
                held=self._held_bytes,
            )
        if reply.objects_bytes:
            self.node.memory.small_bytes -= reply.objects_bytes
            reply.objects_bytes = 0
        if request_bytes <= SCRATCH_BYTES:
            self._memory.small_bytes -= request_bytes
        else:
            self._memory.give_back(request_bytes, self.session.host)

    # --- back-pressure

    def _admit(self, size_bytes: int) -> bool:
        if self._is_granted:
            self._is_granted = False
            return True
        begun_by = self._memory_is_granted if self._reader.has_begun else None
        return self.node.memory.take(size_bytes, self.session.host, begun_by=begun_by)

    def _memory_is_granted(self) -> None:
        self._is_granted = True
        self._reader.go_on()  # a frame is on its way, none is whole
        self._read_or_not()

    def _give_back(self, frame_bytes: int) -> None:
        if frame_bytes > SCRATCH_BYTES:
            self.node.memory.give_back(frame_bytes, self.session.host)

    def _read_or_not(self) -> None:
        """Reads while there is nothing to catch up with. The time for a frame counts only while we read."""
        if self._transport is None:
            return
        reasons = self._reasons & ~(BACKLOG | NO_MEMORY)
        if self._over(limits.IN_FLIGHT_BYTES_HIGH):
            reasons |= FULL
        elif reasons & FULL and not self._over(limits.IN_FLIGHT_BYTES_LOW):
            reasons &= ~FULL
        if self._arrived:
            reasons |= BACKLOG
        if self._reader.waiting_bytes:
            reasons |= NO_MEMORY
        self._reasons = reasons
        is_to_read = reads(reasons)
        if is_to_read is not self._is_reading:
            self._is_reading = is_to_read
            if is_to_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        if is_to_read and self._reader.has_part_of_a_frame:
            self.frame_since_ns = self.frame_since_ns or self._now_ns()
        else:
            self.frame_since_ns = 0

    def _end_if_due(self) -> None:
        """Unlike `close`, this sends what was written."""
        if self._reasons & ENDING and not self._replies and self._transport is not None:
            log.debug("closing %s on %s: %s", self.peer, self.session.listener, self._end_reason)
            transport, self._transport = self._transport, None
            self.node.sends.flush()
            transport.close()

    def close(self, why: str, level: int = logging.WARNING, fault: BaseException | None = None) -> None:
        """Ends the connection from our side, with one line in the log. Nothing is started or sent from here on."""
        if self._transport is not None:
            log.log(level, "closing %s on %s: %s", self.peer, self.session.listener, why, exc_info=fault)
            transport, self._transport = self._transport, None
            self.node.sends.flush()  # answers to what came before
            transport.abort()


def _no_frame(fault: Malformed, *, is_secured: bool) -> str:
    if isinstance(fault, BadFrame) and fault.size_bytes >> 16 == TLS_HELLO and not is_secured:
        return "it speaks TLS: set security.protocol=PLAINTEXT at the client, or use an SSL listener"
    return f"{fault}; is this a Kafka client, and does it speak {'TLS' if is_secured else 'plaintext'} here?"


def _nothing_to_write_to(data: bytes) -> None:
    raise AssertionError("written before the connection was made")


class _Reply:
    __slots__ = ("is_done", "objects_bytes", "parts", "request_bytes", "size_bytes")

    def __init__(self, request_bytes: int) -> None:
        self.request_bytes = request_bytes
        self.objects_bytes = 0  # what a large request was decoded into
        self.size_bytes = 0  # counted for replies that others are behind or ahead of
        self.parts: Parts | None = None
        self.is_done = False
