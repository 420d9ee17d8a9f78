"""Frames of strangers, guests and one lying member for a node's quorum port: `python -m tests.fuzz.quorum_port`.

A door is a whole node behind its transport, without sockets, and somebody who connects again whenever it is refused.
Strangers and guests must leave no trace: term, vote, log and image stay as they are. A member may be heard, so there
only what must hold for any peer is asked: the node goes on, and its term rises within bounds. For all of them nothing
raises, and what the port keeps in memory is bounded. Records that can be read and make no sense are not among the
frames: a member is trusted with what it writes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from chronik.metadata.commands.add_voter import AddVoter
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import RequestId
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.registry import COMMANDS, NUMBER_OF
from chronik.metadata.commands.unregister_broker import UnregisterBroker
from chronik.metadata.forwarding import _HEAD, _REQUEST, ASK
from chronik.metadata.records import FeatureLevelRecord, encode_batch
from chronik.metadata.snapshot import state_hash
from chronik.metadata.store import MetadataStore, StoreConfig
from chronik.raft.addresses import Address, encode_image
from chronik.raft.bounds import TERM_RISE_MAX
from chronik.raft.changes import Action, Change, ChangeSet
from chronik.raft.codec import encode_message
from chronik.raft.framing import MEMBER, NOTE, WHO, Hello, frame
from chronik.raft.greeting import CHALLENGE, PROOF
from chronik.raft.messages import Entry, EntryKind, Membership, Message, MessageKind, Snapshot
from chronik.raft.refusals import REMEMBERED_MAX
from chronik.raft.streams import Incoming
from chronik.raft.transport import GUESTS_MAX, HELD_BYTES_MAX, UNGREETED_MAX, TcpTransport
from chronik.runtime.interfaces import Runtime
from chronik.sim.disk import SimDisk
from chronik.wire.compiler import encode
from tests.fuzz.mutations import mutate
from tests.fuzz.rounds import run_rounds
from tests.metadata.clusters import CLUSTER_ID, registration
from tests.raft.quorum_in_memory import CONFIG
from tests.raft.virtual_time import LoopClock, SeededRandomness, run
from tests.wire.instances import Anything, layout, make

OWN, PEER, STRANGER = 1, 2, 77
CLUSTER = CLUSTER_ID
RECORDS = encode_batch([FeatureLevelRecord(name="f", level=1)])
SECRET = b"what no stranger knows"
FRAMES_PER_DOOR = 20_000
FRAMES_PER_TURN = 64  # of the loop
SILENT_SHARE, LEFT_SHARE = 0.05, 0.01  # of frames: connections that say nothing, and such that are left open


class NobodyThere:
    async def listen(self, *_: Any) -> Any:
        raise OSError("no sockets here")

    connect = listen


class Wire(asyncio.Transport):
    """A connection without a socket; what is written to it is forgotten."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("192.0.2.1", 4711)})
        self._protocol = protocol
        self.is_closed = False

    def write(self, data: Any) -> None:
        pass

    def writelines(self, list_of_data: Any) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)


class Door:
    """One node, and the connection of whoever stands before it."""

    def __init__(self, random: Random, greeting: bytes, secret: bytes = b"") -> None:
        self.random, self.greeting = random, greeting
        self.disk = SimDisk(1)
        self.runtime = Runtime(LoopClock(), self.disk, NobodyThere(), SeededRandomness(random.randrange(1 << 30)))  # type: ignore[arg-type]
        self.transport = TcpTransport(self.runtime, cluster_id=CLUSTER, node_id=OWN, secret=secret)
        self.wire: Wire | None = None
        self.stream = Incoming(self.transport)

    def feed(self, data: bytes) -> None:
        drawn = self.random.random()
        if drawn < SILENT_SHARE:
            self._connect()
        if self.wire is None or self.wire.is_closed or drawn > 1 - LEFT_SHARE:
            self.stream, self.wire = self._connect()
            self.stream.data_received(self.greeting)
        if not self.wire.is_closed:
            self.stream.data_received(data)

    def _connect(self) -> tuple[Incoming, Wire]:
        stream = Incoming(self.transport)
        wire = Wire(stream)
        stream.connection_made(wire)
        return stream, wire

    def check_memory(self) -> str | None:
        transport = self.transport
        sizes = {
            "connections": (len(transport._streams), UNGREETED_MAX + GUESTS_MAX + 2),
            "bytes of frames": (transport.held_bytes, HELD_BYTES_MAX),
            "causes": (len(transport.refusals._counts), REMEMBERED_MAX),
            "nodes of other clusters": (len(transport.strangers), 2),
        }
        return next((f"{size} {what}, at most {most}" for what, (size, most) in sizes.items() if size > most), None)


class StoreDoor(Door):
    """A node that is its cluster's controller, so that whatever is forwarded to it could be done."""

    async def open(self) -> None:
        config = StoreConfig(voters={OWN: Address("nowhere", 1)}, raft=CONFIG)
        self.store = await MetadataStore.open(
            self.runtime, "/m", node_id=OWN, cluster_id=CLUSTER, config=config,
            transport=self.transport, notes=self.transport,
        )  # fmt: skip
        reply = await self.store.submit(registration(OWN))
        await self.store.submit(BrokerHeartbeat(broker_id=OWN, broker_epoch=reply.broker_epoch))
        await self.store.submit(CreateTopics(topics=[NewTopic(name="t")]))
        self.before = self.state()

    def state(self) -> tuple[Any, ...]:
        raft = self.store.raft
        return raft.term, raft._core.vote, raft.last_index, raft.members, state_hash(self.store.image)

    def check(self) -> str | None:
        if self.store.raft.stopped or not self.store.is_controller:
            return "the node has stopped"
        return None if self.state() == self.before else f"{self.before} became {self.state()}"

    async def close(self) -> None:
        await self.store.close()
        await self.transport.stop()


class MemberDoor(Door):
    """A node of three voters; the other two are one liar."""

    async def open(self) -> None:
        config = StoreConfig(voters={each: Address(f"n{each}", 1) for each in (OWN, PEER, 3)}, raft=CONFIG)
        self.store = await MetadataStore.open(
            self.runtime, "/m", node_id=OWN, cluster_id=CLUSTER, config=config,
            transport=self.transport, notes=self.transport,
        )  # fmt: skip
        self.node = self.store.raft
        self.term = self.node.term

    def check(self) -> str | None:
        if self.node.stopped:
            return f"the node has stopped: {self.node._failure}"
        risen, self.term = self.node.term - self.term, self.node.term
        return f"the term rose by {risen}" if not 0 <= risen <= FRAMES_PER_TURN * (TERM_RISE_MAX + 2) else None

    async def close(self) -> None:
        await self.store.close()
        await self.transport.stop()


def hello(sender: int, cluster_id: str = CLUSTER) -> bytes:
    return frame(Hello(sender, OWN, cluster_id).encode())


DOORS: dict[str, Callable[[Random], StoreDoor | MemberDoor]] = {
    "stranger": partial(StoreDoor, greeting=b""),
    "stranger without the secret": partial(StoreDoor, greeting=b"", secret=SECRET),
    "member's id without the secret": partial(StoreDoor, greeting=hello(PEER), secret=SECRET),
    "guest": partial(StoreDoor, greeting=hello(STRANGER)),
    "member": partial(MemberDoor, greeting=hello(PEER)),
}


def bodies(random: Random) -> list[bytes]:
    """Valid ones, of every kind."""
    change = ChangeSet((Change(Action.ADD_VOTER, 9),), Address("n9", 1).encode(), is_single=True)
    image = encode_image({OWN: Address("n1", 1)}, b"")
    found = [Hello(sender, OWN, cluster).encode() for sender in (0, PEER, STRANGER) for cluster in ("", CLUSTER, "x")]
    found += [CHALLENGE + bytes(16), PROOF + bytes(32), WHO + bytes(8), MEMBER + (STRANGER).to_bytes(8, "big")]
    for sender in (PEER, 3, STRANGER):
        for term in (1, 2, random.randrange(1, 1 << 20), (1 << 62) - 1):
            snapshot = Snapshot(50, term, Membership((OWN, PEER)), image)
            for kind in MessageKind:
                data = Entry(term, 2, EntryKind.NORMAL, random.choice((b"data", RECORDS, RECORDS[:-1])))
                entries = (data, Entry(term, 3, change.entry_kind, change.encode()))
                found.append(
                    encode_message(
                        Message(
                            kind, OWN, sender, term, 1, random.choice((0, 1, 2, 5)),
                            entries if kind is MessageKind.APPEND else (), random.choice((0, 1, 3, 1 << 40)),
                            snapshot if kind is MessageKind.SNAPSHOT else None,
                            reject=random.random() < 0.3, hint=random.choice((0, 1, 1 << 50)), context=b"read",
                        )
                    )
                )  # fmt: skip
    for number, command in enumerate(COMMANDS):
        for sender in (PEER, STRANGER):
            head = _HEAD.pack(ASK, 1) + _REQUEST.pack(*RequestId(sender, 5, 1, 0), number)
            asked = make(layout(command, 0), Anything(random, tags=False))
            if hasattr(asked, "broker_id"):
                asked.broker_id = sender
            found.append(NOTE + head + encode(asked, 0))
    for sender in (PEER, STRANGER):
        done = [
            DeleteTopics(topics=[TopicName(name="t")]),
            CreateTopics(topics=[NewTopic(name="forged")]),
            registration(sender),
            FenceBroker(broker_id=OWN, broker_epoch=0),
            UnregisterBroker(broker_id=OWN),
            AddVoter(node_id=sender, host="n", port=1, timeout_ms=1),
        ]
        for sequence, asked in enumerate(done, 2):
            head = _HEAD.pack(ASK, 1) + _REQUEST.pack(*RequestId(sender, 5, sequence, 0), NUMBER_OF[type(asked)])
            found += 4 * [NOTE + head + encode(asked, 0)]
    found += [NOTE + bytes([kind]) + random.randbytes(40) for kind in b"LG\x02\x03\x04"]
    return found


def data_of(random: Random, corpus: list[bytes]) -> bytes:
    """What somebody writes next: mostly whole frames with a right checksum, so that what is behind it is reached."""
    body = random.choice(corpus)
    match random.randrange(8):
        case 0:
            return mutate(random, frame(body), frame(random.choice(corpus)))
        case 1:
            return random.randbytes(random.randrange(64))
        case 2 | 3:
            return frame(body)
        case _:
            return frame(mutate(random, body, random.choice(corpus)))


def fuzz_port(name: str, seed: int, frames: int) -> str | None:
    """The finding, if any; the same seed is the same run."""
    return run(partial(_fuzz, name, seed, frames))


async def _fuzz(name: str, seed: int, frames: int) -> str | None:
    raised: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(str(context)))
    random = Random(f"{seed}/{name}")
    corpus = bodies(random)
    door = DOORS[name](random)
    await door.open()
    try:
        for number in range(frames):
            data = data_of(random, corpus)
            try:
                door.feed(data)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                return f"{name}, seed {seed}, frame {number}: {type(error).__name__}: {error}\n  {data.hex()}"
            if number % FRAMES_PER_TURN == 0 or number == frames - 1:
                await asyncio.sleep(0.002)
                finding = door.check() or door.check_memory() or next(iter(raised), None)
                if finding:
                    return f"{name}, seed {seed}, about frame {number}: {finding}"
    finally:
        await door.close()
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000, help="in all, over all doors")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first; a run with the same is the same")
    options = parser.parse_args()
    logging.disable()
    return run_rounds(fuzz_port, DOORS, seed=options.seed, frames=options.frames, per_round=FRAMES_PER_DOOR)


if __name__ == "__main__":
    sys.exit(main())
