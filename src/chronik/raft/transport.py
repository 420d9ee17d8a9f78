"""The quorum's messages over TCP: one ordered, bounded stream per peer and direction, reconnecting for ever.

Never queues for an absent peer and never resends by itself: it reports the peer as unreachable, and the core finds out
what is missing and sends that. Only votes wait for a connection that is just being made, or nodes started together
would miss each other's first election; a vote older than VOTE_AGE_MS_MAX is dropped.

Whoever says nothing sensible is refused with one log line, and nothing changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from chronik.raft.addresses import Address
from chronik.raft.codec import decode_message, encode_message
from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import FRAME_BYTES_MAX, HELLO_BYTES_MAX, FrameReader, Hello, frame
from chronik.raft.messages import Kind, Message
from chronik.runtime.interfaces import Clock, Listener, Network, Runtime
from chronik.runtime.tasks import Tasks

logger = logging.getLogger("chronik.raft")
MIB = 1 << 20
BACKOFF_MS_MIN, BACKOFF_MS_MAX = 50, 1000
CONNECT_TIMEOUT_S = 2.0
HELLO_TIMEOUT_S = 5.0
QUEUE_BYTES_MAX = 64 * MIB  # unsent to one peer; a single larger snapshot may pass an empty queue
VOTE_AGE_MS_MAX = 1000
VOTES = frozenset({Kind.VOTE, Kind.VOTE_REPLY, Kind.PRE_VOTE, Kind.PRE_VOTE_REPLY})
PASSED_ON = frozenset({Kind.TRANSFER_LEADER, Kind.READ_INDEX})  # their sender is who asked, not who forwards

Receive = Callable[[Message], None]


class TcpTransport:
    """A Transport. `listen` makes it; the driver attaches to it and names the peers."""

    def __init__(self, runtime: Runtime, *, cluster_id: str, node_id: int) -> None:
        self._runtime, self.cluster_id, self.node_id = runtime, cluster_id, node_id
        self._tasks = Tasks(f"raft-{node_id}")
        self._links: dict[int, Link] = {}
        self._incoming: dict[int, Incoming] = {}
        self._listener: Listener | None = None
        self._receive: Receive | None = None
        self._unreachable: Callable[[int], None] | None = None

    @classmethod
    async def listen(cls, runtime: Runtime, address: Address, *, cluster_id: str, node_id: int) -> TcpTransport:
        transport = cls(runtime, cluster_id=cluster_id, node_id=node_id)
        transport._listener = await runtime.network.listen(
            address.host, address.port, lambda: Incoming(transport, runtime.clock)
        )
        return transport

    @property
    def address(self) -> Address:
        assert self._listener is not None
        return Address(self._listener.host, self._listener.port)

    def attach(self, receive: Receive, unreachable: Callable[[int], None]) -> None:
        self._receive, self._unreachable = receive, unreachable

    def send(self, to: int, message: Message) -> None:
        link = self._links.get(to)
        if link is None or not link.send(message):
            self.lost(to)

    def update_peers(self, peers: Mapping[int, Address]) -> None:
        """Connects to who is new or has moved, and lets go of who has left."""
        for peer, link in list(self._links.items()):
            if peers.get(peer) != link.address:
                link.close()
                del self._links[peer]
        for peer, address in peers.items():
            if peer != self.node_id and peer not in self._links:
                link = self._links[peer] = Link(self, peer, address, self._runtime.clock)
                link.task = self._tasks.start(f"link-{peer}", link.run(self._runtime.network))

    def connected(self, peer: int) -> bool:
        link = self._links.get(peer)
        return link is not None and link.is_up

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for incoming in list(self._incoming.values()):
            incoming.close()
        for link in self._links.values():
            link.close()
        await self._tasks.stop()

    # For the connections below

    def lost(self, peer: int) -> None:
        if self._unreachable is not None:
            self._unreachable(peer)

    def accept(self, incoming: Incoming, peer: int) -> None:
        """A node has one stream to this one: a second is a restart of it, so the first is dead."""
        before = self._incoming.get(peer)
        self._incoming[peer] = incoming
        if before is not None:
            before.close()

    def forget(self, incoming: Incoming, peer: int) -> None:
        if self._incoming.get(peer) is incoming:
            del self._incoming[peer]

    def receive(self, message: Message) -> None:
        if self._receive is not None:
            self._receive(message)


class Link(asyncio.Protocol):
    """The stream to one peer. Messages of one turn of the loop leave in one write."""

    def __init__(self, owner: TcpTransport, peer: int, address: Address, clock: Clock) -> None:
        self._owner, self.peer, self.address, self._clock = owner, peer, address, clock
        self.task: asyncio.Task[None] | None = None
        self.is_up = False  # both have said hello
        self._stream: asyncio.Transport | None = None
        self._reader = FrameReader(HELLO_BYTES_MAX)
        self._closed: asyncio.Future[str] | None = None  # resolves with the reason when the stream ends
        self._unsent: list[bytes] = []
        self._votes: dict[Kind, tuple[int, Message]] = {}  # the newest of each kind, with its time
        self._backoff_ms = BACKOFF_MS_MIN

    async def run(self, network: Network) -> None:
        while True:
            reason = await self._connect_once(network)
            if self._backoff_ms == BACKOFF_MS_MIN:  # once per outage, not per attempt
                logger.info("node %d at %s: %s; trying again", self.peer, self.address, reason)
            self._owner.lost(self.peer)
            await asyncio.sleep(self._backoff_ms / 1000)
            self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MS_MAX)

    async def _connect_once(self, network: Network) -> str:
        """Returns when the connection has ended, with the reason."""
        self._closed = asyncio.get_running_loop().create_future()
        self._reader = FrameReader(HELLO_BYTES_MAX)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await network.connect(self.address.host, self.address.port, lambda: self)
        except OSError as error:
            return str(error)
        except TimeoutError:
            return "no answer to connecting"
        return await self._closed

    def send(self, message: Message) -> bool:
        """False: dropped, as the peer is away or far behind."""
        if not self.is_up or self._stream is None:
            if message.kind in VOTES:
                self._votes[message.kind] = (self._clock.monotonic_ns(), message)
            return False
        queued_bytes = self._stream.get_write_buffer_size()
        data = frame(encode_message(message))
        if queued_bytes and queued_bytes + len(data) > QUEUE_BYTES_MAX:
            return False
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)
        return True

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
        if self._stream is not None:
            self._stream.abort()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._stream is not None and self.is_up:
            self._stream.writelines(unsent)

    def _own_hello(self) -> Hello:
        return Hello(self._owner.node_id, self.peer, self._owner.cluster_id)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._stream = transport
        transport.write(frame(self._own_hello().encode()))

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._reader.feed(data):
                if self.is_up:
                    raise MalformedMessage("a second hello")
                Hello.decode(body).check_answer_to(self._own_hello())
                self._is_accepted()
        except MalformedMessage as error:
            self._end(f"refused: {error}")

    def _is_accepted(self) -> None:
        self.is_up = True
        self._backoff_ms = BACKOFF_MS_MIN
        logger.info("node %d at %s: connected", self.peer, self.address)
        votes, self._votes = self._votes, {}
        oldest_ns = self._clock.monotonic_ns() - VOTE_AGE_MS_MAX * 1_000_000
        for asked_ns, message in votes.values():
            if asked_ns >= oldest_ns:
                self.send(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc else "the connection was closed")

    def _end(self, reason: str) -> None:
        self.is_up = False
        self._unsent.clear()
        if self._stream is not None:
            self._stream.abort()
            self._stream = None
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(reason)


class Incoming(asyncio.Protocol):
    """A stream from a peer, or from anybody until the hello is right."""

    def __init__(self, owner: TcpTransport, clock: Clock) -> None:
        self._owner, self._clock = owner, clock
        self._reader = FrameReader(HELLO_BYTES_MAX)
        self._stream: asyncio.Transport | None = None
        self._peer = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._stream = transport
        self._deadline = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, self._refuse, "no hello in time")

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._reader.feed(data):
                if self._peer:
                    self._take(body)
                else:
                    self._greet(Hello.decode(body))
        except MalformedMessage as error:
            self._refuse(str(error))

    def _greet(self, hello: Hello) -> None:
        hello.check_answer_to(Hello(self._owner.node_id, 0, self._owner.cluster_id))
        assert self._stream is not None
        assert self._deadline is not None
        self._deadline.cancel()
        self._peer = hello.sender
        self._reader.bytes_max = FRAME_BYTES_MAX
        self._owner.accept(self, hello.sender)
        self._stream.write(frame(Hello(self._owner.node_id, hello.sender, self._owner.cluster_id).encode()))

    def _take(self, body: bytes) -> None:
        message = decode_message(body)
        if message.to != self._owner.node_id or (message.sender != self._peer and message.kind not in PASSED_ON):
            raise MalformedMessage(f"a message from node {message.sender} to node {message.to}")
        self._owner.receive(message)

    def _refuse(self, reason: str) -> None:
        stream = self._stream
        if stream is not None:
            logger.warning("quorum connection from %s refused: %s", stream.get_extra_info("peername"), reason)
            self.close()

    def close(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._stream is not None:
            self._stream.abort()
            self._stream = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.close()
        self._owner.forget(self, self._peer)
