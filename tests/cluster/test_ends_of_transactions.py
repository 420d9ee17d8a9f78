"""kill -9 of real nodes at known steps of the end of a transaction.

A node that is stopped by SIGSTOP holds the end at a step, for as long as the others take to replace it; the coordinator
says when it is there. tests/broker/test_crashes_in_end_of_transaction.py has every step, in virtual time.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pytest

from chronik.client.admin import topics, transactions
from chronik.client.consumer import Consumer
from chronik.client.errors import ClientError
from chronik.client.fetch_answers import FetchOptions
from chronik.client.routing import TRANSACTION, ClusterClient
from chronik.client.topology import TopicPartition
from chronik.client.transactions import TransactionalProducer
from chronik.coordinator.partitions import partition_for
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from chronik.wire.offset_specs import EARLIEST, LATEST
from tests.cluster.asking import Asked

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ends-of-transactions")]

T = TypeVar("T")
PATIENCE_S = 120
LOOK_S = 0.02
END_VERSION = 5
_numbers = itertools.count()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    # Two of three nodes hold each partition, so that a node can be stopped that the others need not wait for.
    settings = {"transaction.state.log.replication.factor": "2", "transaction.state.log.min.isr": "1"}
    with Cluster(nodes=3, settings=settings, in_process=False) as cluster:
        yield cluster


class Ending:
    """A transaction over two partitions: the coordinator's follower leads the first, the third node the second one."""

    def __init__(self, cluster: Cluster, client: ClusterClient) -> None:
        self.cluster, self.client = cluster, client
        self.topic = f"ended-{next(_numbers)}"
        self.places = [TopicPartition(self.topic, index) for index in (0, 1)]

    async def begin(self) -> None:
        self.transactional_id = self.topic
        self.coordinator = await self.client.retrying(lambda: self.client.coordinator(self.topic, TRANSACTION))
        [self.follower] = set(self._state_replicas()) - {self.coordinator}
        self.third = 6 - self.coordinator - self.follower
        replicas = {0: [self.follower, self.coordinator], 1: [self.third, self.follower]}
        configs = {"min.insync.replicas": "1"}
        await topics.create(self.client, [topics.NewTopic(self.topic, assignment=replicas, configs=configs)])
        self.producer = TransactionalProducer(self.client, self.transactional_id)
        await self.producer.begin()
        await self.send(b"first")

    def _state_replicas(self) -> tuple[int, ...]:
        node = Asked(self.cluster, self.coordinator)
        placed = node.placed("__transaction_state")
        node.close()
        return placed[partition_for(self.transactional_id, len(placed))].replicas

    async def send(self, value: bytes) -> None:
        await asyncio.gather(*(self.producer.send(self.topic, value, partition=at.partition) for at in self.places))
        await self.producer.producer.flush()

    async def becomes(self, state: str, *waiting: TopicPartition) -> None:
        """Until the coordinator says so, and that these partitions have no marker yet."""

        async def look() -> bool:
            told = await transactions.describe(self.client, self.transactional_id)
            return told.state == state and set(told.partitions) == set(waiting)

        await eventually(look, f"{state}, waiting for {waiting}")

    async def ask_to_commit(self) -> ErrorCode:
        """A request besides the producer's, on a connection of its own: a connection's answers keep their order."""
        identity = self.producer.identity
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=True,
        )
        async with ClusterClient(real_runtime(), self.cluster.address(self.coordinator)) as client:
            connection = await client.to_node(self.coordinator)
            told = await connection.ask(request, EndTxnResponse, version_min=END_VERSION, version_max=END_VERSION)
        return ErrorCode.of(told.error_code)

    async def check(self, committed: asyncio.Future[None]) -> None:
        """It is committed once, and the producer goes on."""
        await asyncio.wait_for(committed, PATIENCE_S)
        assert await self.values() == Counter({b"first": 2})
        await self.producer.begin()
        await self.send(b"next")
        await self.producer.commit()
        assert await self.values() == Counter({b"first": 2, b"next": 2})
        await self.producer.close()

    async def values(self) -> Counter[bytes]:
        """What readers of committed records find, once every transaction has ended."""
        committed = FetchOptions(isolation_level=READ_COMMITTED)

        async def ends(options: FetchOptions) -> dict[TopicPartition, int]:
            async with Consumer(self.client, options=options) as consumer:
                await consumer.assign(dict.fromkeys(self.places, LATEST))
                return consumer.positions()

        async def look() -> dict[TopicPartition, int] | None:
            reached = await ends(FetchOptions())
            return reached if reached == await ends(committed) else None

        reached = await eventually(look, "the end of every transaction")
        found: Counter[bytes] = Counter()
        async with Consumer(self.client, options=committed) as consumer:
            await consumer.assign(dict.fromkeys(self.places, EARLIEST))
            while any(consumer.positions()[at] < end for at, end in reached.items()):
                for fetched in await consumer.poll():
                    found.update(record.value or b"" for record in fetched.records)
        return found


async def eventually(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    """The first true answer. A node that was killed, or that takes over, has none yet."""
    give_up_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_s:
        with suppress(ClientError):
            if found := await look():
                return found
        await asyncio.sleep(LOOK_S)
    raise AssertionError(f"not within {PATIENCE_S} s: {what}")


def play(cluster: Cluster, story: Callable[[Ending], Awaitable[None]]) -> None:
    async def main() -> None:
        async with ClusterClient(real_runtime(), cluster.bootstrap) as client:
            ending = Ending(cluster, client)
            await ending.begin()
            await story(ending)

    asyncio.run(main())


def test_a_coordinator_is_killed_between_two_markers(nodes: Cluster) -> None:
    """One partition has its marker, the leader of the other one does not answer."""

    async def story(ending: Ending) -> None:
        nodes.pause(ending.third)
        committed = asyncio.ensure_future(ending.producer.commit())
        await ending.becomes("PrepareCommit", ending.places[1])
        nodes.kill(ending.coordinator)
        nodes.resume(ending.third)
        await ending.check(committed)
        nodes.start_again(ending.coordinator)

    play(nodes, story)


def test_a_leader_is_killed_before_it_has_its_marker(nodes: Cluster) -> None:
    async def story(ending: Ending) -> None:
        nodes.pause(ending.third)
        committed = asyncio.ensure_future(ending.producer.commit())
        await ending.becomes("PrepareCommit", ending.places[1])
        nodes.kill(ending.third)
        await ending.check(committed)
        nodes.start_again(ending.third)

    play(nodes, story)


def test_a_coordinator_is_killed_with_a_decision_that_nobody_else_has(nodes: Cluster) -> None:
    """Its follower does not answer, so the decision is in its log only; a second request shows that it is there.
    The next coordinator does not know the decision, and the producer repeats it."""

    async def story(ending: Ending) -> None:
        nodes.pause(ending.follower)
        committed = asyncio.ensure_future(ending.producer.commit())
        asked = [asyncio.ensure_future(ending.ask_to_commit()) for _ in range(2)]
        told, _ = await asyncio.wait(asked, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert {each.result() for each in told} == {ErrorCode.CONCURRENT_TRANSACTIONS}
        nodes.kill(ending.coordinator)
        nodes.resume(ending.follower)
        await ending.check(committed)
        await asyncio.gather(*asked, return_exceptions=True)
        nodes.start_again(ending.coordinator)

    play(nodes, story)


def test_a_coordinator_is_killed_while_its_answer_is_on_its_way(nodes: Cluster) -> None:
    """The commit is decided, and the producer has not heard of it: it repeats its request to the next coordinator."""

    async def story(ending: Ending) -> None:
        nodes.pause(ending.third)
        assert await ending.ask_to_commit() is ErrorCode.NONE
        nodes.kill(ending.coordinator)
        nodes.resume(ending.third)
        await ending.check(asyncio.ensure_future(ending.producer.commit()))
        nodes.start_again(ending.coordinator)

    play(nodes, story)
