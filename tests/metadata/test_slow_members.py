"""Members with slow, stalled or lost disks: the others continue, and nothing that was acknowledged is forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from itertools import count

import pytest

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import RequestId
from chronik.metadata.commands.remove_voter import RemoveVoter
from chronik.metadata.errors import ForeignMetadata, MetadataMissing, MetadataOutdated, MetadataRefused
from chronik.metadata.store import MetadataStore
from chronik.metadata.store_config import StoreConfig
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig
from chronik.raft.messages import Message
from chronik.sim.disk import SimDisk
from tests.metadata.clusters import registration
from tests.raft.test_driver import in_virtual_time
from tests.raft.virtual_time import machine

VOTERS = {node_id: Address("nowhere", node_id) for node_id in (1, 2, 3)}
WAY_S = 0.001
LEASE_S = RaftConfig().lease_ms / 1000
AN_HOUR_S = 3600.0
CLUSTER_ID = "cluster-of-the-tests"


class Port:
    """One node's streams: messages and notes arrive in order, a millisecond later, if the node is up."""

    def __init__(self, ports: dict[int, Port], node_id: int) -> None:
        self.ports, self.node_id = ports, node_id
        ports[node_id] = self

    def attach(self, receive: Callable[[Message], None], unreachable: Callable[[int], None]) -> None:
        self.receive = receive

    def attach_notes(self, receive: Callable[[int, bytes], None], met: Callable[[str], None]) -> None:
        self.receive_note = receive

    def update_peers(self, peers: Mapping[int, Address]) -> None:
        pass

    def has_died(self, peer: int) -> bool:
        return False

    def is_member(self, peer: int) -> bool:
        return True

    def belongs_to(self, cluster_id: str) -> None:
        pass

    def send(self, to: int, message: Message) -> None:
        self._carry(to, lambda peer: peer.receive(message))

    def send_note(self, to: int, note: bytes) -> bool:
        self._carry(to, lambda peer: peer.receive_note(self.node_id, note))
        return to in self.ports

    def _carry(self, to: int, bring: Callable[[Port], None]) -> None:
        def arrive() -> None:
            if self.ports.get(self.node_id) is self and to in self.ports:
                bring(self.ports[to])

        asyncio.get_running_loop().call_later(WAY_S, arrive)


class Members:
    """Stores of three voters that know their cluster's id, as nodes with a meta.properties do."""

    def __init__(self) -> None:
        self.ports: dict[int, Port] = {}
        self.disks = {node_id: SimDisk(node_id) for node_id in VOTERS}
        self.stores: dict[int, MetadataStore] = {}
        self.index_min: dict[int, int] = {}

    @classmethod
    async def started(cls) -> Members:
        members = cls()
        for node_id in VOTERS:
            await members.start(node_id)
        await asyncio.gather(*(store.ready() for store in members.stores.values()))
        return members

    async def start(self, node_id: int) -> None:
        port = Port(self.ports, node_id)
        self.stores[node_id] = await MetadataStore.open(
            machine(self.disks[node_id], node_id),
            "/meta",
            node_id=node_id,
            cluster_id=CLUSTER_ID,
            config=StoreConfig(voters=VOTERS),
            transport=port,
            notes=port,
            index_min=self.index_min.get(node_id, 0),
        )

    async def stop(self, *node_ids: int) -> None:
        for node_id in node_ids or list(self.stores):
            self.ports.pop(node_id, None)
            await self.stores.pop(node_id).close()

    async def controller(self) -> MetadataStore:
        while not (leading := [store for store in self.stores.values() if store.is_controller]):
            await asyncio.sleep(0.01)
        return leading[0]

    async def followers(self) -> list[MetadataStore]:
        leader = await self.controller()
        return [store for store in self.stores.values() if store is not leader]


async def seconds_to_register(leader: MetadataStore, broker_id: int) -> float:
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    await leader.submit(registration(broker_id))
    return loop.time() - since_s


@pytest.mark.parametrize("votes", [True, False], ids=["voter", "learner"])
@in_virtual_time
async def test_a_member_whose_disk_stalls_delays_a_commit_by_two_leases_and_no_other(votes: bool) -> None:
    """Its loop runs, so it still asks for leases. If they were granted, commits would wait for its disk forever. A lag
    of less than a lease may be normal, so the last grant may come that long after the stall."""
    members = await Members.started()
    leader, (stalled, _) = await members.controller(), await members.followers()
    if not votes:
        await leader.submit(RemoveVoter(node_id=stalled.node_id))
    await asyncio.sleep(2)
    disk = members.disks[stalled.node_id]
    disk.delay_s = AN_HOUR_S
    async with asyncio.timeout(60):
        assert await seconds_to_register(leader, 7) <= 2 * LEASE_S + LEASE_S / 2
        for broker_id in range(8, 18):
            assert await seconds_to_register(leader, broker_id) < LEASE_S / 10
    assert stalled.current() is None, "it lacks what was acknowledged"


@in_virtual_time
async def test_a_broker_that_takes_no_metadata_is_fenced_though_its_heartbeats_arrive() -> None:
    """Otherwise it would lead by an outdated image and refuse all requests of its replicas forever."""
    members = await Members.started()
    leader, (stalled, other) = await members.controller(), await members.followers()
    for store in (stalled, other):
        await leader.submit(registration(store.node_id))
    beating = [asyncio.ensure_future(beat(leader, store.node_id)) for store in (stalled, other)]
    await asyncio.sleep(20)
    assert not leader.image.brokers[stalled.node_id].fenced, "an idle cluster has nothing to take"
    members.disks[stalled.node_id].delay_s = AN_HOUR_S
    await leader.submit(registration(9))
    await asyncio.sleep(10)
    assert leader.image.brokers[stalled.node_id].fenced
    assert not leader.image.brokers[other.node_id].fenced
    for task in beating:
        task.cancel()


async def beat(leader: MetadataStore, broker_id: int) -> None:
    """Straight to the controller, as if the way there were the only one that works."""
    for sequence in count(1):
        with contextlib.suppress(MetadataRefused):
            epoch = leader.image.brokers[broker_id].epoch
            request = RequestId(broker_id, 1, sequence, sequence)
            await leader.submitter.decide(BrokerHeartbeat(broker_id=broker_id, broker_epoch=epoch), request)
        await asyncio.sleep(1)


@in_virtual_time
async def test_members_a_little_behind_keep_their_leases_under_steady_writes() -> None:
    """At no moment does the slower one have all that the leader has: what counts is for how long it lacked it."""
    members = await Members.started()
    leader, (slow, quick) = await members.controller(), await members.followers()
    members.disks[slow.node_id].delay_s = 0.05
    await asyncio.sleep(2)
    before = slow.lease_expirations, quick.lease_expirations
    until_s = asyncio.get_running_loop().time() + 5

    async def write(number: int) -> None:
        while asyncio.get_running_loop().time() < until_s:
            await leader.submit(registration(number))
            number += 10

    await asyncio.gather(*(write(number) for number in range(10, 13)))
    assert (slow.lease_expirations, quick.lease_expirations) == before
    await asyncio.sleep(1)
    assert slow.current() is not None
    assert slow.image.version == leader.image.version


@in_virtual_time
async def test_a_member_reads_by_itself_again_once_its_disk_has_caught_up() -> None:
    """A stall costs it leases only while it lasts."""
    members = await Members.started()
    leader, (stalled, _) = await members.controller(), await members.followers()
    await asyncio.sleep(2)
    members.disks[stalled.node_id].delay_s = 5.0
    await seconds_to_register(leader, 7)
    members.disks[stalled.node_id].delay_s = 0.0
    await asyncio.sleep(1)
    assert stalled.current() is None
    await asyncio.sleep(10)
    image = stalled.current()
    assert image is not None
    assert 7 in image.brokers


@in_virtual_time
async def test_a_member_that_lost_its_log_alone_does_not_vote_until_it_has_caught_up() -> None:
    """It knows its cluster, because only its raft directory is gone. It has forgotten what it acknowledged together
    with node 1, and node 2 never received it: the two must not elect a leader without node 1."""
    members = await Members.started()
    await members.stop(2)
    await seconds_to_register(await members.controller(), 9)
    await members.stop()
    members.disks[3].remove_tree("/meta/raft")
    await members.start(2)
    await members.start(3)
    await asyncio.sleep(10)
    assert not any(store.is_controller for store in members.stores.values()), "a forgetful node elected a leader"
    await members.stop(3)
    await members.start(3)
    await asyncio.sleep(10)
    assert not any(store.is_controller for store in members.stores.values()), "a restart is no memory"
    await members.start(1)
    async with asyncio.timeout(10):
        await asyncio.gather(*(store.joined() for store in members.stores.values()))
        images = await asyncio.gather(*(store.barrier() for store in members.stores.values()))
    assert all(9 in image.brokers for image in images)
    await members.stop(1)
    async with asyncio.timeout(10):
        await members.controller()


@in_virtual_time
async def test_the_first_founder_that_lost_its_log_leads_nobody() -> None:
    """A founder campaigns at once, and an empty node would vote for it, although node 3 has entries that both have
    forgotten."""
    members = Members()
    await members.start(1)
    await members.start(3)
    await seconds_to_register(await members.controller(), 9)
    await members.stop()
    members.disks[1].remove_tree("/meta/raft")
    await members.start(2)
    await members.start(1)
    await asyncio.sleep(10)
    assert not any(store.is_controller for store in members.stores.values())
    await members.start(3)
    async with asyncio.timeout(10):
        await asyncio.gather(*(store.ready() for store in members.stores.values()))
        images = await asyncio.gather(*(store.barrier() for store in members.stores.values()))
    assert all(9 in image.brokers for image in images)


@pytest.mark.parametrize("steps", range(40))
@in_virtual_time
async def test_a_first_start_that_was_cut_short_founds_the_cluster_at_the_next(steps: int) -> None:
    """Nothing was acknowledged yet, so nothing can be forgotten. A node that waited to be added would wait forever."""
    members = Members()
    for node_id in VOTERS:
        members.disks[node_id].cut_after(steps)
        await asyncio.wait([asyncio.ensure_future(members.start(node_id))], timeout=0.01)
        members.ports.clear()
        members.disks[node_id] = members.disks[node_id].power_cut()
    for node_id in VOTERS:
        await members.start(node_id)
    async with asyncio.timeout(5):
        await asyncio.gather(*(store.ready() for store in members.stores.values()))


@in_virtual_time
async def test_a_quorum_of_one_that_lost_its_log_refuses_to_start() -> None:
    """No other node has a copy, and an empty cluster in its place would have every record deleted."""
    disk = SimDisk(1)

    async def start(*, is_used: bool = False) -> MetadataStore:
        alone = StoreConfig(voters={1: VOTERS[1]})
        return await MetadataStore.open(
            machine(disk, 1), "/meta", node_id=1, cluster_id=CLUSTER_ID, config=alone, is_used=is_used
        )

    await (await start()).close()
    disk.remove_tree("/meta/raft")
    with pytest.raises(MetadataMissing, match=r"mount or restore metadata\.log\.dir"):
        await start()
    disk.remove_tree("/meta")
    with pytest.raises(MetadataMissing):
        await start(is_used=True)


@in_virtual_time
async def test_a_node_refuses_the_metadata_of_another_node() -> None:
    """Two voters that exchange their logs have each forgotten their votes."""
    disk = SimDisk(1)
    alone = StoreConfig(voters={1: VOTERS[1]})
    store = await MetadataStore.open(machine(disk, 1), "/meta", node_id=1, cluster_id=CLUSTER_ID, config=alone)
    await store.close()
    with pytest.raises(ForeignMetadata, match="metadata of node 1, this is node 2"):
        await MetadataStore.open(
            machine(disk, 2), "/meta", node_id=2, cluster_id=CLUSTER_ID, config=StoreConfig(voters={2: VOTERS[2]})
        )


@in_virtual_time
async def test_a_log_that_ends_before_what_was_applied_is_an_old_copy() -> None:
    """A quorum of one refuses it; among several the node catches up before it votes."""
    disk = SimDisk(1)
    alone = StoreConfig(voters={1: VOTERS[1]})

    async def start(index_min: int) -> MetadataStore:
        return await MetadataStore.open(
            machine(disk, 1), "/meta", node_id=1, cluster_id=CLUSTER_ID, config=alone, index_min=index_min
        )

    store = await start(0)
    await seconds_to_register(store, 9)
    applied = store.raft.applied_index
    await store.close()
    await (await start(applied)).close()
    for _ in range(5):  # a restart that is refused adds nothing
        with pytest.raises(MetadataOutdated, match=f"has applied entry {applied + 3}"):
            await start(applied + 3)
    members = await Members.started()
    await members.stop(3)
    members.index_min[3] = 10_000
    await members.start(3)
    assert members.disks[3].exists("/meta/joining")
    while members.disks[3].exists("/meta/joining"):
        await asyncio.sleep(0.1)  # it has caught up with the others
    await members.stop()
