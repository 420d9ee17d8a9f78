"""One connection between two nodes of the quorum, made by this node (`Link`) or by the other (`Incoming`).

A stream is up when both sides have sent a valid hello. Until then it buffers 512 bytes and waits 2 s. A peer that sends
anything invalid is refused with one log line and changes no state. A stream never queues for an absent peer and never
resends: see `transport`, which owns the streams and knows the members.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, cast

from chronik.raft.addresses import Address
from chronik.raft.codec import decode_message, encode_message
from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import (
    ABOUT,
    FRAME_BYTES_MAX,
    HELLO_BYTES_MAX,
    MEMBER,
    NONCE_BYTES,
    NOTE,
    SMALL_BYTES_MAX,
    WHO,
    FrameReader,
    Hello,
    bytes_max_of,
    frame,
)
from chronik.raft.greeting import Acceptor, Connector
from chronik.raft.messages import NOBODY, Message, MessageKind
from chronik.runtime.buggify import FULL_QUEUE, STREAM_DROPPED
from chronik.runtime.interfaces import Clock, Network
from chronik.runtime.invariants import check
from chronik.runtime.units import MIB

if TYPE_CHECKING:
    from chronik.raft.transport import TcpTransport

logger = logging.getLogger("chronik.raft")
BACKOFF_MS_MIN, BACKOFF_MS_MAX = 50, 1000
CONNECT_TIMEOUT_S = 2.0
HELLO_TIMEOUT_S = 2.0
QUEUE_BYTES_MAX = 64 * MIB  # unsent to one peer; an empty queue accepts one larger snapshot
GUEST_QUEUE_BYTES_MAX = SMALL_BYTES_MAX
VOTE_AGE_MS_MAX = 1000
VOTES = frozenset({MessageKind.VOTE, MessageKind.VOTE_REPLY, MessageKind.PRE_VOTE, MessageKind.PRE_VOTE_REPLY})
PASSED_ON = frozenset({MessageKind.TRANSFER_LEADER})  # the sender field names the future leader, not the requester


class Stream(asyncio.Protocol):
    """One connection. Messages of one loop iteration leave in one write."""

    def __init__(self, owner: TcpTransport) -> None:
        self._owner = owner
        self.peer = NOBODY  # until its hello
        self.is_up = False  # both hellos are valid
        self.is_proven = False  # it proved that it knows the quorum's secret
        self._stream: asyncio.Transport | None = None
        self._greeting: Connector | Acceptor | None = None
        self._reader = FrameReader(HELLO_BYTES_MAX)
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._held_bytes = 0  # as counted by the owner
        self._deadline: asyncio.TimerHandle | None = None  # for the hello

    @property
    def is_members(self) -> bool:
        """Whether the peer is a member, so that its messages count. This may change while the stream is up."""
        return self.is_up and (self.is_proven or self._owner.admission.is_member(self.peer))

    def send(self, message: Message) -> bool:
        """False: dropped, because the peer is away or too far behind."""
        return self.is_up and self.send_frame(encode_message(message))

    def send_frame(self, body: bytes) -> bool:
        if not self.is_up or self._stream is None:
            return False
        queued_bytes = self._stream.get_write_buffer_size() + self._unsent_bytes
        data = frame(body)
        if queued_bytes and queued_bytes + len(data) > GUEST_QUEUE_BYTES_MAX:  # below that, guests may queue too
            bytes_max = QUEUE_BYTES_MAX if self.is_members else GUEST_QUEUE_BYTES_MAX
            if queued_bytes + len(data) > bytes_max:
                return False
        if FULL_QUEUE.is_on and FULL_QUEUE.fires():
            return False
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        return True

    def _flush(self) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if self._stream is not None and unsent:
            self._stream.writelines(unsent)
            if STREAM_DROPPED.is_on and STREAM_DROPPED.fires():
                self._stream.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._owner.opened(self)
        self._stream = cast(asyncio.Transport, transport)  # uvloop's transports do not subclass it
        self._reader = FrameReader(HELLO_BYTES_MAX)
        # In both directions: a peer that loses power after the TCP handshake would otherwise hold the stream forever.
        self._deadline = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, self._refuse, "no hello in time")
        refusal = self._owner.why_refused(transport.get_extra_info("tls_subject"))
        if refusal is not None:
            self._refuse(refusal)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._reader.feed(data):
                if self.is_up:
                    self._take(body)
                else:
                    self._greet(body)
                if self._stream is None:
                    return  # handling the frame closed the stream
            if self._reader.unread_bytes != self._held_bytes:
                self._hold(self._reader.unread_bytes)
        except MalformedMessage as error:
            self._refuse(str(error))

    def _hold(self, unread_bytes: int) -> None:
        self._owner.held_bytes += unread_bytes - self._held_bytes
        self._held_bytes = unread_bytes
        check(
            self._owner.held_bytes >= unread_bytes,
            "26 what streams hold is counted",
            peer=self.peer,
            held=self._owner.held_bytes,
            own=unread_bytes,
        )
        self._owner.check_held_bytes()

    def _greet(self, body: bytes) -> None:
        assert self._greeting is not None
        answers = self._greeting.take(body)
        if self._stream is not None:
            self._stream.writelines([frame(answer) for answer in answers])
        if self._greeting.peer is not None:
            self._greeted(self._greeting.peer)

    def _greeted(self, hello: Hello) -> None:
        self._stop_waiting()
        self.peer, self.is_up, self.is_proven = hello.sender, True, bool(self._owner.secret)
        self.allow_frames()

    def allow_frames(self) -> None:
        """Only members may send large frames."""
        self._reader.bytes_max = FRAME_BYTES_MAX if self.is_members else SMALL_BYTES_MAX
        self._reader.bytes_max_of = bytes_max_of

    def became_member(self) -> None:
        """A member vouched for the peer."""
        self.allow_frames()

    def _take(self, body: bytes) -> None:
        kind = body[:1]
        if kind == NOTE:
            self._owner.receive_note(self.peer, body[1:])
        elif not self.is_members:
            return  # ignored: the greeting already asked the members about the peer
        elif kind in (WHO, MEMBER):
            self._take_word(kind, body[1:])
        else:
            self._take_message(decode_message(body))

    def _take_word(self, kind: bytes, body: bytes) -> None:
        try:
            (node_id,) = ABOUT.unpack(body)
        except struct.error as error:
            raise MalformedMessage(f"a question about a member: {error}") from error
        if kind == MEMBER:
            self._owner.vouched_for(node_id)
        elif self._owner.admission.vouches_for(node_id):
            self.send_frame(MEMBER + ABOUT.pack(node_id))

    def _take_message(self, message: Message) -> None:
        if message.to != self._owner.node_id or (message.sender != self.peer and message.kind not in PASSED_ON):
            raise MalformedMessage(f"node {self.peer} sends a message from {message.sender} to {message.to}")
        self._owner.receive(message)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, reason: str) -> None:
        if self._stream is not None:
            address = self._stream.get_extra_info("peername") or ("?",)
            where = f"node {self.peer} at {address[0]}" if self.peer != NOBODY else str(address[0])
            self._owner.refusals.note("quorum connection with", where, reason)
        self.drop()

    def drop(self) -> None:
        self._stop_waiting()
        self.is_up = self.is_proven = False
        self._unsent.clear()
        self._unsent_bytes = 0
        self._owner.held_bytes -= self._held_bytes
        self._held_bytes = 0
        self._reader = FrameReader(HELLO_BYTES_MAX)
        if self._stream is not None:
            self._stream.abort()
            self._stream = None


class Link(Stream):
    """The stream to one peer. It reconnects until it is closed."""

    def __init__(self, owner: TcpTransport, peer: int, address: Address, clock: Clock) -> None:
        super().__init__(owner)
        self.peer, self.address, self._clock = peer, address, clock
        self.task: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[str] | None = None  # result: why the connection ended
        self._votes: dict[MessageKind, tuple[int, Message]] = {}  # newest of each kind: (time, message)
        self._backoff_ms = BACKOFF_MS_MIN
        self.is_refused = False  # the peer's machine refused a connection since the last one ended

    async def run(self, network: Network) -> None:
        while True:
            reason = await self._connect_once(network)
            if self._backoff_ms == BACKOFF_MS_MIN:  # once per outage, not per attempt
                logger.info("node %d at %s: %s; retrying", self.peer, self.address, reason)
            self._owner.lost(self.peer)
            await asyncio.sleep(self._backoff_ms / 1000)
            self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MS_MAX)

    async def _connect_once(self, network: Network) -> str:
        """Returns the reason when the connection has ended."""
        self._ended = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await network.connect(self.address.host, self.address.port, lambda: self)
        except ConnectionRefusedError as error:
            self.is_refused = True
            return str(error)
        except OSError as error:
            return str(error)
        except TimeoutError:
            return "no answer to connecting"
        except (ValueError, OverflowError) as error:  # an invalid host name or port; an update may still correct it
            return str(error)
        return await self._ended

    def send(self, message: Message) -> bool:
        if self.is_up:
            return self.send_frame(encode_message(message))
        if message.kind in VOTES:
            self._votes[message.kind] = (self._clock.monotonic_ns(), message)
        return False

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.drop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._stream is None:
            return  # its certificate does not belong to a node
        self._greeting = Connector(self._owner.hello_to(self.peer, self._owner.draw(NONCE_BYTES)), self._owner.secret)
        self._stream.write(frame(self._greeting.begin()))

    def _greeted(self, hello: Hello) -> None:
        self._owner.check_cluster(hello)
        super()._greeted(hello)
        self._owner.met(hello.cluster_id)
        self._backoff_ms, self.is_refused = BACKOFF_MS_MIN, False
        logger.info("node %d at %s: connected", self.peer, self.address)
        votes, self._votes = self._votes, {}
        oldest_ns = self._clock.monotonic_ns() - VOTE_AGE_MS_MAX * 1_000_000
        for asked_ns, message in votes.values():
            if asked_ns >= oldest_ns:
                self.send(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.closed(self)
        self.drop()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(str(exc) if exc else "the connection was closed")


class Incoming(Stream):
    """An accepted stream. Its peer is unknown until the hello is valid."""

    def __init__(self, owner: TcpTransport) -> None:
        super().__init__(owner)
        self.cluster_id = ""  # as the peer named it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        owner = self._owner
        if self._stream is None:
            return  # its certificate does not belong to a node
        self._greeting = Acceptor(owner.node_id, owner.secret, owner.draw(NONCE_BYTES), self._admit)
        owner.arrived(self)

    def _admit(self, hello: Hello) -> Hello:
        self._owner.check_cluster(hello)
        own = self._owner.hello_to(hello.sender, bytes(NONCE_BYTES))
        if not self._owner.secret:  # with a secret, the peer has just proved its membership
            self._owner.admission.check(hello, own)
        return own

    def _greeted(self, hello: Hello) -> None:
        super()._greeted(hello)
        self.cluster_id = hello.cluster_id
        self._owner.accept(self)

    def became_member(self) -> None:
        super().became_member()
        self._owner.met(self.cluster_id)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.closed(self)
        self.drop()
        self._owner.forget(self)
