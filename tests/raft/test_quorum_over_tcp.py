"""Three nodes with real disks and sockets in one process: the same code as in the simulations, on the real machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from chronik.raft.addresses import Address
from chronik.raft.changes import Action, Change
from chronik.raft.config import RaftConfig
from chronik.raft.driver import RaftNode
from chronik.raft.messages import Role
from chronik.raft.transport import TcpTransport
from chronik.runtime.real import real_runtime
from tests.raft.quorum_in_memory import Ledger

CONFIG = RaftConfig(tick_ms=20, heartbeat_ticks=2, election_ticks=25, lease_ms=200)
DEADLINE_S = 60


class Cluster:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime = real_runtime()
        self.transports: dict[int, TcpTransport] = {}
        self.addresses: dict[int, Address] = {}
        self.nodes: dict[int, RaftNode] = {}
        self.ledgers: dict[int, Ledger] = {}

    async def listen(self, node_id: int) -> None:
        address = self.addresses.get(node_id, Address("127.0.0.1", 0))
        self.transports[node_id] = await TcpTransport.listen(self.runtime, address, cluster_id="c", node_id=node_id)
        self.addresses[node_id] = self.transports[node_id].address

    async def open(self, node_id: int, *, founders: tuple[int, ...]) -> None:
        self.ledgers[node_id] = Ledger()
        self.nodes[node_id] = await RaftNode.open(
            self.runtime,
            str(self.directory / str(node_id)),
            node_id=node_id,
            voters={each: self.addresses[each] for each in founders} or None,
            transport=self.transports[node_id],
            machine=self.ledgers[node_id],
            config=CONFIG,
        )

    async def stop(self, node_id: int) -> None:
        await self.nodes.pop(node_id).stop()
        await self.transports.pop(node_id).stop()

    async def leader(self) -> RaftNode:
        def leads(node: RaftNode) -> bool:
            return self.ledgers[node.node_id].leaders[-1:] == [(node.node_id, node.term, True)]

        await self.until(lambda: any(leads(node) and node.role is Role.LEADER for node in self.nodes.values()))
        return next(node for node in self.nodes.values() if leads(node))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                await asyncio.sleep(0.005)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_three_nodes_serve_lose_one_and_take_a_fourth(
    tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """Commands survive the loss of a leader, its return, and the coming of a node that knows nothing but its id."""

    async def story() -> None:
        cluster = Cluster(tmp_path)
        for node_id in (1, 2, 3):
            await cluster.listen(node_id)
        for node_id in (1, 2, 3):
            await cluster.open(node_id, founders=(1, 2, 3))
        first = await cluster.leader()
        await asyncio.gather(*(first.propose(b"%d" % number) for number in range(200)))
        assert await first.read_index() >= first.applied_index - 1
        await cluster.until(lambda: first.holds_lease(cluster.runtime.clock.monotonic_ns()))
        await cluster.stop(first.node_id)
        second = await cluster.leader()
        await second.propose(b"after")
        await cluster.listen(first.node_id)
        await cluster.open(first.node_id, founders=(1, 2, 3))
        await cluster.listen(4)
        await cluster.open(4, founders=())
        leader = await cluster.leader()
        members = await leader.change_membership(Change(Action.ADD_LEARNER, 4), cluster.addresses[4])
        assert members.learners == (4,)
        expected = [*(b"%d" % number for number in range(200)), b"after"]
        await cluster.until(lambda: all(ledger.values == expected for ledger in cluster.ledgers.values()))
        assert cluster.nodes[4].addresses == cluster.nodes[1].addresses == cluster.addresses
        for node_id in list(cluster.nodes):
            await cluster.stop(node_id)

    run(story())
