"""Numbers that programs copy from a topic to another in transactions, and whether each is in the output once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import Cluster
from tests.cluster.load import answered, eventually, offsets_of

PARTITIONS = 2
PATIENCE_S = 250
ATTEMPT_S = 20
_numbers = itertools.count()


class Copying:
    """An empty source and an empty target, with names that no other copying uses. Copiers commit offsets of `group`."""

    def __init__(self, cluster: Cluster, count: int) -> None:
        self.cluster, self.count = cluster, count
        name = f"copied-{next(_numbers)}"
        self.source, self.target, self.group = f"{name}-source", f"{name}-target", f"{name}-group"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        made = [NewTopic(self.source, PARTITIONS, 3), NewTopic(self.target, PARTITIONS, 3)]
        for creation in admin.create_topics(made).values():
            creation.result(PATIENCE_S)

    def transactional_id(self, index: int) -> str:
        return f"{self.group}-{index}"

    def fill(self) -> None:
        """The numbers below `count`, as text."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
        for number in range(self.count):
            producer.produce(self.source, str(number).encode(), partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    def abort(self, index: int) -> None:
        """Ends the open transaction of a copier that was killed, as the next user of its transactional id would.

        Nodes die meanwhile, and librdkafka may wait forever for a coordinator that did (librdkafka#5511), so a producer
        that has waited for a while is replaced by a new one.
        """
        settings = {"bootstrap.servers": self.cluster.bootstrap, "transactional.id": self.transactional_id(index)}

        def look() -> bool:
            try:
                Producer({**settings, "log_level": 0}).init_transactions(ATTEMPT_S)
            except KafkaException as fault:
                if not fault.args[0].retriable():
                    raise
                return False
            return True

        eventually(look, f"a new epoch of {self.transactional_id(index)}")

    def wait_for_output(self, more: int) -> None:
        """Until the target has grown, or all is copied: what is killed next is killed at work."""
        before = sum(ends(self.cluster, self.target, "read_uncommitted").values())

        def look() -> bool:
            now = sum(ends(self.cluster, self.target, "read_uncommitted").values())
            return now >= before + more or self.is_complete()

        eventually(look, f"{more} more records in {self.target}")

    def is_complete(self) -> bool:
        """The group's committed offsets are the ends of the source."""
        return sum(committed(self.cluster, self.group, self.source).values()) >= self.count

    def check(self) -> None:
        """Every number of the source is in the target, once, for readers of committed records."""

        def look() -> bool:
            both = [ends(self.cluster, self.target, each) for each in ("read_committed", "read_uncommitted")]
            return both[0] == both[1]

        eventually(look, f"the end of every transaction of {self.target}")
        found = Counter(values(self.cluster, self.target))
        expected = {str(number) for number in range(self.count)}
        doubled = [value for value, times in found.items() if times > 1]
        missing = expected - set(found)
        assert not missing, f"{len(missing)} of {self.count} are missing: {sorted(missing)[:5]}"
        assert not doubled, f"{len(doubled)} of {self.count} are there more than once: {sorted(doubled)[:5]}"
        assert set(found) == expected


def consumer_of(cluster: Cluster, isolation: str, group: str = "reader") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


def ends(cluster: Cluster, topic: str, isolation: str) -> dict[int, int]:
    consumer = consumer_of(cluster, isolation)
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    found = {at.partition: eventually(lambda at=at: offsets_of(consumer, at), f"the end of {at}")[1] for at in places}
    consumer.close()
    return found


def committed(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    consumer = consumer_of(cluster, "read_committed", group)
    wanted = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    places = eventually(lambda: answered(lambda: consumer.committed(wanted, PATIENCE_S)), f"the offsets of {group}")
    consumer.close()
    return {at.partition: max(at.offset, 0) for at in places}


def values(cluster: Cluster, topic: str) -> Iterator[str]:
    """Of all committed records. No transaction is open, so the end of a partition is the end of its log."""
    consumer = consumer_of(cluster, "read_committed")
    left = set(range(PARTITIONS))
    consumer.assign([TopicPartition(topic, index, 0) for index in left])
    while left:
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                yield message.value().decode()
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
    consumer.close()
