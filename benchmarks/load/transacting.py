"""What clients do in the benchmark of transactions. The same calls for every broker.

Two clients: Chronik's own, which lets leaders add partitions to transactions (`transaction.version` 2), and librdkafka,
which adds them itself. Each piece of work returns what it measured; nothing is printed here.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import NamedTuple

import uvloop
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from load.servers import CannotRun, Server

from chronik.client import producer as own
from chronik.client.admin import topics
from chronik.client.routing import ClusterClient
from chronik.client.transactions import TransactionalProducer
from chronik.runtime.real import real_runtime

VALUE = bytes(100)
PER_TRANSACTION = 1000
ABORTED_EACH = 10  # every tenth
WAIT_S = 60
OPEN_AT_ONCE = 50


class Latency(NamedTuple):
    p50_ms: float
    p99_ms: float


def create(server: Server, replication: int, *names: str) -> None:
    async def work() -> None:
        async with ClusterClient(real_runtime(), server.bootstrap) as cluster:
            made = await topics.create(cluster, [topics.NewTopic(name, 1, replication) for name in names])
            for name, found in made.items():
                if isinstance(found, Exception):
                    raise CannotRun(f"{server.name} did not create topic {name}: {found}")

    uvloop.run(work())


def one_record_own(server: Server, topic: str, count: int) -> Latency:
    """From `begin` to the return of `commit`, one transaction after the other."""

    async def work() -> list[float]:
        took = []
        async with (
            ClusterClient(real_runtime(), server.bootstrap) as cluster,
            TransactionalProducer(cluster, f"own-{topic}") as producer,
        ):
            for _ in range(count + count // 5):  # the first ones are a warm-up
                since = time.perf_counter()
                await producer.begin()
                await producer.send(topic, VALUE, partition=0)
                await producer.commit()
                took.append(time.perf_counter() - since)
        return took[count // 5 :]

    return _latency(uvloop.run(work()))


def one_record_librdkafka(server: Server, topic: str, count: int) -> Latency:
    producer = _transactional(server, f"rd-{topic}", linger_ms=0)
    took = []
    for _ in range(count + count // 5):
        since = time.perf_counter()
        producer.begin_transaction()
        producer.produce(topic, VALUE, partition=0)
        producer.commit_transaction(WAIT_S)
        took.append(time.perf_counter() - since)
    return _latency(took[count // 5 :])


def thousands_own(server: Server, topic: str, transactions: int, *, in_transactions: bool) -> float:
    """Records per second; each thousand is flushed, or is a transaction."""

    async def work() -> float:
        async with ClusterClient(real_runtime(), server.bootstrap) as cluster:
            if not in_transactions:
                async with own.Producer(cluster) as plain:
                    return await _rate_own(plain, topic, transactions)
            async with TransactionalProducer(cluster, f"own-{topic}") as producer:
                return await _rate_own(producer, topic, transactions)

    return uvloop.run(work())


async def _rate_own(producer: own.Producer | TransactionalProducer, topic: str, transactions: int) -> float:
    since = 0.0
    for number in range(transactions + 2):
        if number == 2:
            since = time.perf_counter()
        if isinstance(producer, TransactionalProducer):
            await producer.begin()
        for _ in range(PER_TRANSACTION):
            await producer.send(topic, VALUE, partition=0)
        await (producer.commit() if isinstance(producer, TransactionalProducer) else producer.flush())
    return transactions * PER_TRANSACTION / (time.perf_counter() - since)


def thousands_librdkafka(
    server: Server, topic: str, transactions: int, *, in_transactions: bool, aborts: bool = False
) -> float:
    """As `thousands_own`. With `aborts` every tenth transaction is aborted."""
    if in_transactions:
        producer = _transactional(server, f"rd-{topic}", linger_ms=5)
    else:
        producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    since = 0.0
    for number in range(transactions + 2):
        if number == 2:
            since = time.perf_counter()
        if in_transactions:
            producer.begin_transaction()
        for _ in range(PER_TRANSACTION):
            producer.produce(topic, VALUE, partition=0)
        if not in_transactions:
            producer.flush(WAIT_S)
        elif aborts and number % ABORTED_EACH == 0:
            producer.flush(WAIT_S)  # else the records would be dropped before they are sent
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    return transactions * PER_TRANSACTION / (time.perf_counter() - since)


def read(server: Server, topic: str, *, committed: bool) -> float:
    """Records per second that the log holds, from its start to its end, whether or not the reader is shown them."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "queued.min.messages": 1_000_000,
        }
    )
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        since = time.perf_counter()
        while True:
            messages = consumer.consume(10_000, 1.0)
            if messages and (error := messages[-1].error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise CannotRun(f"{server.name} could not be read: {error}")
                return float((high - low) / (time.perf_counter() - since))
            if time.perf_counter() - since > WAIT_S:
                raise CannotRun(f"{server.name} could not be read within {WAIT_S} s")
    finally:
        consumer.close()


def open_producers(server: Server, topic: str, count: int) -> float:
    """How many MB of memory the nodes need for `count` producers with an open transaction."""

    async def work() -> float:
        async with ClusterClient(real_runtime(), server.bootstrap) as cluster:
            producers = [TransactionalProducer(cluster, f"open-{number}") for number in range(count)]
            before_mb = 0.0
            for first in range(0, count, OPEN_AT_ONCE):
                await asyncio.gather(*[_begin(each, topic) for each in producers[first : first + OPEN_AT_ONCE]])
                if first == 0:  # what the first ones bring with them is not theirs
                    before_mb = server.resident_mb()
            grown_mb = server.resident_mb() - before_mb
            for first in range(0, count, OPEN_AT_ONCE):
                await asyncio.gather(*[each.close() for each in producers[first : first + OPEN_AT_ONCE]])
            return grown_mb * count / (count - OPEN_AT_ONCE)

    return uvloop.run(work())


async def _begin(producer: TransactionalProducer, topic: str) -> None:
    await producer.begin()
    await producer.send(topic, VALUE, partition=0)
    await producer.producer.flush()


def _transactional(server: Server, transactional_id: str, linger_ms: int) -> Producer:
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": transactional_id, "linger.ms": linger_ms}
    )
    producer.init_transactions(WAIT_S)
    return producer


def _latency(took_s: list[float]) -> Latency:
    return Latency(median(took_s) * 1e3, sorted(took_s)[len(took_s) * 99 // 100] * 1e3)
