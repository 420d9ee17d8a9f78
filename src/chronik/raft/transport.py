"""The quorum's messages over TCP: one ordered, bounded stream per peer and direction, with reconnects.

Streams also carry notes: bytes of the layer above, in order with the messages.

Never queues for an absent peer and never resends: it reports the peer as unreachable, and the core determines what is
missing and sends that. Only votes wait for a connection in progress; otherwise nodes started together would miss their
first election. A vote older than VOTE_AGE_MS_MAX is dropped.

Limits bound what unknown peers can cost: connections without a hello, guests (see `admission`), and the total bytes of
unfinished frames.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from chronik.raft.addresses import Address
from chronik.raft.admission import Admission
from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import ABOUT, FRAME_BYTES_MAX, NOTE, WHO, Hello
from chronik.raft.messages import Message
from chronik.raft.refusals import Refusals
from chronik.raft.streams import Incoming, Link, Stream
from chronik.runtime.interfaces import Listener, Runtime
from chronik.runtime.invariants import check
from chronik.runtime.tasks import Tasks
from chronik.runtime.tls import TlsServer

logger = logging.getLogger("chronik.raft")
TURNS_TO_CLOSE = 10
UNGREETED_MAX = 64  # connections without a hello; the oldest is closed, as nodes send theirs at once
GUESTS_MAX = 16
HELD_BYTES_MAX = FRAME_BYTES_MAX + FRAME_BYTES_MAX // 2  # unfinished frames: one snapshot, plus appends

Receive = Callable[[Message], None]
WhyRefused = Callable[[str | None], str | None]  # certificate subject of a peer -> reason; None: accepted
ReceiveNote = Callable[[int, bytes], None]  # sender, note


class TcpTransport:
    """A Transport, created by `listen`. The driver attaches to it and names the peers."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        cluster_id: str,
        node_id: int,
        configured: Iterable[int] = (),
        secret: bytes = b"",
        why_refused: WhyRefused = lambda subject: None,
    ) -> None:
        self._runtime, self.cluster_id, self.node_id, self.secret = runtime, cluster_id, node_id, secret
        self.why_refused = why_refused
        self.admission = Admission(node_id, configured)
        self.refusals = Refusals(logger)
        self.held_bytes = 0
        self._tasks = Tasks(f"raft-{node_id}")
        self._links: dict[int, Link] = {}
        self._incoming: dict[int, Incoming] = {}
        self._guests: dict[int, Incoming] = {}  # oldest first
        self._ungreeted: dict[Incoming, None] = {}
        self._streams: dict[Stream, None] = {}  # all open streams
        self._listener: Listener | None = None
        self._receive: Receive | None = None
        self._unreachable: Callable[[int], None] | None = None
        self._receive_note: ReceiveNote | None = None
        self._met: Callable[[str], None] | None = None
        self.strangers: dict[int, str] = {}  # known peer: the other cluster it belongs to
        self.on_stranger: Callable[[], None] | None = None  # called when one is added

    @classmethod
    async def listen(
        cls,
        runtime: Runtime,
        address: Address,
        *,
        cluster_id: str,
        node_id: int,
        configured: Iterable[int] = (),
        secret: bytes = b"",
        tls: TlsServer | None = None,
        why_refused: WhyRefused = lambda subject: None,
    ) -> TcpTransport:
        """`configured` are the voters in the configuration. With a `secret`, every peer must prove that it knows it.

        With `tls`, `why_refused` checks the subject of a peer's certificate before anything is sent to the peer.
        """
        transport = cls(
            runtime,
            cluster_id=cluster_id,
            node_id=node_id,
            configured=configured,
            secret=secret,
            why_refused=why_refused,
        )
        made = partial(Incoming, transport)
        transport._listener = await runtime.network.listen(address.host, address.port, made, tls)
        return transport

    @property
    def listener(self) -> Listener:
        assert self._listener is not None
        return self._listener

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
        """`met` receives the cluster id of a member while this node knows no cluster."""
        self._receive_note, self._met = receive, met

    def send_note(self, to: int, note: bytes) -> bool:
        """False: dropped, because the peer is away or too far behind."""
        way = self._way(to) or self._guests.get(to)
        return way is not None and way.send_frame(NOTE + note)

    def _way(self, to: int) -> Stream | None:
        """The stream to the peer. A peer without a known address, or with one that was learnt just now, is answered on
        its own stream. So a node that joins with only its id can receive the leader's snapshot, which contains all
        addresses, and acknowledge it."""
        link = self._links.get(to)
        return link if link is not None and link.is_up else self._incoming.get(to, link)

    def is_member(self, peer: int) -> bool:
        """Whether the peer's requests may be served; a guest may only ask about its registration."""
        return any(
            stream is not None and stream.is_members for stream in (self._links.get(peer), self._incoming.get(peer))
        )

    def belongs_to(self, cluster_id: str) -> None:
        """Sets this node's cluster id, which every later hello names."""
        self.cluster_id = cluster_id

    def update_peers(self, peers: Mapping[int, Address]) -> None:
        """Connects to new and moved peers, and disconnects removed ones."""
        self.admission.update(peers)
        for peer, link in list(self._links.items()):
            if peers.get(peer) != link.address:
                link.close()
                del self._links[peer]
        for peer, address in peers.items():
            if peer != self.node_id and peer not in self._links:
                link = self._links[peer] = Link(self, peer, address, self._runtime.clock)
                link.task = self._tasks.start(f"link-{peer}", link.run(self._runtime.network))
        check(
            self._links.keys() == peers.keys() - {self.node_id},
            "1 a node has one link to every other member",
            links=sorted(self._links),
            peers=sorted(peers),
        )
        for peer, incoming in list(self._incoming.items()):
            if not incoming.is_members:
                del self._incoming[peer]
                self._greet_guest(incoming)
        self._admit_guests()

    def connected(self, peer: int) -> bool:
        link = self._links.get(peer)
        return link is not None and link.is_up

    def has_died(self, peer: int) -> bool:
        """Whether the peer's address refuses connections and the peer has no stream to this node, so it is not just
        slow."""
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
        for _ in range(TURNS_TO_CLOSE):  # lets the loop finish closing the streams before it is closed itself
            if not self._streams:
                break
            await asyncio.sleep(0)

    # For the streams

    def draw(self, count: int) -> bytes:
        """A nonce. Only used with a secret."""
        return self._runtime.randomness.bytes(count) if self.secret else bytes(count)

    def hello_to(self, peer: int, nonce: bytes) -> Hello:
        return Hello(self.node_id, peer, self.cluster_id, nonce)

    def opened(self, stream: Stream) -> None:
        self._streams[stream] = None

    def closed(self, stream: Stream) -> None:
        self._streams.pop(stream, None)

    def lost(self, peer: int) -> None:
        if self._unreachable is not None:
            self._unreachable(peer)

    def arrived(self, incoming: Incoming) -> None:
        self._ungreeted[incoming] = None
        if len(self._ungreeted) > UNGREETED_MAX:
            oldest = next(iter(self._ungreeted))
            del self._ungreeted[oldest]
            oldest.drop()

    def check_held_bytes(self) -> None:
        if self.held_bytes > HELD_BYTES_MAX:
            raise MalformedMessage(f"unfinished frames of all peers hold {HELD_BYTES_MAX} bytes already")

    def check_cluster(self, hello: Hello) -> None:
        """Raises MalformedMessage for a node of another cluster; records a known one as misplaced."""
        own = Hello(self.node_id, hello.sender, self.cluster_id)
        if hello.is_of_another_cluster(own) and (self.secret or self.admission.knows(hello.sender)):
            self.strangers[hello.sender] = hello.cluster_id
            if self.on_stranger is not None:
                self.on_stranger()
        hello.check_answer_to(own)

    def accept(self, incoming: Incoming) -> None:
        self._ungreeted.pop(incoming, None)
        if incoming.is_members:
            self._take_in(incoming)
            self.met(incoming.cluster_id)
        else:
            self._greet_guest(incoming)
            self._ask_about(incoming.peer)

    def _greet_guest(self, incoming: Incoming) -> None:
        incoming.allow_frames()
        before = self._guests.pop(incoming.peer, None)
        self._guests[incoming.peer] = incoming
        if before is not None:
            before.drop()
        elif len(self._guests) > GUESTS_MAX:
            self._guests.pop(next(iter(self._guests))).drop()
            check(len(self._guests) <= GUESTS_MAX, "23 guests are bounded", guests=len(self._guests))

    def _take_in(self, incoming: Incoming) -> None:
        """Registers the stream. A node has one stream to this one; a second one means a restart, so the first is
        dead."""
        before = self._incoming.get(incoming.peer)
        self._incoming[incoming.peer] = incoming
        if before is not None:
            before.drop()
            self.lost(incoming.peer)

    def _ask_about(self, guest: int) -> None:
        for member in (*self._links.values(), *self._incoming.values()):
            if member.is_members:
                member.send_frame(WHO + ABOUT.pack(guest))

    def vouched_for(self, node_id: int) -> None:
        """A member says that a node is one too. Counts only for connected nodes, so the table stays bounded."""
        if node_id in self._guests:
            self.admission.vouched_for(node_id)
            self._admit_guests()

    def _admit_guests(self) -> None:
        for peer, incoming in list(self._guests.items()):
            if incoming.is_members:
                del self._guests[peer]
                self._take_in(incoming)
                incoming.became_member()

    def forget(self, incoming: Incoming) -> None:
        """Data sent on the stream may be lost with it, including a snapshot."""
        self._ungreeted.pop(incoming, None)
        if self._guests.get(incoming.peer) is incoming:
            del self._guests[incoming.peer]
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
