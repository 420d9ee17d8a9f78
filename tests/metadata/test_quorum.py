"""Stores of three nodes, joined in memory: one truth, and a controller that can be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.errors import NotController
from chronik.metadata.snapshot import state_hash
from chronik.metadata.store import MetadataStore
from chronik.metadata.store_config import StoreConfig
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig
from chronik.raft.messages import Message
from chronik.sim.disk import SimDisk
from tests.metadata.clusters import registration
from tests.metadata.test_store import runtime

VOTERS = {node_id: Address("nowhere", node_id) for node_id in (1, 2, 3)}
QUICK = RaftConfig(tick_ms=5, lease_ms=30)
SEVERAL_ELECTIONS_S = 0.5


class Wires:
    """Delivers at the next turn of the loop, unless one of the two is cut off."""

    def __init__(self) -> None:
        self.receivers: dict[int, Callable[[Message], None]] = {}
        self.cut: set[int] = set()

    def deliver(self, sender: int, to: int, message: Message) -> None:
        if to in self.receivers and not {sender, to} & self.cut:
            asyncio.get_running_loop().call_soon(self.receivers[to], message)


class Wire:
    def __init__(self, wires: Wires, node_id: int) -> None:
        self.wires, self.node_id = wires, node_id

    def attach(self, receive: Callable[[Message], None], unreachable: Callable[[int], None]) -> None:
        self.wires.receivers[self.node_id] = receive

    def send(self, to: int, message: Message) -> None:
        self.wires.deliver(self.node_id, to, message)

    def update_peers(self, peers: Mapping[int, Address]) -> None:
        pass

    def has_died(self, peer: int) -> bool:
        return False


class Quorum:
    def __init__(self) -> None:
        self.wires = Wires()
        self.stores: dict[int, MetadataStore] = {}
        self.disks = {node_id: SimDisk(node_id) for node_id in VOTERS}

    async def open(self) -> None:
        for node_id in VOTERS:
            await self.open_one(node_id)
        await asyncio.gather(*(store.ready() for store in self.stores.values()))

    async def open_one(self, node_id: int) -> None:
        self.stores[node_id] = await MetadataStore.open(
            runtime(self.disks[node_id]),
            "/meta",
            node_id=node_id,
            cluster_id=None,
            config=StoreConfig(voters=VOTERS, raft=QUICK),
            transport=Wire(self.wires, node_id),
        )

    async def controller(self, *, other_than: MetadataStore | None = None) -> MetadataStore:
        def found() -> list[MetadataStore]:
            return [store for store in self.stores.values() if store.is_controller and store is not other_than]

        await until(lambda: bool(found()))
        return found()[0]

    async def equal(self) -> None:
        """Waits until all that are connected have applied the same."""
        connected = [store for store in self.stores.values() if store.node_id not in self.wires.cut]
        await until(lambda: len({state_hash(store.image) for store in connected}) == 1)

    async def close(self) -> None:
        await asyncio.gather(*(store.close() for store in self.stores.values()))


async def until(holds: Callable[[], bool]) -> None:
    """Turns of the loop, until it does."""
    while not holds():
        await asyncio.sleep(0)


def creation(name: str) -> CreateTopics:
    return CreateTopics(topics=[NewTopic(name=name)])


def test_three_nodes_have_one_truth_and_only_the_controller_decides() -> None:
    """A topic appears on all nodes or on none. A follower does not decide, but names the controller."""

    async def test() -> None:
        quorum = Quorum()
        await quorum.open()
        leader = await quorum.controller()
        asked = registration(9)
        asked.cluster_id = leader.image.cluster_id
        await leader.submit(asked)
        await quorum.equal()
        assert all(9 in store.image.brokers for store in quorum.stores.values())
        follower = next(store for store in quorum.stores.values() if store is not leader)
        with pytest.raises(NotController) as refused:
            await follower.submit(creation("t"))
        assert refused.value.leader_id == leader.node_id
        assert 9 in (await follower.barrier()).brokers
        await quorum.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_controller_that_lost_its_quorum_answers_neither_yes_nor_no() -> None:
    """Its state is outdated: another controller may have been elected, and a refused command may be allowed by now."""

    async def test() -> None:
        quorum = Quorum()
        await quorum.open()
        old = await quorum.controller()
        quorum.wires.cut.add(old.node_id)
        answers = [
            asyncio.ensure_future(old.submit(registration(9))),  # refused: of another cluster
            asyncio.ensure_future(old.submit(creation("t"))),
        ]
        new = await quorum.controller(other_than=old)
        done = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(answer) for answer in done] == [NotController, NotController]
        asked = registration(8)
        asked.cluster_id = new.image.cluster_id
        await new.submit(asked)
        quorum.wires.cut.clear()
        await quorum.equal()
        assert 8 in old.image.brokers
        assert not old.is_controller
        await quorum.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_the_next_controller_goes_on_where_the_last_one_stopped() -> None:
    """Broker epochs and producer ids continue to increase; uncommitted decisions are void."""

    async def test() -> None:
        quorum = Quorum()
        await quorum.open()
        old = await quorum.controller()
        asked = registration(8)
        asked.cluster_id = old.image.cluster_id
        first = (await old.submit(asked)).broker_epoch
        quorum.wires.cut.add(old.node_id)
        lost = asyncio.ensure_future(old.submit(registration(7)))
        new = await quorum.controller(other_than=old)
        asked = registration(9)
        asked.cluster_id = new.image.cluster_id
        assert (await new.submit(asked)).broker_epoch == first + 1
        with pytest.raises(NotController):
            await lost
        quorum.wires.cut.clear()
        await quorum.equal()
        assert sorted(old.image.brokers) == [8, 9]
        await quorum.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_node_that_was_joining_empty_when_it_died_still_does_not_vote() -> None:
    """It has forgotten its votes and acknowledgements. It must not vote before it has the whole log."""

    async def test() -> None:
        quorum = Quorum()
        disk = quorum.disks[3]
        disk.make_directory("/meta")
        disk.replace_file("/meta/joining", b"")
        await quorum.open_one(2)
        await quorum.open_one(3)
        await asyncio.sleep(SEVERAL_ELECTIONS_S)  # a slow machine only makes this easier
        assert all(store.leader_id is None for store in quorum.stores.values()), "a forgetful node elected a leader"
        await quorum.open_one(1)
        await asyncio.gather(*(store.ready() for store in quorum.stores.values()))
        assert not quorum.stores[3].is_controller
        await until(lambda: not disk.exists("/meta/joining"))
        await quorum.close()

    asyncio.run(test())


class DeadEnds:
    """Notes that reach no node."""

    def attach_notes(self, receive: Callable[[int, bytes], None], met: Callable[[str], None]) -> None:
        pass

    def send_note(self, to: int, note: bytes) -> bool:
        return False

    def has_died(self, peer: int) -> bool:
        return True


def test_a_node_without_a_leader_does_not_name_the_node_that_it_asked_last() -> None:
    """It asks every voter in turn. Being the last one asked does not make a voter the controller."""

    async def test() -> None:
        quorum = Quorum()
        alone = await MetadataStore.open(
            runtime(quorum.disks[1]),
            "/meta",
            node_id=1,
            cluster_id=None,
            config=StoreConfig(voters=VOTERS, raft=QUICK, submit_timeout_ms=200),
            transport=Wire(quorum.wires, 1),
            notes=DeadEnds(),
        )
        with pytest.raises(NotController, match="no controller is elected") as refused:
            await alone.submit(BrokerHeartbeat(broker_id=1, broker_epoch=1))
        assert refused.value.leader_id is None
        await alone.close()

    asyncio.run(asyncio.wait_for(test(), 60))
