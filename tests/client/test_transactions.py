"""The transactional producer against running brokers: ours in both generations of transactions, and Kafka's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from chronik.client.admin import offsets, topics
from chronik.client.consumer import Consumer
from chronik.client.errors import ClientError, Closed, DeliveryFailed, Fenced, Refused, TransactionFailed
from chronik.client.fetch_answers import FetchOptions
from chronik.client.membership import Member
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.client.transactions import TransactionalProducer
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from chronik.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from chronik.wire.offset_specs import EARLIEST, LATEST
from tests.oracle.kafka_server import KafkaServer

Unique = Callable[[str], str]
PATIENCE_S = 60
UNSAFE_DOWNGRADE = 3


def run(work: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await work

    uvloop.run(main())


async def lower_feature(bootstrap: str) -> None:
    async with ClusterClient(real_runtime(), bootstrap) as cluster:
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=0, upgrade_type=UNSAFE_DOWNGRADE)
        connection = await cluster.to_controller()
        answer = await connection.ask(UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse)
        assert answer.error_code == 0


@pytest.fixture(scope="module")
def old_cluster() -> Iterator[str]:
    """Ours, where transactions of one producer have the same epoch."""
    with Cluster() as cluster:
        uvloop.run(lower_feature(cluster.bootstrap))
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def old_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with KafkaServer(Path(tmp_path_factory.mktemp("kafka391")) / "node", release="3.9.1") as server:
        yield server.bootstrap


@pytest.fixture(
    params=[
        "chronik",
        "chronik-same-epoch",
        pytest.param("kafka-4.3.1", marks=pytest.mark.java),
        pytest.param("kafka-3.9.1", marks=pytest.mark.java),
    ]
)
def broker(request: pytest.FixtureRequest) -> str:
    """A cluster of each generation: transactions with an epoch of their own, and with the producer's."""
    name = {"chronik": "our_broker", "chronik-same-epoch": "old_cluster", "kafka-4.3.1": "kafka"}
    server = request.getfixturevalue(name.get(request.param, "old_kafka"))
    return str(getattr(server, "bootstrap", server))


@asynccontextmanager
async def topic_of(bootstrap: str, name: str, partitions: int = 2) -> AsyncIterator[tuple[ClusterClient, str]]:
    async with ClusterClient(real_runtime(), bootstrap, client_id="test") as cluster:
        created = await topics.create(cluster, [topics.NewTopic(name, partitions, 1)])
        assert not isinstance(created[name], Refused), created
        await cluster.retrying(lambda: cluster.topic(name))
        yield cluster, name


async def read(cluster: ClusterClient, topic: str, isolation: int = READ_COMMITTED) -> list[bytes]:
    """All records up to the end that readers of this kind see."""
    known = await cluster.topic(topic)
    places = [TopicPartition(topic, index) for index in known.partitions]
    options = FetchOptions(isolation_level=isolation)
    async with Consumer(cluster, options=options) as consumer, Consumer(cluster, options=options) as finder:
        await finder.assign(dict.fromkeys(places, LATEST))
        ends = finder.positions()
        await consumer.assign(dict.fromkeys(places, EARLIEST))
        values: list[bytes] = []
        while any(consumer.positions()[at] < end for at, end in ends.items()):
            for fetched in await consumer.poll():
                values += [record.value or b"" for record in fetched.records]
    return sorted(values)


def test_a_committed_transaction_is_seen_whole_and_an_aborted_one_never(broker: str, unique: Unique) -> None:
    """The promise that transactions are for, over several partitions and several transactions."""

    async def work() -> None:
        async with topic_of(broker, unique("txn")) as (cluster, topic):
            async with TransactionalProducer(cluster, unique("id")) as producer:
                for number in range(6):
                    await producer.begin()
                    for partition in (0, 1):
                        await producer.send(topic, b"%d" % (10 * number + partition), partition=partition)
                    await (producer.abort() if number % 2 else producer.commit())
                await producer.begin()
                await producer.commit()  # of nothing
                await producer.begin()
                await producer.abort()
                async with producer.transaction():
                    await producer.send(topic, b"90", partition=0)
            while len(values := await read(cluster, topic)) < 7:
                pass  # markers follow the decision
            assert values == [b"0", b"1", b"20", b"21", b"40", b"41", b"90"]

    run(work())


def test_a_commit_sends_at_once_what_waits_for_a_fuller_batch(broker: str, unique: Unique) -> None:
    """A record that waits for others is not made to wait for them by a commit: without that this test would take an
    hour."""

    async def work() -> None:
        async with topic_of(broker, unique("txn")) as (cluster, topic):
            async with TransactionalProducer(cluster, unique("id"), linger_ms=3_600_000) as producer:
                for number in range(3):
                    async with producer.transaction():
                        await producer.send(topic, b"%d" % number, partition=0)
            while len(values := await read(cluster, topic)) < 3:
                pass  # markers follow the decision
            assert values == [b"0", b"1", b"2"]

    run(work())


def test_an_open_transaction_is_seen_only_by_readers_of_uncommitted_records(broker: str, unique: Unique) -> None:
    """And ends when its block raises."""

    async def work() -> None:
        async with topic_of(broker, unique("txn")) as (cluster, topic):
            async with TransactionalProducer(cluster, unique("id")) as producer:

                async def fail() -> None:
                    async with producer.transaction():
                        await (await producer.send(topic, b"open"))
                        assert await read(cluster, topic) == []
                        assert await read(cluster, topic, READ_UNCOMMITTED) == [b"open"]
                        raise ZeroDivisionError

                with pytest.raises(ZeroDivisionError):
                    await fail()
                async with producer.transaction():
                    await producer.send(topic, b"next")
            while len(values := await read(cluster, topic)) < 1:
                pass
            assert values == [b"next"]

    run(work())


def test_offsets_are_committed_with_the_records_made_from_them(broker: str, unique: Unique) -> None:
    """Both or neither: what makes consume-transform-produce exact."""

    async def work() -> None:
        async with topic_of(broker, unique("txn")) as (cluster, topic):
            group, at = unique("group"), TopicPartition(topic, 0)
            async with TransactionalProducer(cluster, unique("id")) as producer:
                for offset, commits in ((5, True), (9, False)):
                    await producer.begin()
                    await producer.send(topic, b"%d" % offset)
                    await producer.send_offsets({at: offset}, Member(group))
                    await (producer.commit() if commits else producer.abort())
                await producer.begin()
                with pytest.raises(TransactionFailed, match=r"ILLEGAL_GENERATION|UNKNOWN_MEMBER_ID"):
                    await producer.send_offsets({at: 99}, Member(group, "stranger", 7))
                with pytest.raises(TransactionFailed):
                    await producer.commit()
                await producer.abort()
            found = await offsets.committed(cluster, group, is_stable=True)  # waits for the markers
            assert {place: each.offset for place, each in found.items()} == {at: 5}

    run(work())


def test_a_second_producer_of_the_same_id_fences_the_first(broker: str, unique: Unique) -> None:
    """A process that was thought dead cannot write or commit; the error says so and what to do."""

    async def work() -> None:
        async with topic_of(broker, unique("txn")) as (cluster, topic):
            name = unique("id")
            first, second = TransactionalProducer(cluster, name), TransactionalProducer(cluster, name)
            await first.begin()
            await (await first.send(topic, b"old", partition=0))
            async with second.transaction():
                await second.send(topic, b"new", partition=0)
            with pytest.raises(Fenced, match="Close this producer"):
                await first.commit()
            with pytest.raises(Closed):
                await first.begin()
            await first.close()
            third = TransactionalProducer(cluster, name)
            await third.begin()
            await second.begin()
            await second.send(topic, b"late", partition=0)
            with pytest.raises(Fenced):
                await second.commit()
            await second.close()
            await third.close()
            while len(values := await read(cluster, topic)) < 1:
                pass
            assert values == [b"new"]

    run(work())


def test_a_transaction_with_a_record_that_was_refused_can_only_be_aborted(broker: str, unique: Unique) -> None:
    """A commit that left a record out would be a lie. The next transaction of the same producer works."""

    async def work() -> None:
        async with topic_of(broker, unique("txn"), 1) as (cluster, topic):
            async with TransactionalProducer(
                cluster, unique("id"), batch_bytes_max=3_000_000, delivery_timeout_ms=20_000
            ) as producer:
                await producer.begin()
                await producer.send(topic, b"small")
                await producer.send(topic, b"x" * 2_000_000)
                with pytest.raises(TransactionFailed, match=r"MESSAGE_TOO_LARGE.*Abort it"):
                    await producer.commit()
                with pytest.raises(ClientError, match="can only be aborted"):
                    await producer.send(topic, b"more")
                before = producer.identity
                await producer.abort()
                # What became of a batch that failed may not be known: no later one may continue its sequence.
                assert producer.identity == (before.producer_id, before.epoch + 1)
                async with producer.transaction():
                    await producer.send(topic, b"again")
            while len(values := await read(cluster, topic)) < 1:
                pass
            assert values == [b"again"]

    run(work())


def test_what_waits_is_dropped_by_an_abort(broker: str, unique: Unique) -> None:
    """An abort does not first send records that no consumer will see."""

    async def work() -> None:
        async with topic_of(broker, unique("txn"), 1) as (cluster, topic):
            async with TransactionalProducer(cluster, unique("id"), linger_ms=600_000) as producer:
                await producer.begin()
                delivery = await producer.send(topic, b"waits")
                await producer.abort()
                with pytest.raises(DeliveryFailed, match="aborted"):
                    await delivery
                async with producer.transaction():
                    await producer.send(topic, b"sent")
            while len(values := await read(cluster, topic)) < 1:
                pass
            assert values == [b"sent"]

    run(work())


def test_the_epoch_rises_with_each_transaction_only_where_the_cluster_says_so(
    old_cluster: str, our_broker: Cluster, unique: Unique
) -> None:
    """The finalized feature decides, not what versions a broker happens to serve."""

    async def epochs(bootstrap: str) -> list[int]:
        found = []
        async with (
            topic_of(bootstrap, unique("txn")) as (cluster, topic),
            TransactionalProducer(cluster, unique("id")) as producer,
        ):
            for _ in range(3):
                async with producer.transaction():
                    await producer.send(topic, b"x")
                found.append(producer.identity.epoch)
        return found

    async def work() -> None:
        assert await epochs(our_broker.bootstrap) == [1, 2, 3]
        assert await epochs(old_cluster) == [0, 0, 0]

    run(work())


def test_mistakes_of_the_caller_are_named(broker: str, unique: Unique) -> None:
    """Steps in the wrong order change nothing."""

    async def work() -> None:
        async with ClusterClient(real_runtime(), broker) as cluster:
            producer = TransactionalProducer(cluster, unique("id"))
            with pytest.raises(ClientError, match="has no producer id yet"):
                await producer.send("t", b"x")
            await producer.begin()
            with pytest.raises(ClientError, match="has an open transaction"):
                await producer.begin()
            await producer.commit()
            with pytest.raises(ClientError, match="has no open transaction"):
                await producer.commit()
            await producer.close()
            with pytest.raises(Closed):
                await producer.begin()
            slow = TransactionalProducer(cluster, unique("id"), timeout_ms=10**9)
            with pytest.raises(Refused) as refused:
                await slow.begin()
            assert refused.value.kafka_error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
            await slow.close()

    run(work())
