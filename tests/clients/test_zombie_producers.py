"""Producers that hang in the middle of a transaction, are replaced, and go on without knowing.

The first program is stopped by SIGSTOP while its transaction is open. A second one with the same transactional id does
the whole work and exits. Then the first one goes on: it writes the rest of its transaction, and commits it. Nothing of
that may reach the log, and the program is told that it is fenced.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import Cluster
from tests.clients.built import DRIVERS
from tests.clients.copier import LIBRARIES
from tests.clients.zombie import VALUES, WRITTEN
from tests.cluster.load import PATIENCE_S, eventually, offsets_of
from tests.oracle.jars import kafka_jars
from tests.oracle.message_oracle import JVM_OPTIONS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
# What each says when it is fenced. kafka-python first asks for a new epoch, and refuses to send until that is answered.
FENCED = {
    "chronik": ["Fenced"],
    "confluent": ["_FENCED"],
    "kafka-python": ["ProducerFencedError", "Cannot call send in state BUMPING_PRODUCER_EPOCH"],
    "aiokafka": ["ProducerFenced"],
    "java 4.3.1": ["InvalidProducerEpochException"],
    "java 3.9.1": ["InvalidProducerEpochException"],
}
_numbers = itertools.count()


class Written:
    """A topic of one partition, and a transactional id."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.topic = self._transactional_id = f"zombies-{next(_numbers)}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for creation in admin.create_topics([NewTopic(self.topic, 1, 1)]).values():
            creation.result(PATIENCE_S)

    @contextmanager
    def program(self, client: str) -> Iterator[subprocess.Popen[str]]:
        """Runs as far as the middle of its transaction."""
        where = (self._cluster.bootstrap, self.topic, self._transactional_id)
        if client in LIBRARIES:
            command = [sys.executable, "-m", "tests.clients.zombie", client, *where]
        else:
            jars = f"{kafka_jars(client.removeprefix('java '))}/*"
            source = str(DRIVERS / "java" / "Zombie.java")
            command = ["java", *JVM_OPTIONS, "-cp", jars, source, *where, str(len(VALUES))]
        pipe, both = subprocess.PIPE, subprocess.STDOUT
        with subprocess.Popen(command, cwd=REPOSITORY, stdin=pipe, stdout=pipe, stderr=both, text=True) as process:
            try:
                assert process.stdout is not None
                said = []
                while WRITTEN not in (line := process.stdout.readline()):
                    said.append(line)
                    assert line, "".join(said)
                yield process
            finally:
                process.kill()

    def end(self, isolation: str) -> int:
        with self._reader(isolation) as consumer:
            return eventually(lambda: offsets_of(consumer, TopicPartition(self.topic, 0)), "the end of the topic")[1]

    def values(self) -> Counter[bytes]:
        """What readers of committed records find, once every transaction has ended."""
        eventually(lambda: self.end("read_committed") == self.end("read_uncommitted"), "the end of every transaction")
        found: Counter[bytes] = Counter()
        with self._reader("read_committed") as consumer:
            at, end = TopicPartition(self.topic, 0, 0), self.end("read_uncommitted")
            consumer.assign([at])
            while consumer.position([at])[0].offset < end:
                found.update(message.value() for message in consumer.consume(100, 0.2) if message.error() is None)
        return found

    @contextmanager
    def _reader(self, isolation: str) -> Iterator[Consumer]:
        settings = {"group.id": "reader", "isolation.level": isolation, "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap, **settings})
        yield consumer
        consumer.close()


@pytest.mark.parametrize(
    "client", [pytest.param(each, marks=[pytest.mark.java] if each.startswith("java") else []) for each in FENCED]
)
def test_a_producer_that_was_replaced_while_it_hung_writes_nothing_more(cluster: Cluster, client: str) -> None:
    written = Written(cluster)
    with written.program(client) as zombie:
        zombie.send_signal(signal.SIGSTOP)
        with written.program(client) as successor:
            said, _ = successor.communicate("\n", PATIENCE_S)
            assert successor.returncode == 0, said
        expected = Counter(VALUES)
        assert written.values() == expected
        end = written.end("read_uncommitted")
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate("\n", PATIENCE_S)
        assert zombie.returncode != 0, "a fenced program ends as if it had done its work"
        assert any(words in said for words in FENCED[client]), said
    assert written.end("read_uncommitted") == end, "a fenced producer has written"
    assert written.values() == expected
