"""A quorum under cuts, crashes and transfers, watched every millisecond for two leases at once or a stale one."""

from __future__ import annotations

import asyncio
from random import Random

from chronik.raft.config import RaftConfig
from chronik.raft.errors import RaftError
from chronik.raft.messages import Role
from tests.raft.quorum_in_memory import Quorum
from tests.raft.virtual_time import run

CONFIG = RaftConfig(tick_ms=10, heartbeat_ticks=1, election_ticks=10, drift_permille=10, lease_ms=88)


class StaleLease(AssertionError):
    pass


class Watched:
    def __init__(self, seed: int, config: RaftConfig) -> None:
        self.random = Random(seed)
        self.quorum = Quorum(1, 2, 3, seed=seed, config=config)
        # Rates within the drift allowed for; ticks are the loop's own, so the fastest node is the one that campaigns.
        self.quorum.rates = {node_id: 1 - self.random.randint(0, 9) / 1000 for node_id in (1, 2, 3)}
        self.quorum.network.delay_s = (0.0002, 0.004)
        self.acknowledged_index = 0
        self.held_ms = 0

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            self.look()

    def look(self) -> None:
        holders = [
            node for node_id, node in self.quorum.nodes.items() if node.holds_lease(node._runtime.clock.monotonic_ns())
        ]
        self.held_ms += len(holders)
        if len(holders) > 1:
            raise StaleLease(f"nodes {[node.node_id for node in holders]} hold a lease at once")
        for node in holders:
            if node.applied_index < self.acknowledged_index:
                raise StaleLease(f"node {node.node_id} would answer by {node.applied_index}, "
                                 f"{self.acknowledged_index} was acknowledged")  # fmt: skip

    async def write(self) -> None:
        while True:
            await asyncio.sleep(0.008)
            for node in list(self.quorum.nodes.values()):
                if node.role is Role.LEADER:
                    asyncio.ensure_future(self.write_one(node))  # noqa: RUF006 - ends with the loop

    async def write_one(self, node) -> None:
        try:
            index = await node.propose(b"x")
        except RaftError:
            return
        self.look()
        self.acknowledged_index = max(self.acknowledged_index, index)
        self.look()

    async def disturb(self, faults: int) -> None:
        quorum, random = self.quorum, self.random
        for _ in range(faults):
            await asyncio.sleep(random.uniform(0.02, 0.4))
            leaders = [node for node in quorum.nodes.values() if node.role is Role.LEADER]
            target = random.choice(leaders).node_id if leaders and random.random() < 0.6 else random.randint(1, 3)
            dice = random.random()
            if dice < 0.35:
                quorum.network.isolate(target)
            elif dice < 0.55:
                quorum.network.heal()
            elif dice < 0.75 and len(quorum.nodes) == 3:
                quorum.crash(target)
                await quorum.start(target)
            elif leaders:
                leaders[0].transfer_leadership(random.randint(1, 3))
        quorum.network.heal()


def lease_story(seed: int, *, config: RaftConfig = CONFIG, faults: int = 12) -> int:
    """Returns the time in milliseconds during which a node held the lease. Raises StaleLease."""

    async def story() -> int:
        watched = Watched(seed, config)
        await watched.quorum.start(1, 2, 3)
        watching, writing = asyncio.ensure_future(watched.watch()), asyncio.ensure_future(watched.write())
        disturbing = asyncio.ensure_future(watched.disturb(faults))
        done, _ = await asyncio.wait([watching, writing, disturbing], return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, writing, disturbing):
            task.cancel()
        for task in done:
            await task
        return watched.held_ms

    return run(story)


def restart_story(seed: int) -> None:
    """A follower that has just confirmed the lease restarts while the leader is cut off and the third wants to lead."""

    async def story() -> None:
        watched = Watched(seed, CONFIG)
        quorum = watched.quorum
        await quorum.start(1, 2, 3)
        leader = await quorum.leader()
        follower, rival = (node_id for node_id in quorum.nodes if node_id != leader.node_id)
        quorum.network.isolate(rival)
        await asyncio.sleep(watched.random.uniform(0.2, 0.4))
        quorum.network.isolate(leader.node_id)
        quorum.crash(follower)
        await quorum.start(follower)
        for _ in range(200):
            await asyncio.sleep(0.001)
            watched.look()

    run(story)


def transfer_story(seed: int) -> None:
    """The leader asked another node to campaign, and is isolated before it learns the outcome."""

    async def story() -> None:
        watched = Watched(seed, CONFIG)
        quorum = watched.quorum
        await quorum.start(1, 2, 3)
        leader = await quorum.leader()
        heir = next(node_id for node_id in quorum.nodes if node_id != leader.node_id)
        leader.transfer_leadership(heir)
        await quorum.until(lambda: quorum.nodes[heir].role is not Role.FOLLOWER, every_s=0.0001)
        quorum.network.isolate(leader.node_id)
        for _ in range(200):
            await asyncio.sleep(0.001)
            watched.look()

    run(story)
