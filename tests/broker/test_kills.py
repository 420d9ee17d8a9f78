"""kill -9 at random points under load, on real processes and a real disk."""

from __future__ import annotations

import os
import threading
import time
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from chronik.testing import Cluster

CYCLES = int(os.environ.get("CHRONIK_KILLS", "5"))  # `make kills` runs 50
PARTITIONS = 3
TOPIC, GROUP = "killed", "readers"


class Load:
    """An idempotent producer with acks=all that never stops, and its acknowledged records."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            value = b"%d" % number
            self._producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0)
            time.sleep(0.0005)
        assert self._producer.flush(120) == 0, "records were left undelivered"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        key = (message.partition(), message.offset())
        assert key not in self.acknowledged, f"{key} was given to two records"
        self.acknowledged[key] = message.value()

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.acknowledged) + count
        while len(self.acknowledged) < wanted:
            assert self._thread.is_alive(), "the load has ended"
            time.sleep(0.01)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


@pytest.mark.slow
def test_kill_9_under_load_loses_moves_and_doubles_nothing() -> None:
    random = Random(9)
    settings = {"num.partitions": str(PARTITIONS)}
    with Cluster(settings=settings, in_process=False) as cluster:
        load = Load(cluster.bootstrap)
        committed = 0
        for _ in range(CYCLES):
            load.wait_for_more(random.randint(50, 1000))
            committed = commit_further(cluster.bootstrap, committed)
            cluster.kill()
            cluster.start_again()
            assert committed_offset(cluster.bootstrap) >= committed, "a committed offset went back"
        load.stop()
        found = read_all(cluster.bootstrap, len(load.acknowledged))
    assert len(load.acknowledged) > CYCLES * 50
    wrong = {key: (value, found.get(key)) for key, value in load.acknowledged.items() if found.get(key) != value}
    assert not wrong, f"{len(wrong)} of {len(load.acknowledged)} lost or moved: {list(wrong.items())[:3]}"
    assert len(set(found.values())) == len(found), "an idempotent producer's record was written twice"


def group_consumer(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, "log_level": 0})


def commit_further(bootstrap: str, committed: int) -> int:
    consumer = group_consumer(bootstrap)
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, committed + 10)], asynchronous=False)
    consumer.close()
    return committed + 10


def committed_offset(bootstrap: str) -> int:
    consumer = group_consumer(bootstrap)
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=60)
    consumer.close()
    assert isinstance(found.offset, int)
    return found.offset


def read_all(bootstrap: str, count: int) -> dict[tuple[int, int], bytes]:
    consumer = group_consumer(bootstrap)
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    while len(found) < count:
        messages = consumer.consume(min(10_000, count - len(found)), 60)  # waits for all of them, or the time
        assert messages, f"only {len(found)} of {count} records can be read"
        for message in messages:
            assert message.error() is None, message.error()
            found[message.partition(), message.offset()] = message.value()
    consumer.close()
    return found
