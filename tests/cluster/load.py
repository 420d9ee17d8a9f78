"""A producer that never stops while a cluster is hurt, what it was told, and whether the cluster still holds it.

The producer is idempotent and waits for all replicas, and its own patience outlasts every fault, so in the end exactly
what was acknowledged is in the log: nothing lost, moved, doubled or left over.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from chronik.testing import Cluster
from chronik.testing.local_cluster import node_directory
from tests.cluster.asking import Asked, Placed
from tests.oracle.comparison import Closed

T = TypeVar("T")
PARTITIONS = 3
PATIENCE_S = 120  # of everybody here: only a cluster that hangs uses it up
LOOK_S = 0.02
# Errors of single requests, which librdkafka does not repeat, while nodes die and others take over. It forgets a broker
# that the metadata does not list any longer, and fails what it has sent there with _DESTROY_BROKER.
PASSING = {
    KafkaError._DESTROY_BROKER,
    KafkaError._TRANSPORT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
}


def rounds(few: int) -> int:
    """How often a test does its worst: `few` times where everybody waits, CHRONIK_KILLS times in the long run."""
    return int(os.environ.get("CHRONIK_KILLS", few))


def eventually(look: Callable[[], T | None], what: str) -> T:
    """The first true answer. A node that is down or busy with an election has none yet."""
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        with suppress(ConnectionError, TimeoutError, Closed):
            if found := look():
                return found
        assert time.monotonic() < give_up_s, f"not within {PATIENCE_S} s: {what}"
        time.sleep(LOOK_S)


class Reached(Protocol):
    """A cluster that clients can find."""

    @property
    def bootstrap(self) -> str: ...


class Load:
    def __init__(
        self, cluster: Reached, topic: str, *, value_bytes: int = 0, client: Mapping[str, str] | None = None
    ) -> None:
        """Values are padded to `value_bytes`. `client` are settings of librdkafka: a login, for example."""
        self.topic = topic
        self._value_bytes = value_bytes
        self.acknowledged: dict[tuple[int, int], bytes] = {}  # by partition and offset
        self.failures: list[str] = []
        self._told_s: list[list[float]] = [[] for _ in range(PARTITIONS)]  # when each was acknowledged
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": PATIENCE_S * 1000,
                "topic.metadata.refresh.interval.ms": 1000,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
                **(client or {}),
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)  # a test that failed does not wait for it
        self._thread.start()

    def _run(self) -> None:
        try:
            self._produce()
        except KafkaException as fault:  # the client gave up: sequences that do not follow, say
            self.failures.append(str(fault))

    def _produce(self) -> None:
        number = 0
        while not self._stopping.is_set():
            value = (b"%s %d " % (self.topic.encode(), number)).ljust(self._value_bytes, b"x")
            self._producer.produce(self.topic, value, partition=number % PARTITIONS, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0)
            time.sleep(0.001)  # many requests, not much CPU: the nodes share it
        if left := self._producer.flush(PATIENCE_S):
            self.failures.append(f"{left} records were left undelivered")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        key = (message.partition(), message.offset())
        if key in self.acknowledged:
            self.failures.append(f"{key} was given to two records")
        self.acknowledged[key] = message.value()
        self._told_s[message.partition()].append(time.monotonic())

    def wait_for_more(self, count: int = 50) -> None:
        """In every partition, so that each has a leader that works."""
        wanted = [len(told_s) + count for told_s in self._told_s]

        def look() -> bool:
            assert not self.failures, self.failures[:3]
            return all(len(told_s) >= least for told_s, least in zip(self._told_s, wanted, strict=True))

        eventually(look, f"{count} more acknowledged in each of {PARTITIONS} partitions")

    def ends(self) -> dict[int, int]:
        """The offset after the last acknowledged record, by partition."""
        return {index: len(told_s) for index, told_s in enumerate(self._told_s)}

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def longest_pause_ms(self) -> int:
        """For reports: how long at most a partition acknowledged nothing."""
        gaps = [after - before for told_s in self._told_s for before, after in pairwise(told_s)]
        return round(max(gaps) * 1000)


def live_view(cluster: Cluster, node_id: int, topic: str) -> list[Placed]:
    """The topic as one node shows it."""
    node = Asked(cluster, node_id)
    try:
        return node.placed(topic)
    finally:
        node.close()


def wait_for_full_isr(cluster: Cluster, topic: str) -> list[Placed]:
    """Until every node shows every replica in sync, and all the same."""

    def look() -> list[Placed] | None:
        first, *others = [live_view(cluster, node_id, topic) for node_id in range(1, len(cluster.ports) + 1)]
        is_full = all(set(placed.isr) == set(placed.replicas) and placed.leader > 0 for placed in first)
        return first if is_full and all(other == first for other in others) else None

    return eventually(look, f"all replicas of {topic} in sync on all nodes")


def check_survived(cluster: Cluster, load: Load) -> None:
    """The load has stopped and all nodes are back: every promise that was made is kept, on every replica."""
    assert not load.failures, load.failures[:3]
    wait_for_full_isr(cluster, load.topic)
    check_complete(load, read_all(cluster, load.topic))
    check_replicas_identical(cluster, load.topic)


def check_complete(load: Load, found: Mapping[tuple[int, int], bytes]) -> None:
    """What can be read is what was acknowledged: nothing lost, moved, doubled or left over."""
    told = load.acknowledged
    wrong = {key: (value, found.get(key)) for key, value in told.items() if found.get(key) != value}
    assert not wrong, f"{len(wrong)} of {len(told)} lost or moved: {list(wrong.items())[:3]}"
    more = {key: value for key, value in found.items() if key not in told}
    assert not more, f"{len(more)} records that nobody was told of: {list(more.items())[:3]}"
    assert len(set(found.values())) == len(found), "an idempotent producer's record was written twice"


def read_all(
    cluster: Reached, topic: str, partitions: int = PARTITIONS, client: Mapping[str, str] | None = None
) -> dict[tuple[int, int], bytes]:
    """Everything that a consumer can read now, by partition and offset."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "log_level": 0, **(client or {})}
    consumer = Consumer(settings)
    places = [TopicPartition(topic, index, 0) for index in range(partitions)]
    ends = [eventually(lambda at=place: offsets_of(consumer, at), f"the end of {place}")[1] for place in places]
    consumer.assign(places)
    found: dict[tuple[int, int], bytes] = {}
    while len(found) < sum(ends):
        messages = consumer.consume(min(10_000, sum(ends) - len(found)), PATIENCE_S)
        assert messages, f"only {len(found)} of {sum(ends)} records can be read"
        for message in messages:
            assert message.error() is None, message.error()
            found[message.partition(), message.offset()] = message.value()
    consumer.close()
    return found


def offsets_of(consumer: Consumer, place: TopicPartition) -> tuple[int, int] | None:
    """None while a new leader does not know yet how far its predecessor had committed."""
    return answered(lambda: consumer.get_watermark_offsets(place, timeout=PATIENCE_S))


def answered(ask: Callable[[], T]) -> T | None:
    """What a cluster answers to librdkafka. None for now if the node that was asked dies or has another task since."""
    try:
        return ask()
    except KafkaException as fault:
        if fault.args[0].code() not in PASSING:
            raise
        return None


def check_replicas_identical(cluster: Cluster, topic: str, partitions: int = PARTITIONS) -> None:
    """Nobody writes and all are in sync, so what is below the high watermark is the whole log, on each node's disk."""
    for index in range(partitions):

        def look(name: str = f"{topic}-{index}") -> bool:
            first, *others = [stored(cluster, node_id, name) for node_id in range(1, len(cluster.ports) + 1)]
            return all(other == first for other in others)

        eventually(look, f"the same bytes on all replicas of {topic}-{index}")


def stored(cluster: Cluster, node_id: int, partition: str) -> bytes:
    folder = node_directory(cluster.data, node_id) / partition
    return b"".join(segment.read_bytes() for segment in sorted(folder.glob("*.log")))
