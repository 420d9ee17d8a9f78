"""Three real nodes whose leaders are killed under acks=all load: afterwards their replicas are the same bytes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator

import pytest

from chronik import testing
from chronik.client.admin.replicas import compare
from chronik.client.admin.topics import NewTopic, create
from chronik.client.consumer import Consumer
from chronik.client.errors import ClientError
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.runtime.real import real_runtime
from chronik.wire.offset_specs import EARLIEST, LATEST

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication-cluster")]

PARTITIONS = 3


@pytest.fixture(scope="module")
def nodes() -> Iterator[testing.Cluster]:
    with testing.Cluster(nodes=3, in_process=False) as started:
        yield started


class Load:
    """Produces with acks=all and idempotence until it is stopped; records the acknowledged values and offsets."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self._client, self._topic = client, topic
        self.acked: dict[tuple[int, int], bytes] = {}
        self._is_over = False

    async def run(self) -> None:
        number = 0
        async with Producer(self._client, linger_ms=1) as producer:
            while not self._is_over:
                values = [b"%d" % (number + at) for at in range(20)]
                number += 20
                sent = [
                    (value, await producer.send(self._topic, value, partition=int(value) % PARTITIONS))
                    for value in values
                ]
                for value, delivery in sent:
                    position = await delivery
                    self.acked[position.partition, position.offset] = value
                await asyncio.sleep(0.002)

    async def more(self, count: int = 200) -> None:
        """Returns when this many more records were acknowledged."""
        goal = len(self.acked) + count
        while len(self.acked) < goal:
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        self._is_over = True


async def read_all(client: ClusterClient, topic: str) -> dict[tuple[int, int], bytes]:
    """Every record there is, by partition and offset."""
    found: dict[tuple[int, int], bytes] = {}
    client.forget(topic)
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    async with Consumer(client) as consumer:
        await consumer.assign(dict.fromkeys(places, LATEST))
        ends = consumer.positions()
        await consumer.assign(dict.fromkeys(places, EARLIEST))
        while any(consumer.positions()[at] < end for at, end in ends.items()):
            for piece in await consumer.poll():
                found |= {(piece.at.partition, record.offset): record.value or b"" for record in piece.records}
    return found


async def until_in_sync(client: ClusterClient, topic: str) -> None:
    while True:
        try:
            client.forget(topic)
            known = await client.topic(topic)
            if all(len(each.isr) == 3 and each.leader_id > 0 for each in known.partitions.values()):
                return
        except ClientError:
            pass
        await asyncio.sleep(0.05)


def under_load(nodes: testing.Cluster, topic: str, disturb: Callable[[ClusterClient, Load], Awaitable[None]]) -> None:
    """Runs `disturb` while records are produced; then all that was acknowledged is there, once, and replicas agree."""

    async def work() -> None:
        async with ClusterClient(real_runtime(), nodes.bootstrap, client_id="test") as client:
            await create(client, [NewTopic(topic, PARTITIONS, 3)])
            load = Load(client, topic)
            producing = asyncio.create_task(load.run())
            await load.more()
            await disturb(client, load)
            await load.more()
            load.stop()
            await producing
            await until_in_sync(client, topic)
            found = await read_all(client, topic)
            lost = {at: value for at, value in load.acked.items() if found.get(at) != value}
            assert not lost
            assert len(set(found.values())) == len(found), "no duplicates"
            for compared in await compare(client, topic):
                assert compared.is_equal, compared
                assert not compared.missing

    asyncio.run(work())


async def leader_of(client: ClusterClient, topic: str) -> int:
    client.forget(topic)
    return (await client.topic(topic)).partitions[0].leader_id


def test_killed_leaders_lose_nothing(nodes: testing.Cluster) -> None:
    """kill -9 of the leader: an in-sync replica takes over, and the old leader comes back as a follower."""

    async def disturb(client: ClusterClient, load: Load) -> None:
        leader = await leader_of(client, "killed")
        nodes.kill(leader)
        await load.more()
        await asyncio.to_thread(nodes.start_again, leader)
        await until_in_sync(client, "killed")

    under_load(nodes, "killed", disturb)


def test_replicas_that_lack_nothing_are_equal_by_command_too(nodes: testing.Cluster) -> None:
    """What `chronik debug compare-replicas` says, and ends with; a replica that does not answer is no agreement."""

    async def prepare() -> None:
        async with ClusterClient(real_runtime(), nodes.bootstrap, client_id="test") as client:
            await create(client, [NewTopic("compared", 1, 3)])
            async with Producer(client) as producer:
                await (await producer.send("compared", b"x"))
            await until_in_sync(client, "compared")

    asyncio.run(asyncio.wait_for(prepare(), 60))
    command = [sys.executable, "-m", "chronik.cli", "debug", "compare-replicas", "compared", "--format", "json"]
    done = subprocess.run([*command, "--bootstrap", nodes.bootstrap], capture_output=True, check=False)
    [told] = json.loads(done.stdout)
    assert done.returncode == 0
    assert (sorted(told["compared"]), told["end_offset"], told["result"]) == ([1, 2, 3], 1, "equal")
