"""Consume-transform-produce by clients that others wrote: each input once in the output, whatever is aborted or killed.

librdkafka, kafka-python and aiokafka add partitions themselves, so their batches take the way on which the leader asks
the coordinator. Our own client takes the newer one.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.client.admin import topics
from chronik.client.consumer import Consumer
from chronik.client.fetch_answers import FetchOptions
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.offset_specs import EARLIEST, LATEST
from tests.clients.copier import LIBRARIES

# Transactions of real clients, and brokers that are killed.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("transactional-clients")]
# Kills of the others' clients, and of brokers under them, take a minute each: `make clients` runs them.
OTHERS_ARE_LONG = [each if each == "chronik" else pytest.param(each, marks=pytest.mark.long) for each in LIBRARIES]

REPOSITORY = Path(__file__).parents[2]
PARTITIONS = 3
COUNT = 600
PATIENCE_S = 200
SUPERVISED_S = 60
RESTARTS_MAX = 10
KILLS = 3
_numbers = itertools.count()


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Cluster]:
    with Cluster(nodes=3, in_process=False) as cluster:
        yield cluster


class Copying:
    """A source with numbered records, an empty target, and the program that copies."""

    def __init__(self, cluster: Cluster, library: str) -> None:
        self.cluster, self.library = cluster, library
        self.name = f"{library}-{next(_numbers)}"
        self.source, self.target = f"{self.name}-source", f"{self.name}-target"
        asyncio.run(self._prepare())

    async def _prepare(self) -> None:
        replicas = len(self.cluster.ports)
        async with ClusterClient(real_runtime(), self.cluster.bootstrap) as client:
            made = [topics.NewTopic(name, PARTITIONS, replicas) for name in (self.source, self.target)]
            await topics.create(client, made)
            async with Producer(client) as producer:
                for number in range(COUNT):
                    await producer.send(self.source, b"%d" % number, partition=number % PARTITIONS)

    def start(self, seed: int) -> subprocess.Popen[bytes]:
        words = [self.library, self.cluster.bootstrap, self.source, self.target, self.name, str(seed)]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.clients.copier", *words],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        said = self._said(process)
        assert process.returncode == 0, said

    def supervise(self, process: subprocess.Popen[bytes]) -> None:
        """Restarts the process while its library gives up: not every library survives the loss of a broker.

        librdkafka (2.16.1) may wait forever in send_offsets_to_transaction. When a dead broker is gone from the
        metadata, it ends its handle of that broker but keeps it as the group's coordinator. It then waits for a
        connection that it never opens, and does not look for another coordinator (librdkafka#5511). The same happens
        with other clusters.
        """
        said = [self._said(process, SUPERVISED_S)]
        while process.returncode != 0:
            assert len(said) <= RESTARTS_MAX, "\n".join(said)
            process = self.start(seed=len(said))
            said.append(self._said(process, SUPERVISED_S))

    def _said(self, process: subprocess.Popen[bytes], patience_s: int = PATIENCE_S) -> str:
        """What it printed until it ended, by itself or when patience did."""
        try:
            said, _ = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        return said.decode(errors="replace")[-2000:]

    def wait_until_begun(self) -> None:
        """Until the target holds something, committed or not."""

        async def wait() -> None:
            places = [TopicPartition(self.target, index) for index in range(PARTITIONS)]
            async with ClusterClient(real_runtime(), self.cluster.bootstrap) as client:
                while not any((await self._ends(client, FetchOptions(), places)).values()):
                    await asyncio.sleep(0.05)

        asyncio.run(wait())

    def output(self) -> Counter[bytes]:
        """What readers of committed records find, once every transaction has ended."""
        return asyncio.run(self._output())

    async def _output(self) -> Counter[bytes]:
        places = [TopicPartition(self.target, index) for index in range(PARTITIONS)]
        committed = FetchOptions(isolation_level=READ_COMMITTED)
        async with ClusterClient(real_runtime(), self.cluster.bootstrap) as client:
            while True:  # the end of the log, and the end for readers of committed records: markers follow the decision
                ends = await self._ends(client, FetchOptions(), places)
                if ends == await self._ends(client, committed, places):
                    break
            found: Counter[bytes] = Counter()
            async with Consumer(client, options=committed) as consumer:
                await consumer.assign(dict.fromkeys(places, EARLIEST))
                while any(consumer.positions()[at] < end for at, end in ends.items()):
                    for fetched in await consumer.poll():
                        found.update(record.value or b"" for record in fetched.records)
            return found

    async def _ends(
        self, client: ClusterClient, options: FetchOptions, places: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        async with Consumer(client, options=options) as consumer:
            await consumer.assign(dict.fromkeys(places, LATEST))
            return consumer.positions()


EXPECTED = Counter(b"%d copied" % number for number in range(COUNT))


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_input_is_once_in_the_output_of_one_node(cluster: Cluster, library: str) -> None:
    """With one transaction in three aborted."""
    copying = Copying(cluster, library)
    copying.finish(copying.start(seed=1))
    assert copying.output() == EXPECTED


@pytest.mark.parametrize("library", OTHERS_ARE_LONG)
def test_each_input_is_once_in_the_output_of_a_client_that_is_killed(cluster: Cluster, library: str) -> None:
    """Started again, it aborts what it left open, and goes on from the offsets that it committed with its output."""
    copying = Copying(cluster, library)
    chance = random.Random(7)
    for seed in range(KILLS):
        process = copying.start(seed)
        try:
            process.wait(timeout=1 + 2 * chance.random())  # it may be anywhere in its work, or done
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
    copying.finish(copying.start(seed=99))
    assert copying.output() == EXPECTED


@pytest.mark.parametrize("library", OTHERS_ARE_LONG)
def test_each_input_is_once_in_the_output_of_three_nodes_that_are_killed_in_turn(
    three_nodes: Cluster, library: str
) -> None:
    """Coordinators and leaders move while transactions are open."""
    copying = Copying(three_nodes, library)
    process = copying.start(seed=3)
    copying.wait_until_begun()
    for node_id in (1, 2, 3):
        three_nodes.kill(node_id)
        three_nodes.start_again(node_id)
    copying.supervise(process)
    assert copying.output() == EXPECTED
