"""The quorum's messages over TCP: one ordered, bounded stream per peer and direction, reconnecting for ever.

Beside the quorum's messages a stream carries notes: bytes of the layer above, in order with everything else.

Never queues for an absent peer and never resends by itself: it reports the peer as unreachable, and the core finds out
what is missing and sends that. Only votes wait for a connection that is just being made, or nodes started together
would miss each other's first election; a vote older than VOTE_AGE_MS_MAX is dropped.

Whoever says nothing sensible is refused with one log line, and nothing changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import cast

from chronik.raft.addresses import Address
from chronik.raft.codec import decode_message, encode_message
from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import FRAME_BYTES_MAX, HELLO_BYTES_MAX, NOTE, FrameReader, Hello, frame
from chronik.raft.messages import Kind, Message
from chronik.runtime.interfaces import Clock, Listener, Network, Runtime
from chronik.runtime.tasks import Tasks

logger = logging.getLogger("chronik.raft")
MIB = 1 << 20
BACKOFF_MS_MIN, BACKOFF_MS_MAX = 50, 1000
CONNECT_TIMEOUT_S = 2.0
HELLO_TIMEOUT_S = 2.0
QUEUE_BYTES_MAX = 64 * MIB  # unsent to one peer; a single larger snapshot may pass an empty queue
VOTE_AGE_MS_MAX = 1000
TURNS_TO_CLOSE = 10
VOTES = frozenset({Kind.VOTE, Kind.VOTE_REPLY, Kind.PRE_VOTE, Kind.PRE_VOTE_REPLY})
PASSED_ON = frozenset({Kind.TRANSFER_LEADER, Kind.READ_INDEX})  # their sender is who asked, not who forwards

Receive = Callable[[Message], None]
ReceiveNote = Callable[[int, bytes], None]  # from whom, what


class TcpTransport:
    """A Transport. `listen` makes it; the driver attaches to it and names the peers."""

    def __init__(self, runtime: Runtime, *, cluster_id: str, node_id: int) -> None:
        self._runtime, self.cluster_id, self.node_id = runtime, cluster_id, node_id
        self._tasks = Tasks(f"raft-{node_id}")
        self._links: dict[int, Link] = {}
        self._incoming: dict[int, Incoming] = {}
        self._streams: dict[Stream, None] = {}  # all that are open, whoever is at the other end
        self._listener: Listener | None = None
        self._receive: Receive | None = None
        self._unreachable: Callable[[int], None] | None = None
        self._receive_note: ReceiveNote | None = None
        self._met: Callable[[str], None] | None = None
        self.strangers: dict[int, str] = {}  # peers that are of another cluster than this node, and of which
        self.on_stranger: Callable[[], None] | None = None  # hears when one came

    @classmethod
    async def listen(cls, runtime: Runtime, address: Address, *, cluster_id: str, node_id: int) -> TcpTransport:
        transport = cls(runtime, cluster_id=cluster_id, node_id=node_id)
        transport._listener = await runtime.network.listen(address.host, address.port, lambda: Incoming(transport))
        return transport

    @property
    def address(self) -> Address:
        assert self._listener is not None
        return Address(self._listener.host, self._listener.port)

    def attach(self, receive: Receive, unreachable: Callable[[int], None]) -> None:
        self._receive, self._unreachable = receive, unreachable

    def send(self, to: int, message: Message) -> None:
        way = self._way(to)
        if way is None or not way.send(message):
            self.lost(to)

    def attach_notes(self, receive: ReceiveNote, met: Callable[[str], None]) -> None:
        """`met` hears the id of a cluster that a peer belongs to, while this node knows of none."""
        self._receive_note, self._met = receive, met

    def send_note(self, to: int, note: bytes) -> bool:
        """False: dropped, as the peer is away or far behind."""
        way = self._way(to)
        return way is not None and way.send_frame(NOTE + note)

    def _way(self, to: int) -> Stream | None:
        """A peer whose address is not known yet, or was learnt just now, is answered on its own stream: so a node that
        joins with nothing but its id can take the leader's snapshot, which names everybody, and say that it has it."""
        link = self._links.get(to)
        return link if link is not None and link.is_up else self._incoming.get(to, link)

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

    def has_died(self, peer: int) -> bool:
        """Whether nobody listens where the peer should, and it has no stream to this node: it is not just slow."""
        link = self._links.get(peer)
        return link is not None and link.is_refused and peer not in self._incoming

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for link in self._links.values():
            link.close()
        await self._tasks.stop()
        for stream in list(self._streams):
            stream.drop()
        for _ in range(TURNS_TO_CLOSE):  # the loop must let go of the streams before anybody closes it
            if not self._streams:
                break
            await asyncio.sleep(0)

    # For the connections below

    def opened(self, stream: Stream) -> None:
        self._streams[stream] = None

    def closed(self, stream: Stream) -> None:
        self._streams.pop(stream, None)

    def lost(self, peer: int) -> None:
        if self._unreachable is not None:
            self._unreachable(peer)

    def accept(self, incoming: Incoming) -> None:
        """A node has one stream to this one: a second is a restart of it, so the first is dead."""
        before = self._incoming.get(incoming.peer)
        self._incoming[incoming.peer] = incoming
        if before is not None:
            before.drop()
            self.lost(incoming.peer)

    def forget(self, incoming: Incoming) -> None:
        """What was sent on it may be lost with it, a snapshot too."""
        if self._incoming.get(incoming.peer) is incoming:
            del self._incoming[incoming.peer]
            self.lost(incoming.peer)

    def receive(self, message: Message) -> None:
        if self._receive is not None:
            self._receive(message)

    def receive_note(self, peer: int, note: bytes) -> None:
        if self._receive_note is not None:
            self._receive_note(peer, note)

    def met(self, cluster_id: str) -> None:
        if cluster_id and not self.cluster_id and self._met is not None:
            self._met(cluster_id)

    def met_stranger(self, hello: Hello) -> None:
        self.strangers[hello.sender] = hello.cluster_id
        if self.on_stranger is not None:
            self.on_stranger()


class Stream(asyncio.Protocol):
    """One connection, either way round. Messages of one turn of the loop leave in one write."""

    def __init__(self, owner: TcpTransport) -> None:
        self._owner = owner
        self.peer = 0  # who it is; 0 until it said hello
        self.is_up = False  # both have said hello
        self._stream: asyncio.Transport | None = None
        self._reader = FrameReader(HELLO_BYTES_MAX)
        self._unsent: list[bytes] = []
        self._deadline: asyncio.TimerHandle | None = None  # of the hello

    def send(self, message: Message) -> bool:
        """False: dropped, as the peer is away or far behind."""
        return self.is_up and self.send_frame(encode_message(message))

    def send_frame(self, body: bytes) -> bool:
        if not self.is_up or self._stream is None:
            return False
        queued_bytes = self._stream.get_write_buffer_size()
        data = frame(body)
        if queued_bytes and queued_bytes + len(data) > QUEUE_BYTES_MAX:
            return False
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(data)
        return True

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._stream is not None and unsent:
            self._stream.writelines(unsent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._owner.opened(self)
        self._stream = cast(asyncio.Transport, transport)  # uvloop's are no subclass of it
        self._reader = FrameReader(HELLO_BYTES_MAX)
        # Either way round: a machine that lost power behind the handshake would be waited for for ever.
        self._deadline = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, self._refuse, "no hello in time")

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._reader.feed(data):
                if self.is_up:
                    self._take(body)
                else:
                    self._greet(Hello.decode(body))
        except MalformedMessage as error:
            self._refuse(str(error))

    def _greet(self, hello: Hello) -> None:
        own = Hello(self._owner.node_id, self.peer, self._owner.cluster_id)
        if hello.wanted == own.sender and hello.is_of_another_cluster(own):
            self._owner.met_stranger(hello)
        hello.check_answer_to(own)
        self._stop_waiting()
        self.peer, self.is_up = hello.sender, True
        self._reader.bytes_max = FRAME_BYTES_MAX
        self._owner.met(hello.cluster_id)

    def _take(self, body: bytes) -> None:
        if body[:1] == NOTE:
            self._owner.receive_note(self.peer, body[1:])
            return
        message = decode_message(body)
        if message.to != self._owner.node_id or (message.sender != self.peer and message.kind not in PASSED_ON):
            raise MalformedMessage(f"node {self.peer} sends a message from {message.sender} to {message.to}")
        self._owner.receive(message)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _say_hello(self) -> None:
        assert self._stream is not None
        self._stream.write(frame(Hello(self._owner.node_id, self.peer, self._owner.cluster_id).encode()))

    def _refuse(self, reason: str) -> None:
        if self._stream is not None:
            logger.warning("quorum connection with %s refused: %s", self._stream.get_extra_info("peername"), reason)
        self.drop()

    def drop(self) -> None:
        self._stop_waiting()
        self.is_up = False
        self._unsent.clear()
        if self._stream is not None:
            self._stream.abort()
            self._stream = None


class Link(Stream):
    """The stream to one peer, made anew for ever."""

    def __init__(self, owner: TcpTransport, peer: int, address: Address, clock: Clock) -> None:
        super().__init__(owner)
        self.peer, self.address, self._clock = peer, address, clock
        self.task: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[str] | None = None  # resolves with the reason when the connection ends
        self._votes: dict[Kind, tuple[int, Message]] = {}  # the newest of each kind, with its time
        self._backoff_ms = BACKOFF_MS_MIN
        self.is_refused = False  # since the last connection ended, the peer's machine said that nobody listens

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
        except (ValueError, OverflowError) as error:  # a host name or a port that can be none; it may be changed yet
            return str(error)
        return await self._ended

    def send(self, message: Message) -> bool:
        if not self.is_up and message.kind in VOTES:
            self._votes[message.kind] = (self._clock.monotonic_ns(), message)
        return super().send(message)

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.drop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._say_hello()

    def _greet(self, hello: Hello) -> None:
        super()._greet(hello)
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
    """A stream from a peer, or from anybody until the hello is right."""

    def _greet(self, hello: Hello) -> None:
        super()._greet(hello)
        self._owner.accept(self)
        self._say_hello()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.closed(self)
        self.drop()
        self._owner.forget(self)
