"""Whole nodes of a quorum, driver, journal and all, on simulated disks and a network that cuts, delays and loses."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from random import Random

from chronik.raft.addresses import Address
from chronik.raft.codec import decode_message, encode_message
from chronik.raft.config import RaftConfig
from chronik.raft.driver import RaftNode
from chronik.raft.messages import Message, Role
from chronik.sim.disk import SimDisk
from tests.raft.virtual_time import machine

CONFIG = RaftConfig(tick_ms=10, heartbeat_ticks=2, election_ticks=10, lease_ms=45)
DIRECTORY = "/raft"


class Ledger:
    """A state machine that records everything, including leadership changes."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.applied: list[int] = []
        self.restored_at: list[int] = []
        self.leaders: list[tuple[int | None, int, bool]] = []

    def apply(self, index: int, term: int, data: bytes) -> None:
        self.applied.append(index)
        self.values.append(data)

    def snapshot(self) -> bytes:
        return b"".join(struct.pack(">I", len(value)) + value for value in self.values)

    def restore(self, index: int, data: bytes) -> None:
        self.restored_at.append(index)
        self.values, at = [], 0
        while at < len(data):
            (size,) = struct.unpack_from(">I", data, at)
            self.values.append(data[at + 4 : at + 4 + size])
            at += 4 + size

    def refusal(self, data: bytes) -> str | None:
        return "it begins with a question mark" if data.startswith(b"?") else None

    snapshot_refusal = refusal

    def leadership_changed(self, *, leader_id: int | None, term: int, is_self: bool) -> None:
        self.leaders.append((leader_id, term, is_self))


class Port:
    """One node's Transport."""

    def __init__(self, network: Network, node_id: int) -> None:
        self.network, self.node_id = network, node_id
        self.receive: Callable[[Message], None] | None = None
        self.unreachable: Callable[[int], None] | None = None
        self.peers: Mapping[int, Address] = {}
        self.heard: set[int] = set()  # nodes that can be answered although their addresses are not known yet

    def attach(self, receive: Callable[[Message], None], unreachable: Callable[[int], None]) -> None:
        self.receive, self.unreachable = receive, unreachable

    def update_peers(self, peers: Mapping[int, Address]) -> None:
        self.peers = dict(peers)

    def has_died(self, peer: int) -> bool:
        return False

    def send(self, to: int, message: Message) -> None:
        if to in self.peers or to in self.heard:
            self.network.carry(self, to, encode_message(message))


class Network:
    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self.ports: dict[int, Port] = {}
        self.cut: set[frozenset[int]] = set()
        self.loss = 0.0
        self.delay_s = (0.0005, 0.0005)

    def port(self, node_id: int) -> Port:
        self.ports[node_id] = Port(self, node_id)
        return self.ports[node_id]

    def isolate(self, *node_ids: int) -> None:
        """Cuts these from all others, not from each other."""
        self.cut = {frozenset((a, b)) for a in self.ports for b in self.ports if (a in node_ids) != (b in node_ids)}

    def heal(self) -> None:
        self.cut = set()

    def carry(self, sender: Port, to: int, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        if frozenset((sender.node_id, to)) in self.cut or to not in self.ports:
            if sender.unreachable:
                loop.call_soon(sender.unreachable, to)
            return
        if self.random.random() < self.loss:
            return
        loop.call_later(self.random.uniform(*self.delay_s), self._arrive, sender, to, data)

    def _arrive(self, sender: Port, to: int, data: bytes) -> None:
        target = self.ports.get(to)
        if target and target.receive and frozenset((sender.node_id, to)) not in self.cut:
            target.heard.add(sender.node_id)
            target.receive(decode_message(data))


class Quorum:
    """Nodes by id. A node that crashed keeps its disk and may be started again."""

    def __init__(self, *founders: int, seed: int = 0, config: RaftConfig = CONFIG) -> None:
        self.network = Network(seed)
        self.seed, self.config = seed, config
        self.founders = {node_id: Address(f"node-{node_id}", 9093) for node_id in founders}
        self.disks: dict[int, SimDisk] = {}
        self.nodes: dict[int, RaftNode] = {}
        self.ledgers: dict[int, Ledger] = {}
        self.rates: dict[int, float] = {}
        self.starts = 0

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.starts += 1
            self.disks.setdefault(node_id, SimDisk(self.seed * 100 + node_id))
            self.ledgers[node_id] = Ledger()
            self.nodes[node_id] = await RaftNode.open(
                machine(self.disks[node_id], self.seed * 1000 + self.starts, self.rates.get(node_id, 1.0)),
                DIRECTORY,
                node_id=node_id,
                voters=self.founders if node_id in self.founders else None,
                transport=self.network.port(node_id),
                machine=self.ledgers[node_id],
                config=self.config,
            )

    def crash(self, node_id: int, *, power_cut: bool = True) -> None:
        """The process is gone in the middle of whatever it did."""
        self.network.ports.pop(node_id).receive = None
        node = self.nodes.pop(node_id)
        disk = self.disks[node_id]
        self.disks[node_id] = disk.power_cut() if power_cut else disk.process_killed()
        node._end(RuntimeError("crashed"))

    async def stop(self) -> None:
        for node in self.nodes.values():
            await node.stop()

    async def leader(self, within_s: float = 5.0) -> RaftNode:
        """The leader that a majority follows, once there is one that has applied its own term."""
        async with asyncio.timeout(within_s):
            while True:
                for node in self.nodes.values():
                    followers = [other for other in self.nodes.values() if other.leader_id == node.node_id]
                    is_ready = self.ledgers[node.node_id].leaders[-1:] == [(node.node_id, node.term, True)]
                    if node.role is Role.LEADER and is_ready and 2 * len(followers) > len(node.members.voters):
                        return node
                await asyncio.sleep(0.005)

    async def until(self, holds: Callable[[], bool], within_s: float = 10.0, every_s: float = 0.005) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                await asyncio.sleep(every_s)
