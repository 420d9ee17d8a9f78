"""Traffic on the quorum's port that should not be there: strangers with garbage or forged frames, replays of what a
node once sent, and a network that delivers frames twice.

None of it may change anything that the quorum has agreed on, or prevent agreement. Only the quorum's secret keeps out
an impostor that knows a member's id and the cluster's; such impostors are not simulated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from random import Random

from chronik.metadata.commands.command import RequestId
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.commands.registry import NUMBER_OF
from chronik.metadata.forwarding import _HEAD, _REQUEST, ASK
from chronik.raft.codec import encode_message
from chronik.raft.framing import NOTE, Hello, frame
from chronik.raft.messages import Entry, Message, MessageKind
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.network import SimNetwork
from chronik.sim.programs import CONTROLLER_PORT
from chronik.sim.transport import Pipe
from chronik.wire.compiler import encode

STAYS_S = 3.0  # then an intruder disconnects
RECORDED_PACKETS = 400  # per direction of a link
UNKNOWN_ID = 77


# Duplicated and replayed frames


class Tap:
    """Sees every packet of the quorum's connections between nodes. It has its own random stream, so that worlds without
    such faults stay unchanged."""

    def __init__(self, cluster: SimCluster) -> None:
        self._random = cluster.world.random("tap")
        self._hosts = {machine.host for machine in cluster.machines.values()}
        self._doubled: dict[tuple[str, str], int] = {}  # link: active faults
        self.recorded: dict[tuple[str, str], deque[bytes]] = {}
        cluster.world.wires.tap = self._see

    def double(self, link: tuple[str, str], by: int) -> None:
        self._doubled[link] = self._doubled.get(link, 0) + by

    def _see(self, pipe: Pipe, packet: bytes) -> list[bytes]:
        """The packets to deliver. A packet is one write of a node, so it starts and ends with a frame."""
        if pipe.link[0] not in self._hosts or pipe.target.own_port != CONTROLLER_PORT:
            return [packet]
        self.recorded.setdefault(pipe.link, deque(maxlen=RECORDED_PACKETS)).append(packet)
        is_hello = packet[8:12] == b"CRQ1"
        if self._doubled.get(pipe.link) and not is_hello and self._random.random() < 0.5:
            return [packet, packet]
        return [packet]


# Strangers


def _garbage(random: Random, cluster: SimCluster, machine: SimMachine) -> list[bytes]:
    return [random.randbytes(random.choice((1, 7, 8, 100, 600))) for _ in range(3)]


def _half_frame(random: Random, cluster: SimCluster, machine: SimMachine) -> list[bytes]:
    """Announces a large frame and sends little of it."""
    return [random.choice((200, 1 << 20, 1 << 31)).to_bytes(4, "big") + bytes(40)]


def _nobody(random: Random, cluster: SimCluster, machine: SimMachine) -> list[bytes]:
    """An unknown node, of no cluster or of another one, requests topic deletions."""
    sender = random.choice([each for each in (0, UNKNOWN_ID) if each not in cluster.machines])
    hello = Hello(sender, machine.node_id, random.choice(("", "another")))
    return [frame(hello.encode()), *_forged(random, hello.sender, machine)]


def _other_cluster(random: Random, cluster: SimCluster, machine: SimMachine) -> list[bytes]:
    """Uses a member's id and another cluster's id."""
    sender = random.choice([node_id for node_id in cluster.machines if node_id != machine.node_id])
    return [frame(Hello(sender, machine.node_id, "another").encode()), *_forged(random, sender, machine)]


def _for_another(random: Random, cluster: SimCluster, machine: SimMachine) -> list[bytes]:
    """Asks for a different node than this one."""
    return [frame(Hello(UNKNOWN_ID, UNKNOWN_ID + 1, "").encode()), *_forged(random, UNKNOWN_ID, machine)]


STRANGERS: tuple[Callable[[Random, SimCluster, SimMachine], list[bytes]], ...] = (
    _garbage,
    _half_frame,
    _nobody,
    _nobody,
    _other_cluster,
    _for_another,
)


def _forged(random: Random, sender: int, machine: SimMachine) -> list[bytes]:
    """A message that would do harm if it were accepted."""
    to, term = machine.node_id, random.choice((1 << 40, (1 << 62) - 1))
    deletions = [
        NOTE
        + _HEAD.pack(ASK, random.getrandbits(40))
        + _REQUEST.pack(*RequestId(sender, 1, 1 + number, 0), NUMBER_OF[DeleteTopics])
        + encode(DeleteTopics(topics=[TopicName(name=f"topic-{number}")]), 0)
        for number in range(3)
    ]
    messages = [
        Message(MessageKind.VOTE, to, sender, term, 1, 1 << 40),
        Message(MessageKind.APPEND, to, sender, term, 1, 1, (Entry(term, 2),), 1),
        Message(MessageKind.HEARTBEAT, to, sender, term),
        Message(MessageKind.TIMEOUT_NOW, to, sender, term),
    ]
    bodies = deletions + [encode_message(message) for message in messages]
    return [frame(body) for body in random.sample(bodies, random.randint(1, len(bodies)))]


def visit(cluster: SimCluster, machine: SimMachine, amount: int) -> None:
    random = Random(amount)
    make = random.choice(STRANGERS)
    cluster.world.note("stranger", f"{make.__name__} at {machine}")
    _speak(cluster, machine, make(random, cluster, machine))


def play_back(cluster: SimCluster, machine: SimMachine, other: SimMachine, amount: int) -> None:
    """Connects and replays packets that another node sent here, from a hello on."""
    random = Random(amount)
    packets = list(_tap_of(cluster).recorded.get((other.host, machine.host), ()))
    hellos = [place for place, packet in enumerate(packets) if packet[8:12] == b"CRQ1"]
    if not hellos:
        return
    start = random.choice(hellos)
    rest = packets[start + 1 :]
    first = random.randrange(len(rest) + 1)
    cluster.world.note("stranger", f"plays back what {other} sent to {machine}, {len(rest) - first} packets")
    _speak(cluster, machine, [packets[start], *rest[first : first + random.choice((3, 30, 300))]])


def double(cluster: SimCluster, machine: SimMachine, other: SimMachine, duration_ms: int) -> None:
    tap, link = _tap_of(cluster), (machine.host, other.host)
    tap.double(link, 1)
    cluster.world.time.after_ms(duration_ms, tap.double, link, -1)


def _tap_of(cluster: SimCluster) -> Tap:
    tap: Tap = cluster.tap or Tap(cluster)
    cluster.tap = tap
    return tap


def _speak(cluster: SimCluster, machine: SimMachine, packets: list[bytes]) -> None:
    name = f"stranger-{cluster.world.wires.free_port()}"
    loop = cluster.world.time.process(name)

    async def work() -> None:
        network = SimNetwork(cluster.world.wires, name, loop)
        try:
            async with asyncio.timeout(STAYS_S):
                transport, _ = await network.connect(machine.host, CONTROLLER_PORT, asyncio.Protocol)
        except (OSError, TimeoutError):
            return
        for packet in packets:
            transport.write(packet)
            await asyncio.sleep(0.002)
        await asyncio.sleep(STAYS_S)
        transport.abort()

    loop.create_task(work(), name=name)


WIRE_FAULTS: Mapping[str, tuple[tuple[int, int], tuple[int, int]]] = {  # with durations and amounts
    "stranger": ((0, 0), (0, 1 << 20)),
    "played back": ((0, 0), (0, 1 << 20)),
    "doubled frames": ((500, 4000), (0, 0)),
}
